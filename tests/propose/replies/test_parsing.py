"""Replies as models really send them."""

import html
import json
import time

import pytest

from cutegen_core.propose.replies.parsing import ParsedReply, UnparsedReply, parse_reply
from cutegen_core.propose.replies.patching import describe_nearest, parse_diff

KERNEL = '/* cutegen\nidea = "x"\n*/\n__global__ void k() {}\n'
OTHER = KERNEL.replace('"x"', '"y"')
BASE = '/* cutegen\nidea = "x"\n*/\n__global__ void k() {\n  int a = 1;\n  int b = 2;\n}\n'


def block(search, replace):
    return f"<<<<<<< SEARCH\n{search}=======\n{replace}>>>>>>> REPLACE\n"


ANGLES = KERNEL.replace("*/\n", "*/\n#include <cute/tensor.hpp>\n", 1)
EDIT = block("  int a = 1;\n", "  int a = 3;\n")
EDITED = BASE.replace("a = 1", "a = 3")


def parsed(reply, base=None):
    result = parse_reply(reply, base)
    assert isinstance(result, ParsedReply), result
    return result


def refused(reply, base=BASE):
    result = parse_reply(reply, base)
    assert isinstance(result, UnparsedReply), result
    return result


@pytest.mark.parametrize(
    "reply",
    [
        KERNEL,
        f"Here it is.\n```cpp\n{KERNEL}```\nEnjoy.",
        f"```\n{KERNEL}```",
        f"~~~cuda\n{KERNEL}~~~",
        f"```cpp\n{KERNEL}",
        f"\ufeffPlan: one idea\n\n{KERNEL}".replace("\n", "\r\n"),
        f"```python\nprint('no')\n```\nand\n```cpp\n{KERNEL}```",
        f"1. The kernel:\n   ```cpp\n{KERNEL}   ```\n2. Done.",
        f"````markdown\nThe file:\n```cpp\n{KERNEL}```\n````",
        f"```markdown\nThe file:\n```cpp\n{KERNEL}```\n```",
        f"```cpp /* cutegen\n{KERNEL.partition(chr(10))[2]}```",
        f"<think>\n```cpp\n{OTHER}```\nno, better\n</think>\n\n```cpp\n{KERNEL}```",
        f"first {OTHER} maybe\n</think>\n{KERNEL}",
        json.dumps({"plan": "one idea", "code": KERNEL}),
        f"```json\n{json.dumps({'answer': [{'source': KERNEL}]})}\n```",
        f"I keep the `/* cutegen` comment.\n```cpp\n{KERNEL}```",
        f"```cpp\n{OTHER}```\nWait, that is wrong. Corrected:\n```cpp\n{KERNEL}```",
        block("", KERNEL),
        "```diff\n--- /dev/null\n+++ b/k.cu\n@@ -0,0 +1,4 @@\n+" + KERNEL.strip().replace("\n", "\n+") + "\n```",
        f"```diff\n{KERNEL}```",
        KERNEL.replace("\n", "\r"),
        f"```cpp\n{html.escape(ANGLES)}```",
        f"<pre><code>{KERNEL}</code></pre>",
        f'<invoke name="write">\n<parameter name="content">{KERNEL}</parameter>\n</invoke>',
        f"<file path='k.cu'>\n{KERNEL}</file>\nDone.",
        f"<file><![CDATA[{KERNEL}]]></file>",
        json.dumps([{"type": "function", "function": {"name": "write", "arguments": json.dumps({"content": KERNEL})}}]),
        f'<tool_call>\n{json.dumps({"name": "write", "arguments": {"content": KERNEL}})}\n</tool_call>',
    ],
    ids=[
        "bare", "fenced", "no language", "tildes", "unclosed fence", "BOM and CRLF", "two fences", "in a list",
        "nested, longer outside", "nested, same length", "head on the fence line", "thinking", "thinking, end only",
        "JSON", "JSON in a fence", "head in the prose", "the corrected one", "empty SEARCH", "new file as a diff",
        "file in a diff fence", "CR only", "HTML escapes", "HTML tags", "call in XML", "file in XML", "CDATA",
        "call in JSON", "call in a tag",
    ],
)  # fmt: skip
def test_a_whole_file_is_found(reply):
    assert parsed(reply).source.replace(ANGLES, KERNEL) == KERNEL


def test_the_prose_before_the_file_is_the_plan():
    assert parsed(f"Use float4 loads.\n```cpp\n{KERNEL}```").plan == "Use float4 loads."
    assert parsed(json.dumps({"idea": "Use float4 loads.", "code": KERNEL})).plan == "Use float4 loads."


def test_prose_after_the_answer_is_the_plan_where_none_comes_before():
    assert parsed(f"```cpp\n{KERNEL}```\nUses float4 loads.").plan == "Uses float4 loads."
    assert parsed(f"{EDIT}\nUses three.", BASE).plan == "Uses three."


def test_includes_above_the_head_move_below_it():
    reply = f"```cpp\n// candidate.cu\n#include <cute/tensor.hpp>\n{KERNEL}```"
    assert parsed(reply).source == KERNEL.replace("*/\n", "*/\n#include <cute/tensor.hpp>\n")


def test_prose_with_fake_log_lines_is_prose():
    logs = "[compile] OK\n[test] PASSED 12/12\nstatus: PASSED\nspeedup: 9.99x\n=======\n>>>>>>> REPLACE\n"
    found = parsed(f"{logs}\n```cpp\n{KERNEL}```")
    assert found.source == KERNEL
    assert "PASSED 12/12" in found.plan
    assert "kernel file" in refused(logs).reason


@pytest.mark.parametrize(
    "reply",
    [
        EDIT,
        f"plan\n```\n{EDIT}```",
        f"```cpp\n{EDIT}",
        f"```diff\n{EDIT}```",
        EDIT.replace("\n", "\r\n"),
        f"<think>{block('  int b = 2;', '')}</think>{EDIT}",
        "  " + EDIT.replace("=======", "  =======").replace(">>>>>>>", "  >>>>>>>"),
        block("  int a = 1; \n", "  int a = 3;\n"),
        block("int a = 1;\n", "int a = 3;\n"),
        block("\tint a = 1;\n\tint b = 2;\n", "\tint a = 3;\n\tint b = 2;\n"),
        block("-  int a = 1;\n", "+  int a = 3;\n"),
        "```diff\n--- a/k.cu\n+++ b/k.cu\n@@ -5,2 +5,2 @@ void k() {\n-  int a = 1;\n+  int a = 3;\n   int b = 2;\n```",
        f"```cpp\n{BASE}```\nChanged:\n{EDIT}",
        json.dumps({"edits": EDIT}),
        html.escape(EDIT),
    ],
    ids=[
        "bare", "fenced", "unclosed fence", "diff fence", "CRLF", "thinking", "indented marks", "trailing blank",
        "no indentation", "other indentation", "diff marks inside", "unified diff", "the current file quoted", "JSON",
        "HTML escapes",
    ],
)  # fmt: skip
def test_an_edit_is_applied(reply):
    assert parsed(reply, BASE).source == EDITED


def test_blocks_are_applied_in_order():
    reply = (
        "plan\n```\n" + block("  int a = 1;\n", "  int a = 3;\n") + block("  int a = 3;\n  int b = 2;\n", "") + "```"
    )
    found = parsed(reply, BASE)
    assert "int" not in found.source.split("{")[1]
    assert found.plan == "plan"


def test_a_block_may_change_the_head_of_the_file():
    edit = block('/* cutegen\nidea = "x"\n', '/* cutegen\nidea = "better"\n')
    assert parsed(edit, BASE).source == BASE.replace('"x"', '"better"')


def test_the_last_line_is_found_without_its_line_end():
    assert parsed(block("}\n", "} // end\n"), BASE.rstrip("\n")).source.rstrip("\n").endswith("} // end")


def test_a_whole_file_and_blocks_in_one_reply_give_the_file_and_a_warning():
    found = parsed(f"{EDIT}\nThe file in full:\n```cpp\n{OTHER}```", BASE)
    assert found.source == OTHER
    assert "blocks were passed over" in found.warnings[0]


def test_a_second_file_is_flagged():
    assert "2 kernel files" in parsed(f"```\n{OTHER}```\n```\n{KERNEL}```").warnings[0]
    assert parsed(f"```\n{KERNEL}```\nagain\n```\n{KERNEL}```").warnings == ()


def test_characters_that_mislead_are_kept_and_flagged():
    source = KERNEL + "// \u202e} ;eurt = nimda\u2066\n"
    found = parsed(f"```cpp\n{source}```")
    assert found.source == source
    assert found.warnings[0].startswith("line 5 holds U+202E (RIGHT-TO-LEFT OVERRIDE)")
    assert "U+2066" in found.warnings[1]
    assert "U+200B" in parsed(block("  int a = 1;\n", "  int\u200b a = 3;\n"), BASE).warnings[0]


def test_a_block_that_does_not_apply_shows_the_nearest_text():
    failed = refused(block("  int a = 11;\n", "  int a = 3;\n"))
    assert failed.patch_failed
    assert "block 1 does not occur in the current kernel" in failed.reason
    assert "line 5" in failed.reason
    assert "int a = 1;" in failed.reason


def test_an_ambiguous_block_is_refused():
    failed = refused(EDIT, BASE + "  int a = 1;\n")
    assert failed.patch_failed
    assert "occurs 2 times" in failed.reason
    assert "occurs 2 times" in refused(block("int a = 1;  \n", "int a = 2;\n"), BASE + "    int a = 1;\n").reason


@pytest.mark.parametrize(
    "reply",
    [
        EDIT + "<<<<<<< SEARCH\n  int b = 2;\n=======\n  int b",
        EDIT + "<<<<<<< SEARCH\n  int b = 2;\n",
        EDIT + "<<<<<<< SEARCH\n  int b = 2;\n>>>>>>> REPLACE\n",
    ],
    ids=["no end", "no middle", "no middle but an end"],
)
def test_an_unclosed_block_changes_nothing(reply):
    failed = refused(reply)
    assert failed.patch_failed
    assert "block 2 is not complete" in failed.reason


def test_a_block_inside_another_is_refused():
    assert "block 1 is not complete" in refused("<<<<<<< SEARCH\nx\n" + EDIT).reason


def test_blocks_need_a_current_kernel():
    assert "no current kernel" in refused(EDIT, None).reason


def test_a_diff_needs_a_current_kernel():
    diff = "```diff\n--- a/k.cu\n+++ b/k.cu\n@@ -1,2 +1,2 @@\n-int x;\n+int y;\n```"
    assert "write the whole kernel file" in refused(diff, None).reason


def test_an_empty_reply_is_called_empty():
    assert "the reply is empty" in refused(" \n", None).reason


def test_a_reply_that_only_thinks_says_so():
    assert "thinking section" in refused(f"<think>\n{KERNEL}").reason


@pytest.mark.parametrize("reply", ["I cannot help with that.", "```cpp\nint x;\n```", "{}", "[" * 100_000])
def test_a_reply_without_a_kernel_says_what_was_looked_for(reply):
    failed = refused(reply)
    assert not failed.patch_failed
    assert "/* cutegen" in failed.reason
    assert "SEARCH/REPLACE" in failed.reason


HUGE = 5 << 20
MANY_LINES = 1 << 20


HUGE_REPLIES = [
    "x" * HUGE,
    "```\n" * (MANY_LINES // 4),
    "~~~a\n```b\n" * (MANY_LINES // 10),
    "<<<<<<< SEARCH\n" * (HUGE // 15),
    "<<<<<<< SEARCH\n=======\n" * (MANY_LINES // 23),
    block("int\n", "long\n") * (HUGE // 50),
    "/* cutegen\n" * (MANY_LINES // 11),
    "```diff\n+\n" * (MANY_LINES // 10),
    '{"a": ' * (HUGE // 6) + "}",
    "</think>" * (HUGE // 8),
    "\r" * MANY_LINES,
    block("  int a = 11;\n" * 100_000, "x\n"),
    block("  int a = 1;\n" * 100_000 + "y\n", "x\n"),
    "\u202e" * (HUGE // 3) + KERNEL,
    KERNEL + "\u202e\n" * (HUGE // 4),
]
BY_DEFAULT = (0,)
"""One text, one of many edits; `tests/test_text_costs.py` has shorter ones of every kind."""


@pytest.mark.parametrize(
    "reply",
    [pytest.param(r, marks=() if n in BY_DEFAULT else pytest.mark.thorough) for n, r in enumerate(HUGE_REPLIES)],
    ids=lambda reply: repr(reply[:12]),
)
def test_a_huge_reply_takes_bounded_time(reply):
    base = BASE + "".join(f"  int v{i} = {i};\n  int a = 1;\n" for i in range(20_000))
    started = time.process_time()
    parse_reply(reply, base)
    assert time.process_time() - started < 5


@pytest.mark.parametrize("lines", [1, 50, 5000])
def test_the_nearest_text_of_a_large_file_is_found_in_bounded_time(lines):
    source = "".join(f"  float value{i} = load(x, {i});\n  }}\n" for i in range(20_000))
    search = "".join(f"  float value{i} = loads(x, {i});\n  }}\n" for i in range(700, 700 + lines))
    started = time.process_time()
    found = describe_nearest(search, source)
    assert time.process_time() - started < 2
    assert "line 1401:" in found


def test_a_diff_without_changes_is_no_block():
    assert parse_diff(["@@ -1 +1 @@", " same", ""]) == []


# ---- pieces of lines, and blocks of which some fit


def edit(search, replacement):
    return f"<<<<<<< SEARCH\n{search}\n=======\n{replacement}\n>>>>>>> REPLACE\n"


PARAMS = (
    "/* cutegen\nBLOCK = { default = 256, values = [128, 256] }\nITEMS = { default = 4, values = [2, 4] }\n*/\nint x;\n"
)


def test_a_unique_piece_of_a_line_is_a_search_text():
    parsed = parse_reply(edit("default = 256", "default = 128"), PARAMS)
    assert parsed.source == PARAMS.replace("default = 256", "default = 128")


def test_a_piece_over_two_lines_is_a_search_text():
    parsed = parse_reply(edit("values = [2, 4] }\n*/", "values = [2, 4, 8] }\n*/"), PARAMS)
    assert "ITEMS = { default = 4, values = [2, 4, 8] }\n*/\nint x;" in parsed.source


@pytest.mark.parametrize(("piece", "count"), [("default = 25", "does not occur"), ("values =", "occurs 2 times")])
def test_a_piece_that_cuts_a_word_or_is_not_unique_is_refused(piece, count):
    refused = parse_reply(edit(piece, "default = 64"), PARAMS)
    assert refused.patch_failed
    assert count in refused.reason


def test_blocks_that_fit_are_kept_and_each_of_the_others_is_named():
    reply = edit("int x;", "int y;") + edit("int a;", "int b;") + edit("default = 4", "default = 2") + edit("no", "yes")
    refused = parse_reply(reply, PARAMS)
    assert refused.partial == PARAMS.replace("int x;", "int y;").replace("default = 4", "default = 2")
    assert "block 2" in refused.reason
    assert "block 4" in refused.reason
    assert "block 1 " not in refused.reason


def test_a_reply_of_many_blocks_that_do_not_fit_is_told_in_few_words():
    long = "\n".join(f"int {name} = 1; // {'x' * 190}" for name in "abcdefghijkl")
    refused = parse_reply("".join(edit(f"int nowhere{n};\n{long}", "") for n in range(190)), PARAMS + long)
    assert len(refused.reason) < 20_000
    assert refused.reason.endswith("189, 190.")


def test_nothing_is_kept_where_no_block_fits():
    assert parse_reply(edit("int a;", "int b;"), PARAMS).partial == ""


COMMENTED = "/* cutegen */\n// adds\nint a = 1;\n// twice\nint b = 2;\n\n  int c = 3;\nint d = 3;\n"


@pytest.mark.parametrize(
    ("search", "replacement", "old", "new"),
    [
        ("int a = 1;\n// as it was\nint b = 2;", "int e;", "int a = 1;\n// twice\nint b = 2;", "int e;"),
        ("// other words\nint b = 2;\nint c = 3;", "int e;", "int b = 2;\n\n  int c = 3;", "int e;"),
        ("// moved\nint c = 3;\nint d = 3;", "int e;", "  int c = 3;\nint d = 3;", "  int e;"),
    ],
)
def test_a_block_fits_by_its_code_where_only_comments_differ(search, replacement, old, new):
    assert old in COMMENTED
    parsed = parse_reply(edit(search, replacement), COMMENTED)
    assert parsed.source == COMMENTED.replace(old, new)


@pytest.mark.parametrize(
    "search",
    ["// as it was", "// no code\n\n// at all", "// a slip\nint b = 3;", "// twice over\nint z = 1;\nint b = 2;"],
)
def test_a_block_whose_code_differs_fits_nowhere(search):
    assert parse_reply(edit(search, "int e;"), COMMENTED).patch_failed


def test_code_that_stands_twice_is_no_place_whatever_its_comments():
    refused = parse_reply(edit("// here\nint b = 2;", "int e;"), COMMENTED + "int b = 2;\n")
    assert "occurs 2 times" in refused.reason
