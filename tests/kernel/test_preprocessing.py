"""The identifiers of a kernel file are those a compiler sees, whatever splices, comments and texts say."""

from __future__ import annotations

from cutegen_core.kernel.kernel_file import parse
from cutegen_core.kernel.preprocessing import check_preprocessing, read_names
from tests.adversarial.files import relu


def test_names_come_from_code_and_directives_but_not_from_texts() -> None:
    kernel = parse(relu(before='#define own(a) a\n// commented\n/* away */\n__device__ char text[] = "quoted 1e5f";\n'
                               '#if defined(tested) && spl\\\niced\n#endif\n'))  # fmt: skip
    names = read_names(kernel)
    assert {"own", "tested", "spliced", "out", "f"} <= set(names.lines)
    assert not {"commented", "away", "quoted", "e5f", "spl", "iced"} & set(names.lines)
    assert names.own == {"own"}
    assert names.tested >= {"tested", "spliced"}
    assert "out" not in names.tested
    lines = kernel.text.splitlines()
    assert "tested" in lines[names.lines["tested"] - 1]
    assert "text" in lines[names.lines["text"] - 1]


def test_honest_macros_are_not_refused() -> None:
    honest = (
        "#define CEIL_DIV(a, b) (((a) + (b) - 1) / (b))\n#define FULL 0xffffffffu\n"
        "#ifndef M_PI\n#define M_PI 3.14\n#endif\n"
        "#define SUM(...) sum(__VA_ARGS__)\n#if __CUDA_ARCH__ >= 900\n#define FAST 1\n#else\n#define FAST 0\n#endif\n"
    )
    assert not check_preprocessing(parse(relu(before=honest)))


def test_a_file_of_a_megabyte_is_read_in_a_moment() -> None:
    body = "\n".join(f"__device__ int name_{k}; // {'x' * 20}" for k in range(20000))
    assert len(read_names(parse(relu(before=body))).lines) > 20000
