"""models.toml: what is written is read again, and what is wrong is named with its line."""

import tomllib

import pytest

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
