"""Find forbidden code in a kernel file before a compiler sees it, each with its line and what to write instead.

1. `blank_comments` blanks comments and string contents but keeps every line and column.
2. `screen` looks for host code, launches, foreign includes and constructs that only a host compiler understands.
Screening gives early, clear messages; the security boundary is the sandbox around the compilers and the runner.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import NamedTuple

from cutegen_core.kernel.kernel_file import KernelFile
from cutegen_core.kernel.lines import line_finder
from cutegen_core.records.trial import Diagnostic


class _Ban(NamedTuple):
    pattern: re.Pattern[str]
    message: str


_TOKEN = re.compile(
    r"//(?:[^\n\\]|\\.|\\\n)*|/\*.*?(?:\*/|\Z)"  # comments
    r'|\b(?:u8|[uUL])?R"(?P<tag>[^()\\\s"]{0,16})\(.*?(?:\)(?P=tag)"|\Z)'  # raw strings
    r'|"(?:[^"\\\n]|\\.|\\\n)*"|(?<![0-9a-fA-F])\'(?:[^\'\\\n]|\\.)+\'',
    re.DOTALL,
)
_PLAN_LAUNCHES = "the launch belongs into the plan: [[launch]] with kernel, grid, block and args"
_DEVICE_ONLY = "a kernel file holds device code only; memory, streams and launches are the workbench's"

_HOST_API = (
    r"\b(?:cuda(?:Malloc|Free|Memcpy|Memset|Launch|Device|Stream|Event|Func|Get|Set)\w*"
    r"|cu(?:MemAlloc|MemFree|Memcpy|Launch|ModuleLoad|StreamCreate|CtxCreate)\w*)\s*\("
)
_CONSTRUCTOR = r"__attribute__\s*\(\(\s*(?:con|de)structor|\binit_priority\b|\[\[\s*gnu\s*::\s*(?:con|de)structor"
_ASKS_FILES = r"\b__has_include(?:_next)?\b|\b__has_embed\b|#\s*embed\b|%:|\?\?="

_ASKS_WHO_READS = (
    r"\b(?:__clang\w*|__GNU[CG]\w*|__llvm__|__x86_64\w*|__linux\w*|__unix\w*|__ELF__|__VERSION__|__OPTIMIZE\w*"
    r"|__CUDACC\w*|__NVCC\w*|__NVCOMPILER\w*|__EDG\w*|__SANITIZE\w*|__GLIBC\w*|_LIBCPP\w*|_GNU_SOURCE|EMU_\w+"
    r"|__has_(?:feature|extension|builtin|attribute|cpp_attribute|c_attribute|declspec_attribute|warning)"
    r"|__is_identifier|__is_target_\w+|__building_module)\b"
)
_UNWATCHED = (
    r"\b_*(?:no_instrument_function|optnone|naked|vector_size"
    r"|ext_vector_type|matrix_type|_BitInt|_ExtInt|float80|float128)_*\b|\blong\s+double\b"
)

# A copy would lie in local memory, where the copy engine cannot read it.
_COPIED_TENSOR_MAP = r"[(,]\s*(?:const\s+)?(?:cute\s*::\s*)?(?:TmaDescriptor|CUtensorMap)\s+(?:const\s+)?\w+\s*(?=[,)])"

_CODE_RULES = tuple(
    _Ban(re.compile(pattern), message)
    for pattern, message in (
        (r'extern\s*""', 'extern "C" hides the parameter types: remove it, kernels need their C++ names'),
        (r"<<<", f"kernels are not launched here: {_PLAN_LAUNCHES}"),
        (r"\bmain\s*\(", f"there is no main: {_PLAN_LAUNCHES}"),
        (_HOST_API, f"a call of the CUDA host API: {_DEVICE_ONLY}"),
        (r"\b(?:torch|at|c10|pybind11)\s*::|\bPYBIND11_MODULE\b|\bTORCH_LIBRARY\b", f"torch: {_DEVICE_ONLY}"),
        (r"(?<!__device__ )__host__(?!\s*__device__)", f"a __host__ function: {_DEVICE_ONLY}"),
        (_ASKS_FILES, "the file system may not be asked about"),
        (r"#\s*include_next\b|#\s*import\b", "only #include <...> of the toolchain's headers is allowed"),
        (_CONSTRUCTOR, "code that runs by itself before or after the kernel is not allowed"),
        (_ASKS_WHO_READS, "'{}' tells compilers apart: the GPU and the emulator must get the same code"),
        (_UNWATCHED, "'{}' is not allowed: it goes round what watches memory, and no GPU has it"),
        (_COPIED_TENSOR_MAP, "take a tensor map as 'const __grid_constant__ CUtensorMap', in functions by reference"),
        (r"#\s*pragma\s+(?:GCC|clang|comment|weak|push_macro)\b", "pragmas of the host compiler are not allowed"),
    )
)
_TEXT_RULES = (
    _Ban(re.compile(r"\?\?[=/'()!<>-]"), "a trigraph: some compilers read '{}' as another character"),
    _Ban(re.compile(r"no_sanitize|disable_sanitizer"), "'{}' is not allowed: it switches off what watches memory"),
    _Ban(re.compile(r"\\[ \t]+(?=\r?\n)"), "blanks behind a backslash: some compilers join this line with the next"),
)
"""Searched in comments and strings too, because these constructs hide code there."""
_MOST_HITS = 100
_PASTING = re.compile(r"##|%:%:")
_CONDITION = re.compile(r"^[ \t]*#[ \t]*(?:if|elif)\b(?!n?def)", re.MULTILINE)
_PRAGMA_OPERATOR = re.compile(r"\b_Pragma\b|\b__pragma\b")
_UNROLL = re.compile(r'\s*\(\s*"\s*(?:no)?unroll\b')
_INCLUDE = re.compile(r"^[ \t]*#[ \t]*include\b[ \t]*(.*)$", re.MULTILINE)
_ALLOWED_INCLUDE = re.compile(
    r"<(?:(?:cute|cutlass|cuda|cub|thrust|cooperative_groups|nv)/[\w/.+-]+"
    r"|cuda_\w+\.h(?:pp)?|cooperative_groups\.h|mma\.h|math_constants\.h|vector_types\.h|cstdint|stdint\.h|cfloat|climits"
    r"|float\.h|limits\.h|type_traits|limits|utility|tuple|array|cmath|math\.h|stddef\.h|cstddef)>"
)
_BUILT_IN = re.compile(r"<(?:cstdio|stdio\.h|cassert|assert\.h|cstring|string\.h)>")
_ASSEMBLY = re.compile(r"\basm\b|\b__asm(?:__)?\b")
_HOST_DIRECTIVE = re.compile(
    r"\.(?:incbin|include|section|pushsection|popsection|quad|ascii|asciz|string|globl|macro)\b"
)


def blank_comments(text: str) -> str:
    """Return `text` with comments blanked and string literals emptied; length and line breaks stay the same."""

    def blank(match: re.Match[str]) -> str:
        token = match[0]
        spaces = re.sub(r"[^\n]", " ", token)
        quote = token[-1]
        if token.startswith(("//", "/*")) or len(token) < 2 or quote not in "\"'":  # the last: a text that stays open
            return spaces
        return quote * 2 + spaces[2:] if "\n" not in token else quote + spaces[1:-1] + quote

    return _TOKEN.sub(blank, text)


def screen(kernel: KernelFile) -> tuple[Diagnostic, ...]:
    """Return an error for each forbidden construct in the code below the plan, with its line in the file."""
    code = blank_comments(kernel.body)
    found = [
        *_find_forbidden(_CODE_RULES, code), *_find_forbidden(_TEXT_RULES, kernel.body),
        *_find_includes(kernel.body, code), *_find_assembly(kernel.body, code),
        *_find_pragmas(kernel.body, code), *_find_pasting(code),
    ]  # fmt: skip
    line_of = line_finder(code, kernel.body_line)
    lines = [(line_of(position), message) for position, message in sorted(found)]
    return tuple(Diagnostic(line, "error", message, "screening") for line, message in dict.fromkeys(lines))


def _find_forbidden(rules: Sequence[_Ban], text: str) -> Iterator[tuple[int, str]]:
    for rule in rules:
        for match in islice(rule.pattern.finditer(text), _MOST_HITS):
            yield match.start(), rule.message.replace("{}", match[0])


def _find_includes(body: str, code: str) -> Iterator[tuple[int, str]]:
    for match in _INCLUDE.finditer(code):
        # Find the include in the blanked text, where comments cannot hide one; read its name in the original.
        named = body[match.start(1) : match.end(1)].split("//")[0].split("/*")[0].strip()
        if ".." in named or not _ALLOWED_INCLUDE.fullmatch(named):
            known = "printf, assert and memcpy are there without an include; " if _BUILT_IN.fullmatch(named) else ""
            rule = "only <cute/...>, <cutlass/...> and <cuda...> headers can be included"
            yield match.start(), f"#include {named[:80]}: {known}{rule}"


def _find_assembly(body: str, code: str) -> Iterator[tuple[int, str]]:
    directives = list(_HOST_DIRECTIVE.finditer(body))
    starts = [directive.start() for directive in directives]
    ends = [semicolon.start() for semicolon in re.finditer(";", code)]
    for match in _ASSEMBLY.finditer(code):
        first, end = bisect_left(starts, match.end()), bisect_left(ends, match.end())
        if first < len(starts) and (end == len(ends) or starts[first] < ends[end]):
            found = directives[first][0]
            yield match.start(), f"inline assembly must be PTX; '{found}' is a directive of the host assembler"


def _find_pasting(code: str) -> Iterator[tuple[int, str]]:
    """Refuse `#if` in a file that pastes tokens: its condition could test a name that the file never spells out."""
    if _PASTING.search(code):
        for match in _CONDITION.finditer(code):
            yield match.start(), "#if in a file that pastes tokens with ## could ask for any name: write the names out"


def _find_pragmas(body: str, code: str) -> Iterator[tuple[int, str]]:
    for match in _PRAGMA_OPERATOR.finditer(code):
        if not _UNROLL.match(body, match.end()):
            yield match.start(), 'the only pragma an operator may hold is _Pragma("unroll")'
