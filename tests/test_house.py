"""The house stays in order: rooms a stranger takes in, names with one meaning, module names in strings that exist."""

import ast
import re
import subprocess
from collections import Counter, defaultdict
from functools import cache
from pathlib import Path

import pytest

from cutegen_core.records import errors
from tests.conftest import IMPORTED
from tests.places import ROOT

CODE = ("cutegen_core", "pages")
FILES_AT_THE_FRONT, FILES_IN_A_FOLDER, LAYERS = 12, 20, 16


@cache
def modules(rooms: tuple[str, ...] = CODE) -> tuple[Path, ...]:
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.py"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    )  # fmt: skip
    found = (ROOT / line for line in listed.stdout.splitlines() if line.startswith(rooms))
    return tuple(path for path in found if path.exists())


@cache
def nodes_of(path: Path) -> tuple[ast.AST, ...]:
    return tuple(ast.walk(ast.parse(path.read_text())))


def test_a_folder_holds_no_more_files_than_a_stranger_takes_in() -> None:
    files = [path.relative_to(ROOT) for path in modules((*CODE, "benchmarks")) if path.name != "__init__.py"]
    counted = Counter(path.parent.as_posix() for path in files)
    crowded = {folder: n for folder, n in counted.items() if n > FILES_IN_A_FOLDER and "catalogue" not in folder}
    assert crowded == {}
    assert counted["cutegen_core"] <= FILES_AT_THE_FRONT


def test_the_contract_of_rooms_is_short() -> None:
    text = (ROOT / "pyproject.toml").read_text()
    layers = re.search(r'name = "Rooms import downwards".*?layers = \[(.*?)\]', text, re.DOTALL)
    assert layers
    assert 0 < len(re.findall(r'"', layers[1])) // 2 <= LAYERS


def test_a_class_name_has_one_meaning() -> None:
    places: dict[str, list[str]] = defaultdict(list)
    for path in modules():
        if "catalogue" in path.parts:  # every reference is a `Model`, as in KernelBench
            continue
        for node in nodes_of(path):
            if isinstance(node, ast.ClassDef):
                places[node.name.lstrip("_")].append(f"{path.relative_to(ROOT)}:{node.lineno}")
    assert {name: found for name, found in places.items() if len(found) > 1} == {}


def test_modules_named_in_strings_exist() -> None:
    """A process started by a wrong name fails late; one that is recognised by a wrong name is never recognised."""
    wrong = []
    for path in modules():
        for node in nodes_of(path):
            value = node.value if isinstance(node, ast.Constant) else None
            text = value.decode(errors="replace") if isinstance(value, bytes) else value
            if isinstance(text, str) and re.fullmatch(r"cutegen_core(\.[a-z_]+)+\.?", text):
                target = ROOT / text.rstrip(".").replace(".", "/")
                if not target.is_dir() and not target.with_suffix(".py").exists():
                    wrong.append(f"{path.relative_to(ROOT)}:{node.lineno}: {text}")
    assert wrong == []


def test_files_named_from_a_module_s_own_place_exist() -> None:
    """A module that moves takes its `Path(__file__)` along, and the script that nobody runs often fails late."""
    wrong, seen = [], 0
    for path in modules((*CODE, "benchmarks", "tests", "docs", "assets", "app.py")):
        for node in nodes_of(path) if "__file__" in path.read_text() else ():
            if isinstance(node, ast.BinOp | ast.Subscript | ast.Attribute | ast.Call) and is_place(node):
                place = eval(ast.unparse(node), {"Path": Path, "__file__": str(path)})
                seen += 1
                if not place.exists():
                    wrong.append(f"{path.relative_to(ROOT)}:{node.lineno}: {ast.unparse(node)}")
    assert seen > 100
    assert wrong == []


def is_place(node: ast.AST) -> bool:
    """Tell whether an expression is a path that follows from `Path(__file__)` and constants alone."""
    if isinstance(node, ast.BinOp):
        return isinstance(node.op, ast.Div) and isinstance(node.right, ast.Constant) and is_place(node.left)
    if isinstance(node, ast.Subscript):
        parents, count = node.value, node.slice
        return isinstance(parents, ast.Attribute) and isinstance(count, ast.Constant) and is_place(parents.value)
    if isinstance(node, ast.Attribute):
        return node.attr == "parent" and is_place(node.value)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        fixed = node.func.attr in ("with_name", "with_suffix") and isinstance(node.args[0], ast.Constant)
        return fixed and is_place(node.func.value)
    return isinstance(node, ast.Call) and ast.unparse(node) == "Path(__file__)"


NO_VERBS = frozenset(
    """
    a an the this that these those its their his her their our your my it they we you i who whom whose what which
    whether how when where why one two three four five six seven eight nine ten both all each every everything everyone
    nothing nobody no none not some any many much more most few several another other others such same of in on at by
    for from with without to into onto through before after until since while as if than so but and or only also there
    here true false is are was were has had does did can could may might must should will would
    """.split()  # noqa: SIM905 - a list of quoted words is harder to read
)
"""Words that no imperative sentence begins with."""
VERBS_OF = ("return", "say", "need", "take", "tell")
"""Verbs that may stand before "of"; any other word there is a noun."""


def lacks_verb(docstring: str) -> bool:
    """Tell whether a docstring begins with something else than a verb, as far as its first two words show.

    D401 knows the wrong forms of some verbs only: "Returns", not "The median", "One row a case" or "Definitions of".
    """
    first, *rest = docstring.split()
    word = first.strip('.,:;!?()"').lower().removesuffix("'s")
    if not word.replace("-", "").isalpha() or not word.isascii():
        return True
    return word in NO_VERBS or bool(re.search("[^sui]s$", word)) or (rest[:1] == ["of"] and word not in VERBS_OF)


@pytest.mark.parametrize(
    ("docstring", "wrong"),
    [
        ("Return it.", False), ("Discuss it.", False), ("Focus the field.", False), ("Say of a run where.", False),
        ("The median.", True), ("One row a case.", True), ("Definitions of both.", True), ("Path of a file.", True),
        ("`run(x)`: a launch.", True), ("1-based line.", True), ("Writes it.", True), ("Everyone's share.", True),
    ],
)  # fmt: skip
def test_what_is_no_verb(docstring: str, wrong: bool) -> None:
    assert lacks_verb(docstring) is wrong


def test_docstrings_of_functions_begin_with_a_verb() -> None:
    """Properties are named by nouns; tests, whose names are sentences, and their helpers are left out."""
    found = []
    for path in modules((*CODE, "benchmarks", "docs", "app.py")):
        if {"catalogue", "recorded"} & set(path.parts):  # references in the words of KernelBench
            continue
        for node in nodes_of(path):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and (doc := ast.get_docstring(node)):
                of_noun = any("property" in ast.unparse(one) for one in node.decorator_list)
                if not of_noun and lacks_verb(doc):
                    found.append(f"{path.relative_to(ROOT)}:{node.lineno}: {doc.splitlines()[0]}")
    assert found == []


def raised(function: ast.FunctionDef) -> set[str]:
    """Return the errors that a function itself raises and none of its handlers takes."""
    found, waiting = set(), [(child, frozenset[str]()) for child in function.body]
    while waiting:
        node, taken = waiting.pop()
        if isinstance(node, ast.FunctionDef | ast.Lambda | ast.ClassDef):
            continue
        if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
            found |= {ast.unparse(node.exc.func).rpartition(".")[2]} - taken
        handled = [ast.unparse(one.type) for one in node.handlers if one.type] if isinstance(node, ast.Try) else []
        inside = taken | set(re.findall(r"\w+", " ".join(handled)))
        tried = {id(one) for one in node.body} if isinstance(node, ast.Try) else set()
        waiting += [(child, inside if id(child) in tried else taken) for child in ast.iter_child_nodes(node)]
    return found


def test_a_public_function_names_the_errors_of_ours_that_it_raises() -> None:
    """Who calls it must know; functions without a docstring, such as those of a protocol, are left out."""
    ours = {name for name, kind in vars(errors).items() if isinstance(kind, type)}
    silent = []
    for path in modules(("cutegen_core",)):
        for node in nodes_of(path):
            if isinstance(node, ast.FunctionDef) and not node.name.startswith("_") and ast.get_docstring(node):
                missing = {name for name in raised(node) & ours if name not in str(ast.get_docstring(node))}
                silent += [f"{path.relative_to(ROOT)}:{node.lineno} {node.name}: {name}" for name in missing]
    assert silent == []


def test_our_own_processes_on_a_gpu_are_recognised() -> None:
    from cutegen_core.execute.cuda import nvml
    from cutegen_core.judge.gpu import client

    started = re.findall(r'"(cutegen_core\.[a-z_.]+)"', Path(client.__file__).read_text())
    assert started
    for module in (*started, "cutegen_core.execute.cuda.runner"):
        assert any(module.encode().startswith(holder) for holder in nvml._HOLDERS), module


def test_collecting_the_tests_imports_nothing_heavy(request: pytest.FixtureRequest) -> None:
    """Every process of a run collects all tests, and each of these takes a second; `tests/later.py` imports later."""
    assert not {"torch", "streamlit", "openai"} & request.config.stash[IMPORTED]


def test_no_page_begins_work_that_the_end_of_the_server_would_wait_for() -> None:
    """A process waits for the threads of Python's pools; `machine.background` has others."""
    assert [
        str(path) for path in modules() if path.is_relative_to(ROOT / "pages") and "PoolEx" in path.read_text()
    ] == []


HURRIED = (
    r"assert .*(monotonic|perf_counter|time\.time)\(\).* <=? ?[\d.]+\b",  # processor time, or SOON_S
    r"assert .*\.wait\([\d.]+\)|\.join\([\d.]+\)",
    r"\btimeout=\d\d\b",
    r"(monotonic|perf_counter)\(\) \+ (\d{1,2}|[\d.]*\.[\d.]*)$",
    r"@settings\(.*deadline=\d",
    r"assert .*(bounding_box|scroll\w+|client(Width|Height)|getComputedStyle|page\.url\.)",  # wait_until, or expect
    r"assert .*\.count\(\) == [1-9]",
)


def test_no_test_fails_because_the_machine_is_busy() -> None:
    """A measurement in the middle of a drawing, or a short time on the clock, is red by luck. A GPU's tests time it."""
    found = []
    for path in sorted((ROOT / "tests").rglob("*.py")):
        if path.relative_to(ROOT / "tests").parts[0] in ("gpu", "data") or path == Path(__file__):
            continue
        for number, line in enumerate(path.read_text().splitlines(), 1):
            if any(re.search(pattern, line) for pattern in HURRIED):
                found.append(f"{path.relative_to(ROOT)}:{number}: {line.strip()}")
    assert found == []


FORBIDDEN = (
    r"\bwalk",  # step
    r"(?<!cutegen )(?<!`)\bdoctor\b(?!/)",  # system check
    r"\brewound\b",  # went back
    r"\bbeside\b(?! names)",  # vs, next to, with
    r"\bnot timed\b",  # not measured
    r"reference's (own )?error|× reference",  # x reference error, reference error
    r"\bis allowed \(|times what is allowed|error / allowed",  # tolerance
    r"\bx the speed\b|the strongest baseline",  # 1.92x faster, fastest baseline
    r"used of a 32-byte (?!\(load)|is what eager calls",  # bytes used per 32 B sector, same kernel as eager
    r"\bmend(s|ed)?\b|\bearlier steps\b",  # repair, optimization path
)
"""What no page, no printed line and no document says; behind each, the words of the field for it (docs/words.md)."""


LASTING = {
    "add_init_script",
    "add_locator_handler",
    "expose_binding",
    "expose_function",
    "on",
    "once",
    "route",
    "route_web_socket",
}
"""What stays with a tab for as long as it lives."""


def test_what_is_done_to_a_tab_for_good_is_done_to_the_tests_own() -> None:
    """The tab of the fixture `page` is that of the tests that follow, too."""
    found = []
    for path in sorted((ROOT / "tests" / "browser").glob("test_*.py")):
        for function in (node for node in nodes_of(path) if isinstance(node, ast.FunctionDef)):
            if "page" in {argument.arg for argument in function.args.args}:
                calls = (node.func for node in ast.walk(function) if isinstance(node, ast.Call))
                done = [one for one in calls if isinstance(one, ast.Attribute) and ast.unparse(one.value) == "page"]
                found += [f"{path.name}:{one.lineno} {one.attr}" for one in done if one.attr in LASTING]
    assert found == [], "use own_tab"


WIDGETS = {"checkbox", "combobox", "radio", "radiogroup", "slider", "spinbutton", "switch", "textbox"}


def test_a_field_is_looked_up_in_the_present_drawing() -> None:
    """While a page is drawn again, Streamlit keeps the old fields with the new ones: a test would find two."""
    found = []
    for path in sorted((ROOT / "tests" / "browser").glob("*.py")):
        calls = (node for node in nodes_of(path) if isinstance(node, ast.Call))
        for call in (one for one in calls if isinstance(one.func, ast.Attribute) and path.name != "driving.py"):
            of_found = isinstance(call.func.value, ast.Call)  # within what was found of the present drawing
            role = call.args[0] if call.func.attr == "get_by_role" and not of_found else None
            widget = role and (not isinstance(role, ast.Constant) or role.value in WIDGETS)
            if widget or call.func.attr in ("get_by_label", "get_by_placeholder"):
                found.append(f"{path.name}:{call.lineno} {call.func.attr}")
    assert found == [], "use widget_of, field_of or hinted_of of driving.py"


def test_no_field_is_given_its_value_at_every_drawing() -> None:
    """What a person enters meanwhile would be lost: a field that shows what the page knows has a key of `showing`."""
    found, fields = [], 0
    for path in sorted((ROOT / "pages").rglob("*.py")):
        for function in (node for node in nodes_of(path) if isinstance(node, ast.FunctionDef)):
            calls = [node for node in ast.walk(function) if isinstance(node, ast.Call)]
            keys = {ast.unparse(given.value) for call in calls for given in call.keywords if given.arg == "key"}
            fields += len(keys)
            puts = [call for call in calls if ast.unparse(call.func) in ("ui_state.put", "put")]
            found += [f"{path.name}:{one.lineno}" for one in puts if ast.unparse(one.args[0]) in keys]
    assert fields > 100, "the fields are found"
    assert found == []


def visible_texts(path: Path) -> list[tuple[int, str]]:
    """Return the strings of a module that are no docstrings and no names: those with a space, each with its line."""
    nodes = nodes_of(path)
    bodies = (node.body for node in nodes if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef))
    docs = {id(one.value) for body in bodies for one in body if isinstance(one, ast.Expr)}
    strings = (node for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str))
    return [(node.lineno, node.value) for node in strings if " " in node.value.strip() and id(node) not in docs]


def test_texts_use_the_words_of_the_field() -> None:
    texts = [(f"{path.relative_to(ROOT)}:{line}", text) for path in modules() for line, text in visible_texts(path)]
    read = (*(ROOT / "docs").glob("*.md"), ROOT / "README.md", *(ROOT / "cutegen_core/share/slides").rglob("*.jinja"))
    texts += [
        (f"{path.relative_to(ROOT)}:{number}", line)
        for path in read
        for number, line in enumerate(path.read_text().splitlines(), 1)
    ]
    assert len(texts) > 2000, "the texts are found"
    forbidden = re.compile("|".join(FORBIDDEN), re.IGNORECASE)
    assert [f"{where}: {text[:80]}" for where, text in texts if forbidden.search(text)] == []
