"""Every text from outside is read in time linear in its length: 1 MiB of anything in at most 2 s of a processor.

Each entry takes a text made of one unit repeated. A processor's time counts, as a quick core would take it: how slow
this one is just now, a loop tells. A text may be refused, by the error that its entry documents.
"""

import atexit
import json
import math
import signal
import tempfile
import time
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import pytest

from cutegen_core.evaluate.mutation.mutants import find_mutants
from cutegen_core.execute.compiler import compile_log
from cutegen_core.execute.compiler.includes import check_includes
from cutegen_core.execute.emulator import build, candidate_source, lexer
from cutegen_core.execute.emulator.asm_statements import AsmError, rewrite_asm
from cutegen_core.judge import problem_source
from cutegen_core.kernel import hunks, kernel_file
from cutegen_core.kernel.edit_words import say_edit
from cutegen_core.kernel.expressions import parse_expression
from cutegen_core.kernel.kernel_file import parse
from cutegen_core.kernel.screening import screen
from cutegen_core.machine.visible_text import escape_html, show_hidden
from cutegen_core.problems import read
from cutegen_core.propose.replies.parsing import parse_reply
from cutegen_core.records.errors import CutegenError
from cutegen_core.records.problem import Problem, Signature, TensorRole, TensorSpec
from cutegen_core.share.imports import import_path
from cutegen_core.share.imports.plain_cu import import_kernel
from cutegen_core.trajectory.store import Store
from cutegen_core.views.code_text import diff, highlight
from tests.places import DATA

RELU = (DATA / "relu.cu").read_text()
PROBLEM = "import torch\nN = 5\n{}\nclass Model(torch.nn.Module):\n    pass\ndef get_inputs():\n    return []\n"
WHOLE, LIMIT_S = (1 << 20) - (1 << 13), 2.0
"""A little less than a kernel file may have, since some entries put the text into one."""
SOME = WHOLE >> 6
"""In the default suite; a quadratic loop shows at this length, too."""

UNITS = {
    "opening": "(", "closing": ")", "bracket": "[", "brackets": "[[", "brace": "{", "closing brace": "}", "less": "<",
    "more": ">", "quote": '"', "apostrophe": "'", "comment": "/*", "comment's end": "*/", "comments": "/**/",
    "line comment": "//", "splice": "\\\n", "backslash": "\\", "hash": "#", "hashes": "#\n", "if": "#if 0\n",
    "include": "#include ", "letter": "a", "word": "a ", "line": "a\n", "digit": "9", "number": "1.e", "break": "\n",
    "blank": " ", "tab": "\t", "semicolon": ";", "comma": ",", "equals": "=", "assignment": "a = 1\n", "dash": "-",
    "search": "<<<<<<< SEARCH\n", "middle": "=======\n", "replace": ">>>>>>> REPLACE\n", "fence": "```\n",
    "diff": "```diff\n", "block": "<<<<<<< SEARCH\na\n=======\nb\n>>>>>>> REPLACE\n", "head": "/* cutegen\n",
    "think": "<think>", "thought": "</think>", "object": '{"a":', "list": "[1,", "asm": "asm(", "asms": 'asm("");',
    "operand": 'asm("" : "=r"(a));', "asm branches": 'asm("" :\n#if 1\n', "raw": 'R"(', "raw mark": 'R"a(', "shared":
    "__shared__ ", "shared variable": "__shared__ float a;\n", "extern shared": "extern __shared__ float a[];",
    "template": "template<", "global": "__global__ ", "kernel": "__global__ void f(", "attribute": "__attribute__((",
    "pragma": "#pragma ", "operator": "_Pragma(", "digraph": "%:", "trigraph": "??=", "marker": "@@ ", "accent": "é",
    "emoji": "🙂", "hidden": "\u200b", "scope": "::", "question": "a?", "call": "f(a,", "loop": "for(;;)",
    "if statement": "if(a)", "section": "[a]\n", "sections": "[[launch]]\n", "key": "a1 = 1\n", "table": "{a=",
    "sum": "1+", "call in python": "f(", "dict": "{1:", "lambda": "lambda:", "indent": "if 1:\n ", "not": "not ",
    "error": "a.cu(1): error: b\n", "note": "candidate.cu:1:2: note: b\n", "at line": "at line 1 of ", "instantiated":
    "detected during ", "ptxas": "ptxas info : b\n",
}  # fmt: skip


def with_body(text):
    return RELU[: RELU.index("*/") + 2] + "\nvoid relu();\n" + text


def translated(text):
    kernel = parse(with_body(text))
    candidate_source.translate(kernel.to_cpp(), kernel.kernel_names(), ())


def planned(text):
    kernel = parse(f"/* cutegen\n{text}\n*/\nvoid relu();")
    return kernel.to_cpp()


@cache
def one_store():
    folder = tempfile.TemporaryDirectory()
    atexit.register(folder.cleanup)
    return Store(Path(folder.name) / "store")


def imported(name, text):
    store = one_store()
    path = store.path.with_name(name)
    path.write_text(text)
    import_path(store, path)


PLAIN = "__global__ void k(const float* x, float* out, int n) { out[0] = x[0]; }\n"
SIGNATURES = {
    "benchmark": Signature(
        (TensorSpec("x", "float32", (4,)),), (TensorSpec("out", "float32", (4,), TensorRole.OUTPUT),)
    )
}


def plain(text):
    import_kernel(text, "plain.cu", Problem("relu", "", PROBLEM.format(""), "here", ()), SIGNATURES)


ENTRIES = {
    "a kernel file": parse,
    "a plan": planned,
    "a plan's list": lambda text: planned(f"[[launch]]\nkernel = 'relu'\ngrid = [{text}"),
    "a plan's text": lambda text: planned(f'idea = """{text}'),
    "code without its kernel": lambda text: parse(with_body(text).replace("void relu", "void other")),
    "a published node": lambda text: imported("node.json", json.dumps([{"src": text, "prev_src": f"a\n{text}"}])),
    "a published file": lambda text: imported("node.json", text),
    "a plain .cu": lambda text: plain(PLAIN + text),
    "a plain .cu's host code": lambda text: plain(
        f"{PLAIN}void f(const float* x, float* out, int n) {{ k<<<1, 1>>>(x, out, n); {text}"
    ),
    "a plain .cu's launch": lambda text: plain(
        f"{PLAIN}void f(const float* x, float* out, int n) {{ k<<<{text}, 1>>>(x, out, n); }}"
    ),
    "a recording": lambda text: imported("recording.jsonl", text),
    "an expression": parse_expression,
    "code that is screened": lambda text: screen(parse(with_body(text))),
    "includes": lambda text: check_includes(text, 1, ()),
    "code for the emulator": translated,
    "inline assembly": rewrite_asm,
    "tokens": lexer.tokenize,
    "mutants": lambda text: find_mutants(with_body(text[: len(text) // 4][: 1 << 15])),
    "hunks": lambda text: [h.title for h in hunks.split(RELU, text)],
    "hunks of a copy": lambda text: [h.title for h in hunks.split(text, text.replace(text[-9:], "") + "end")],
    "a reply": lambda text: parse_reply(text, RELU),
    "a reply with a file": lambda text: parse_reply(f"```\n{RELU}{text}", RELU),
    "a reply with a block": lambda text: parse_reply(f"<<<<<<< SEARCH\n{text}\n=======\nb\n>>>>>>> REPLACE\n", RELU),
    "a reply to a long file": lambda text: parse_reply("<<<<<<< SEARCH\na\n=======\nb\n>>>>>>> REPLACE\n", text),
    "a reply in JSON": lambda text: parse_reply(json.dumps({"text": f"/* cutegen {text}"}), RELU),
    "a reference": lambda text: problem_source.find_size_slots(problem_source.parse(PROBLEM.format(text), "here")),
    "a problem": lambda text: read.read(PROBLEM.format(text), "name", "here"),
    "a problem's workloads": lambda text: read.read(PROBLEM.format(f"WORKLOADS = {text}"), "name", "here"),
    "a diff": lambda text: diff.rows(RELU, text),
    "a diff of long lines": lambda text: diff.rows(f"a {text}", f"b {text}"),
    "a diff in parts": lambda text: diff.parts(RELU, with_body(text)),
    "an edit's name": lambda text: say_edit(RELU, text),
    "an edit's name in a body": lambda text: say_edit(with_body(f"a {text}"), with_body(f"b {text}")),
    "highlighted CUDA": highlight.lines,
    "highlighted Python": lambda text: highlight.lines(text, "python"),
    "highlighted SASS": lambda text: highlight.lines(text, "sass"),
    "a log of NVRTC": lambda text: compile_log.fold(text, parse(RELU)),
    "a log of clang": lambda text: build.read_diagnostics(text, ("relu",)),
    "kernels' names": kernel_file.find_global_functions,
    "a name with hidden characters": lambda text: (show_hidden(text), escape_html(text)),
}
BOUNDED_S = {
    name: 1.2 for name in ENTRIES if name.startswith(("highlighted", "a problem", "a reference", "mutants", "a plain"))
}
"""Entries that take longer for a character, and no text beyond a length of their own: their longest time."""
REFUSALS = (CutegenError, AsmError, candidate_source.SourceError)


class TooLongError(Exception):
    """The limit passed before the entry came back."""


@contextmanager
def cpu_limit(seconds):
    """Raise TooLongError inside the block once the process has used that much of a processor in it."""

    def stop(*_):
        raise TooLongError

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def seconds_of(entry, text, limit):
    """Return the processor time that an entry takes for a text; infinite where it does not come back."""
    begun = time.process_time()
    try:
        with cpu_limit(4 * limit):
            entry(text)
    except REFUSALS:
        pass
    except (TooLongError, RecursionError, MemoryError):
        return math.inf
    return time.process_time() - begun


LOOPS, LOOP_S = 200_000, 0.008
"""What a quick core takes for so many turns of a loop of Python: 40 ns for one."""


def slowness():
    """Return how many times as long as a quick core this one takes for a loop just now; at least 1."""
    begun = time.process_time()
    sum(i * i for i in range(LOOPS))
    return max(1.0, (time.process_time() - begun) / LOOP_S)


def quick_seconds_of(entry, text, limit):
    """Return the processor time that a quick core would take; measured without a loop if it is within the limit."""
    taken = seconds_of(entry, text, limit)
    return taken if taken <= limit or math.isinf(taken) else taken / slowness()


def slow_units(name, length, units):
    """Return the units of which a text of this length takes the entry longer than is linear, with the seconds.

    What is too long gets three more tries: the interpreter may have collected garbage, and on a busy machine two
    threads share a core's caches.
    """
    entry, limit = ENTRIES[name], LIMIT_S * length / WHOLE + BOUNDED_S.get(name, 0.05)
    slow = {}
    for what, unit in units:
        text = unit * (length // len(unit.encode()))
        tries = []
        while len(tries) < 4 and (not tries or tries[-1] > limit):
            tries.append(quick_seconds_of(entry, text, limit))
        if min(tries) > limit:
            slow[what] = round(min(tries), 3)
    return slow


@pytest.mark.parametrize("name", [name for name in ENTRIES if name not in ("highlighted Python", "highlighted SASS")])
def test_a_text_is_read_in_linear_time(name):
    """Every twelfth unit is an entry's, by turns: each unit is a twelfth of the entries'."""
    units = list(UNITS.items())[list(ENTRIES).index(name) % 12 :: 12]
    assert slow_units(name, SOME, units) == {}


def test_a_thousand_lines_that_repeat_are_compared_in_linear_time():
    """So many are compared as a whole, and each pair of equal lines costs."""
    assert slow_units("hunks of a copy", 9000, UNITS.items()) == {}


@pytest.mark.thorough
@pytest.mark.parametrize("name", ENTRIES)
def test_a_mebibyte_of_anything_is_read_in_two_seconds(name):
    assert slow_units(name, WHOLE, UNITS.items()) == {}
