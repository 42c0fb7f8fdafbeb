"""Replies as models really send them."""

import pytest

from cutegen_core.parsing import NotParsed, Parsed, parse_reply

KERNEL = '/* cutegen\nidea = "x"\n*/\n__global__ void k() {}\n'
BASE = '/* cutegen\nidea = "x"\n*/\n__global__ void k() {\n  int a = 1;\n  int b = 2;\n}\n'


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
    ],
    ids=["bare", "fenced", "no language", "tildes", "unclosed fence", "BOM and CRLF", "two fences"],
)
def test_a_whole_file_is_found(reply):
    parsed = parse_reply(reply, None)
    assert isinstance(parsed, Parsed)
    assert parsed.source == KERNEL


def test_the_prose_before_the_file_is_the_plan():
    parsed = parse_reply(f"Use float4 loads.\n```cpp\n{KERNEL}```", None)
    assert isinstance(parsed, Parsed)
    assert parsed.plan == "Use float4 loads."


def block(search, replace):
    return f"<<<<<<< SEARCH\n{search}=======\n{replace}>>>>>>> REPLACE\n"


def test_blocks_are_applied_in_order():
    reply = "plan\n```\n" + block("  int a = 1;\n", "  int a = 3;\n") + block("  int a = 3;\n  int b = 2;\n", "") + "```"
    parsed = parse_reply(reply, BASE)
    assert isinstance(parsed, Parsed)
    assert "int" not in parsed.source.split("{")[1]
    assert parsed.plan == "plan"


def test_a_block_that_does_not_apply_shows_the_nearest_text():
    parsed = parse_reply(block("  int a = 11;\n", "  int a = 3;\n"), BASE)
    assert isinstance(parsed, NotParsed)
    assert "block 1 does not occur in the current kernel" in parsed.reason
    assert "line 5" in parsed.reason
    assert "int a = 1;" in parsed.reason


def test_an_ambiguous_block_is_refused():
    parsed = parse_reply(block("  int a = 1;\n", "  long a = 1;\n"), BASE + "  int a = 1;\n")
    assert isinstance(parsed, NotParsed)
    assert "occurs 2 times" in parsed.reason


@pytest.mark.parametrize("reply", ["", "I cannot help with that.", "```cpp\nint x;\n```"])
def test_a_reply_without_a_kernel_says_what_was_looked_for(reply):
    parsed = parse_reply(reply, BASE)
    assert isinstance(parsed, NotParsed)
    assert "/* cutegen" in parsed.reason
    assert "SEARCH/REPLACE" in parsed.reason
