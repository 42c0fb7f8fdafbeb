"""models.toml: what is written is read again, and what is wrong is named with its line."""

import tomllib
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cutegen_core.propose.llm.model_settings import Models, ModelSettings, Role, SettingsError, read, write
from cutegen_core.records.errors import UsageError

LOCAL = ModelSettings("local", "http://localhost:8000/v1", "qwen")
FULL = ModelSettings(
    'cloud "A" \\',
    "https://api.openai.com/v1",
    "gpt/5",
    temperature=0.5,
    max_output_tokens=1000,
    context_tokens=9000,
    extra_body={"top_k": 20, "flag": True, "stop": ["a\n\x7f", "b"], "kw": {"enable thinking": False, "x": 0.5}},
    first_token_timeout_s=30,
    retries=0,
    price_in_per_million=1.25,
    price_out_per_million=10.0,
)


def test_what_is_written_is_read_again(tmp_path):
    file = tmp_path / "models.toml"
    models = Models((LOCAL, FULL), {Role.CODING: FULL.name, Role.PLANNING: "local"})
    write(models, file)
    assert read(file) == models
    assert tomllib.loads(file.read_text())["models"]["local"]["model"] == "qwen"
    write(Models((LOCAL,)), file)
    assert read(file) == Models((LOCAL,))
    assert list(tmp_path.iterdir()) == [file]


def test_the_workspace_has_none_at_first(tmp_path, monkeypatch):
    monkeypatch.setenv("CUTEGEN_HOME", str(tmp_path))
    assert read() == Models()
    with pytest.raises(UsageError, match="no language model is set up"):
        read().of(Role.PROPOSER)
    write(Models((LOCAL,)))
    assert read().of(Role.PROPOSER) == LOCAL


def test_a_role_nobody_chose_for_goes_to_the_first_model():
    models = Models((LOCAL, FULL), {Role.CODING: FULL.name})
    assert models.of(Role.CODING) == FULL
    assert all(models.of(role) == LOCAL for role in Role if role is not Role.CODING)
    with pytest.raises(UsageError, match=r"no model is called 'x'; there is local, cloud"):
        models.named("x")


GOOD = '[models.local]\nbase_url = "http://localhost:8000/v1"\nmodel = "qwen"\n'


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        (GOOD + "temprature = 1\n", 4, "unknown key 'temprature'; there is base_url"),
        (GOOD + "temperature = 3\n", 4, "temperature must be at least 0 and at most 2, not 3"),
        (GOOD + "# note\nmax_output_tokens = 0\n", 5, "must be above 0"),
        (GOOD + "max_output_tokens = true\n", 4, "must be a whole number"),
        (GOOD + "max_output_tokens = 70000\n", 4, "smaller than context_tokens"),
        (GOOD + "silence_timeout_s = nan\n", 4, "not nan"),
        (GOOD + 'retries = "3"\n', 4, "must be a whole number"),
        (GOOD + "price_in_per_million = 1\n", 4, "give both prices or none"),
        (GOOD + "extra_body = {messages = []}\n", 4, "must not hold 'messages'"),
        (GOOD + "extra_body = {day = 2026-01-01}\n", 4, "must be JSON"),
        (GOOD + "[models.local.extra_body]\nstream = false\n", 4, "must not hold 'stream'"),
        (GOOD + 'api_key = "sk-secret"\n', 4, "api_key does not belong here"),
        (GOOD + '[models."my model"]\nmodel = "x"\n', 4, 'lacks base_url'),
        (GOOD.replace("http://localhost:8000/v1", "localhost:8000"), 2, "must begin with http"),
        (GOOD.replace("localhost", "user:pw@localhost"), 2, "must not hold a user name"),
        (GOOD.replace("/v1", "/v1?key=1"), 2, "drop what follows"),
        (GOOD.replace(":8000", ":port"), 2, "is no address"),
        (GOOD.replace('"qwen"', '""'), 3, "one line of text"),
        (GOOD + '[roles]\ncooking = "local"\n', 5, "unknown role 'cooking'; there is proposer"),
        (GOOD + '[roles]\n\ncoding = "remote"\n', 6, "coding names the model 'remote'"),
        (GOOD + "[rolls]\n", 4, "unknown table 'rolls'"),
        (GOOD + "broken\n", 4, "line 4"),
        ("models = 5\n", 0, "must be tables"),
        ("[models]\nlocal = 5\n", 2, "must be a table"),
    ],
    ids=lambda value: "" if isinstance(value, str) and "\n" in value else str(value),
)  # fmt: skip
def test_an_error_names_file_line_and_key(tmp_path, text, line, words):
    file = tmp_path / "models.toml"
    file.write_text(text)
    with pytest.raises(UsageError) as caught:
        read(file)
    message = str(caught.value)
    assert message.startswith(str(file))
    assert words in message
    assert not line or f"line {line}" in message
    assert "sk-secret" not in message
    assert "pw" not in message


def test_a_file_that_is_no_text_is_named(tmp_path):
    file = tmp_path / "models.toml"
    file.write_bytes(b"\xff\xfe")
    with pytest.raises(UsageError, match="cannot be read"):
        read(file)


def test_a_form_is_told_which_field_is_wrong():
    with pytest.raises(SettingsError) as caught:
        ModelSettings("m", "http://localhost/v1", "m", connect_timeout_s=0)
    assert caught.value.key == "connect_timeout_s"


def test_a_null_in_extra_body_cannot_be_written(tmp_path):
    settings = ModelSettings("m", "http://localhost/v1", "m", extra_body={"seed": None})
    with pytest.raises(UsageError, match="null"):
        write(Models((settings,)), tmp_path / "models.toml")


BY_HAND = """\
# the GPU box under the desk
[models.local]  # fast
base_url = "http://localhost:8000/v1"
model = "qwen"  # 32 B
first_token_timeout_s = 30
extra_body.top_k = 20
# max_output_tokens = 16000

# only for hard ones
[models."the cloud"]
base_url = 'https://api.openai.com/v1'
model = "gpt"
[models."the cloud".extra_body]
seed = 1  # the same every time

[roles]  # who does what
coding = "the cloud"
"""


def change(file, **fields):
    models = read(file)
    write(replace(models, settings=(replace(models.settings[0], **fields), *models.settings[1:])), file)


def test_what_a_person_wrote_stays_as_it_is_but_for_what_changed(tmp_path):
    file = tmp_path / "models.toml"
    file.write_text(BY_HAND)
    write(read(file), file)
    assert file.read_text() == BY_HAND
    change(file, model="llama")
    assert file.read_text() == BY_HAND.replace('"qwen"', '"llama"')
    change(file, model="qwen", retries=1)
    assert file.read_text() == BY_HAND.replace("top_k = 20\n", "top_k = 20\nretries = 1\n", 1)
    change(file, retries=3)
    assert "retries = 3" in file.read_text(), "said before, so said still"


def test_a_model_is_added_dropped_and_called_something_else(tmp_path):
    file = tmp_path / "models.toml"
    file.write_text(BY_HAND)
    models = read(file)
    write(replace(models, settings=(*models.settings, LOCAL_TOO)), file)
    assert read(file).settings == (*models.settings, LOCAL_TOO)
    assert all(line in file.read_text() for line in BY_HAND.splitlines())
    write(models, file)
    assert read(file) == models
    assert all(line in file.read_text() for line in BY_HAND.splitlines())
    change(file, name="desk")
    assert "[models.desk]  # fast\n" in file.read_text()
    assert 'model = "qwen"  # 32 B\n' in file.read_text()
    write(Models(read(file).settings[:1]), file)
    assert [s.name for s in read(file).settings] == ["desk"]
    assert "roles" not in file.read_text()
    assert "# the GPU box under the desk" in file.read_text()


def test_a_comment_stays_above_what_it_is_about(tmp_path):
    file = tmp_path / "models.toml"
    by_hand = BY_HAND.replace("\n[roles]", "\n# the roles\n[roles]")
    file.write_text(by_hand)
    models = read(file)
    write(replace(models, settings=(*models.settings, LOCAL_TOO)), file)
    written = file.read_text()
    assert '# only for hard ones\n[models."the cloud"]\n' in written
    assert '# the same every time\n\n[models."local too"]\n' in written
    assert "\n\n# the roles\n[roles]  # who does what\n" in written
    write(replace(models, roles={Role.CODING: "local"}, settings=models.settings[:1]), file)
    assert "# the roles\n[roles]  # who does what\n" in file.read_text()


def test_a_file_that_cannot_be_read_is_not_written_over(tmp_path):
    file = tmp_path / "models.toml"
    for text in (b"broken", b"\xff"):
        file.write_bytes(text)
        with pytest.raises(UsageError, match=str(file)):
            write(Models((LOCAL,)), file)
        assert file.read_bytes() == text


LOCAL_TOO = ModelSettings("local too", "http://localhost:8001/v1", "qwen", retries=0)
WRITTEN = (
    "",
    "# nothing yet\n",
    BY_HAND,
    BY_HAND + '[models.b]\nbase_url = "http://b/v1"\nmodel = "b"\n',
    BY_HAND.replace("\n", "\r\n"),
    'models.local.base_url = "http://a/v1"\nmodels.local.model = "a"\nroles.coding = "local"\n',
    'models = {local = {base_url = "http://a/v1", model = "a", extra_body = {x = 1}}}\nroles = {coding = "local"}',
    '[models]\nlocal.base_url = "http://a/v1"\nlocal.model = "a"\nb = {base_url = "http://b/v1", model = "b"}\n',
    '[models.local.extra_body]\nx.y = 1\n[models.local]\nbase_url = "http://a/v1"\nmodel = "a"\n[models.b.extra_body]\n'
    '[models.b]\nmodel="b"\nbase_url = "http://b/v1"',
)  # fmt: skip
FLOATS = st.floats(allow_nan=False, allow_infinity=False)
JSON = st.recursive(
    st.booleans() | st.integers(-(2**63), 2**63 - 1) | FLOATS | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)  # fmt: skip


@st.composite
def settings_of_a_name(draw, name):
    prices = draw(st.none() | st.tuples(st.floats(0, 1e3), st.floats(0, 1e3))) or (None, None)
    return ModelSettings(
        name,
        draw(st.sampled_from(["http://localhost:8000/v1", "https://api.openai.com/v1"])),
        draw(st.text("ab \"\\#'é", min_size=1).filter(str.strip)),
        temperature=draw(st.none() | st.floats(0, 2)),
        context_tokens=draw(st.sampled_from([65536, 9000])),
        extra_body=draw(
            st.dictionaries(st.text(max_size=5).filter(lambda k: k not in ("n", "model")), JSON, max_size=3)
        ),
        retries=draw(st.integers(0, 10)),
        price_in_per_million=prices[0],
        price_out_per_million=prices[1],
    )


@st.composite
def models(draw):
    names = draw(st.lists(st.sampled_from(["local", "the cloud", "b", 'q"#', "new"]), unique=True, max_size=4))
    roles = draw(st.dictionaries(st.sampled_from(list(Role)), st.sampled_from(names), max_size=3)) if names else {}
    return Models(tuple(draw(settings_of_a_name(name)) for name in names), roles)


@given(text=st.sampled_from(WRITTEN), first=models(), second=models())
@settings(max_examples=40)
def test_whatever_stood_there_what_is_written_is_read_again(tmp_path_factory, text, first, second):
    file = tmp_path_factory.getbasetemp() / "whatever.toml"
    file.write_text(text, newline="")
    read(file)
    for made in (first, second, first):
        write(made, file)
        assert read(file) == made
