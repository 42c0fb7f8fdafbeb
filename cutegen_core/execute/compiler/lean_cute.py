"""Rewrite or leave out some of CuTe's headers so that the same types and values take the compiler less work.

1. Most of CuTe's algebra of layouts has results that their types say alone. CuTe computes them nevertheless: the
   compiler emits and optimises thousands of functions that return nothing. Here such a function is instantiated for its
   type, its static assertions included, but not called. No line moves: what is added stands in front of a line.
2. CuTe asks variables which elements of a tuple are empty. NVRTC puts each into the cubin, which the driver links
   whenever it loads the module: thousands for a tensor-core kernel. Here types say it.
3. Layouts whose shapes and strides are constants are composed, inverted and completed by value: by one function of
   `prelude/cutegen_static_layouts.cuh` each, where CuTe goes through dozens of types.
4. What a coordinate keeps of a tuple (`slice`, `dice`) is found by types and taken at once, and a flat tiler unzips a
   layout at once: `prelude/cutegen_slices.cuh`. CuTe goes through a dozen functions for each level.
5. Half of CuTe's text is about the matrix instructions of Hopper's warpgroups and of Blackwell. A program that names
   none of them is compiled without it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from cutegen_core.records.errors import MachineError

_PRELUDE = Path(__file__).parent / "prelude"
_STATIC_LAYOUTS, _SLICES = _PRELUDE / "cutegen_static_layouts.cuh", _PRELUDE / "cutegen_slices.cuh"
HEADERS = (_STATIC_LAYOUTS, _SLICES)
"""What CuTe's rewritten headers include."""
TESTED = "nvidia-cutlass==4.2.0.0"
_WITH_STATIC_RESULTS = (
    "composition", "complement", "right_inverse", "left_inverse", "coalesce", "coalesce_x", "composition_impl",
    "logical_divide", "zipped_divide", "tiled_divide", "flat_divide", "logical_product", "zipped_product",
    "tiled_product", "blocked_product", "raked_product", "filter", "max_common_layout", "max_common_vector", "cosize",
    "coshape", "tile_unzip", "zip",
)  # fmt: skip
_FUNCTION = re.compile(
    r"^(?P<head>template <[^;{}/]*?>)\nCUTE_HOST_DEVICE constexpr\nauto\n"
    rf"(?P<name>{'|'.join(_WITH_STATIC_RESULTS)})\((?P<parameters>[^;{{}}/]*?)\)\n\{{",
    re.MULTILINE,
)
_NUMBERS = re.compile(r"\bint\.\.\. (\w+)")
_PARAMETER = re.compile(r"(\w+)(?=,|$)")
_ARGUMENTS = re.compile(r"<[^<>]*>")
# Each element of a tuple takes two functions, and a tuple is recognised by a search for what tells its size.
_ELEMENT = re.compile(
    r"return eso::getv_(?P<how>cr|r|rr)<I>\((?P<tuple>.*)\);|^template <class T>\nstatic constexpr bool is_tuple_v"
    r"|(?P<storage>^template <class\.\.\. T>\nusing ESO_t = )ESO<.*;",
    re.MULTILINE,
)
_STORAGE = (
    "template <class First, class... Rest> struct ESO_of { "
    "using type = ESO<cute::is_empty<First>::value, (cute::is_empty<Rest>::value && ...), First, Rest...>; }; "
)
_REFERENCE = {"cr": "const&", "r": "&", "rr": "&&"}

_LAYOUT, _TUPLE = "cute/layout.hpp", "cute/container/tuple.hpp"
_UNDERSCORE, _ALGORITHMS = "cute/underscore.hpp", "cute/algorithm/tuple_algorithms.hpp"
_BY_VALUE = {
    ("coalesce", "Layout const& layout"): (
        "KnownShape<Shape, Stride>", "make<by_value::Join<Shape, Stride, false>>(layout.stride())",
    ),
    ("coalesce_x", "Layout const& layout"): (
        "KnownShape<Shape, Stride>", "make<by_value::Join<Shape, Stride, true>>(layout.stride())",
    ),
    ("right_inverse", "Layout const& layout"): (
        "Known<Shape, Stride>", "Written<by_value::Invert<Shape, Stride>>{}",
    ),
    ("composition", "Layout const& lhs, Layout const& rhs"): (
        "KnownComposed<LShape, LStride, RShape, RStride>",
        "Composed<LShape, LStride, RShape, RStride>::get(lhs.stride())",
    ),
    ("complement", "Layout const& layout, CoTarget const& cotarget"): (
        "KnownComplete<Shape, Stride, CoTarget>", "Written<by_value::Complete<Shape, Stride, CoTarget>>{}",
    ),
}  # fmt: skip
"""A function's name and parameters -> which condition of the header tells that its result is known, and the result."""
_SLICE = re.compile(r"return filter_tuple\(a, b, \[\]\([^()]*\) \{ return detail::lift_(?P<how>slice|dice)\(")
_UNZIP = re.compile(
    r"// zip2_by produces the modes.*(?P<rest>\n.*split = [\s\S]*?cute::make_tuple\(get<1>\(get<Is>\(split\)\).*;)\n"
)
_UNZIP_FLAT = (
    "if constexpr ((!is_tuple<tuple_element_t<Is, TG>>::value && ...) && "
    "((tuple_size<tuple_element_t<Is, T>>::value == 2) && ...)) { return cute::make_tuple("
    "cute::make_tuple(get<0>(get<Is>(t))...), cute::make_tuple(get<1>(get<Is>(t))..., get<Js>(t)...)); } else {"
)
_BEGIN = "\n\nnamespace cute\n"
CHANGES = {_LAYOUT: 34, _TUPLE: 5, _UNDERSCORE: 3, _ALGORITHMS: 1}
"""Headers that are rewritten -> how many places of the tested version."""

_MATRIX = (
    "mma_traits_sm90_gmma.hpp", "mma_traits_sm100.hpp", "mma_traits_sm120.hpp", "mma_traits_sm120_sparse.hpp",
    "copy_traits_sm100.hpp", "copy_traits_sm100_tma.hpp",
)  # fmt: skip
_OTHERS_THERE = "".join(
    f"#include <cute/{header}.hpp>\n" for header in ("arch/cluster_sm90", "arch/simd_sm100", "atom/partitioner")
)
"""What only the headers of _MATRIX include, but is not about their instructions."""
_NAMES_MATRIX = re.compile(
    # How each of their names begins or ends, or that of the namespace it lies in.
    r"gmma|(?<!s)umma|tmem|utccp|tile_to_mma_shape|(?-i:SM90::)|sm90_\d+x|sm1\d\d"
    # A name made by a macro, and CUTLASS's own parts.
    r"|##|%:%:|include\s*[<\"]cutlass/(?!arch/)\w+/",
    re.IGNORECASE,
)


def leave_out(program: str) -> Mapping[str, str]:
    """Return what takes the place of CuTe's headers that a program does without: their names -> their text."""
    return {} if _NAMES_MATRIX.search(program) else {f"cute/atom/{header}": _OTHERS_THERE for header in _MATRIX}


def read_lean(include: Path) -> dict[str, str]:
    """Return the headers of CHANGES of the CUTLASS below `include`, rewritten.

    Raises:
        MachineError: a header differs from that of the tested version.
    """
    return {header: rewrite(header, (include / header).read_text()) for header in CHANGES}


def rewrite(header: str, text: str) -> str:
    """Return the text of a header of CHANGES, rewritten.

    Raises:
        MachineError: it differs from that of the tested version.
    """
    if header == _TUPLE:
        lean, changed = _ELEMENT.subn(_simplify_tuple, text)
    elif header == _UNDERSCORE:
        lean, changed = _SLICE.subn(_slice, _include(_SLICES, text))
        changed += text.count(_BEGIN)
    elif header == _ALGORITHMS:
        lean, changed = _UNZIP.subn(lambda found: f"{_UNZIP_FLAT}{found['rest']} }}\n", text)
    else:
        lean, changed = _FUNCTION.subn(_wrap, _include(_STATIC_LAYOUTS, text))
        changed += text.count(_BEGIN)
    if changed != CHANGES[header]:
        raise MachineError(f"{header} does not read as in the tested version. Install it: pip install {TESTED}")
    return lean


def _include(header: Path, text: str) -> str:
    """Include a header of ours in place of the blank line in front of CuTe's namespace."""
    return text.replace(_BEGIN, f"\n#include <{header.name}>{_BEGIN[1:]}")


def _slice(found: re.Match[str]) -> str:
    kept = f"by_place::keep<{str(found['how'] == 'slice').lower()}, A>(b)"
    return f"if constexpr (by_place::Known<A, B>::value) {{ return {kept}; }} else {found[0]}"


def _wrap(function: re.Match[str]) -> str:
    """Put a function in front that calls the given one, renamed, if its type leaves something to compute."""
    head, name = " ".join(function["head"].split()), function["name"]
    parameters = " ".join(function["parameters"].replace("[[maybe_unused]]", "").split())
    plain = parameters
    while _ARGUMENTS.search(plain):
        plain = _ARGUMENTS.sub("", plain)
    explicit = ", ".join(f"{numbers}..." for numbers in _NUMBERS.findall(head))
    call = f"computed_{name}{f'<{explicit}>' if explicit else ''}({', '.join(_PARAMETER.findall(plain))})"
    written = function[0].replace(f"\n{name}(", f"\ncomputed_{name}(")
    signature = f"{head} CUTE_HOST_DEVICE constexpr auto"
    known, result = _BY_VALUE.get((name, plain), ("", ""))
    by_value = f"if constexpr (by_value::{known}::value) {{ return by_value::{result}; }} else " if known else ""
    return (
        f"{signature} computed_{name}({parameters}); {signature} {name}({parameters}) {{ {by_value}{{ "
        f"using R = decltype({call}); if constexpr (is_static<R>::value) {{ return R{{}}; }} else {{ return {call}; }} "
        f"}} CUTE_GCC_UNREACHABLE; }} {written}"
    )


def _simplify_tuple(found: re.Match[str]) -> str:
    if found["storage"]:
        return f"{_STORAGE}{found['storage']}typename ESO_of<T...>::type;"
    if not found["how"]:
        return f"template <class... T> struct is_tuple<tuple<T...>> : true_type {{}}; {found[0]}"
    reference = _REFERENCE[found["how"]]
    return (
        "using E = typename CUTE_STL_NAMESPACE::tuple_element<I, cute::tuple<T...>>::type; "
        "if constexpr (cute::is_empty<E>::value) { return E{}; } else { "
        f"return eso::getr<E {reference}, I>({found['tuple']}); }}"
    )
