"""Layouts of kernels: found in their text, evaluated by CuTe itself, counted against the rules of shared memory."""

from __future__ import annotations

import pytest

from cutegen_core.execute.executors.cpu import CpuExecutor
from cutegen_core.machine import device
from cutegen_core.records.errors import UsageError
from cutegen_core.views.layouts import LayoutTable, Partition, Pattern, bank, conflicts, evaluate, find
from tests.places import KERNELS
from tests.shared_tools import SharedTools

H100 = device.KNOWN["sm_90a"]
ROWS_OF_64_HALVES = LayoutTable(8, 64, tuple(i * 64 + j for j in range(64) for i in range(8)))
FLOATS = LayoutTable(32, 32, tuple(i * 32 + j for j in range(32) for i in range(32)))
PADDED = LayoutTable(32, 32, tuple(i * 33 + j for j in range(32) for i in range(32)))


@pytest.fixture(scope="module")
def executor(shared: SharedTools) -> CpuExecutor:
    return shared.executor


def test_a_kernels_layouts_are_found_with_what_they_need() -> None:
    found = {d.name: d for d in find((KERNELS / "gemm_bf16.cu").read_text(), {})}
    assert {"tile", "loaders", "load", "product", "read_a", "read_b"} <= set(found)
    assert "my_load" not in found
    assert found["load"].line == 44
    needed = " ".join(found["load"].before)
    for name in ("using Element =", "DEPTH = 32", "WIDTH = 16 / sizeof(Element)", "using Load =", "auto loaders ="):
        assert name in needed
    assert "STAGES" not in needed


def test_parameters_are_constants_and_types_are_constructed() -> None:
    source = "using Tile = Layout<Shape<Int<BM>, _8>>; auto moving = make_layout(make_shape(threadIdx.x, _8{}));"
    (found,) = find(source, {"BM": 64})
    assert (found.expression, found.before[0]) == ("Tile{}", "constexpr auto BM = 64;")


def test_a_swizzle_frees_the_rows_that_ldmatrix_reads(executor: CpuExecutor) -> None:
    plain, swizzled = (
        evaluate(executor, H100, expression)[0]
        for expression in (
            "make_layout(make_shape(_8{}, _64{}), LayoutRight{})",
            "composition(Swizzle<3, 3, 3>{}, make_layout(make_shape(_8{}, _64{}), LayoutRight{}))",
        )
    )
    assert plain == ROWS_OF_64_HALVES
    assert isinstance(swizzled, LayoutTable)
    assert [swizzled.offset(row, 0) for row in range(4)] == [0, 72, 144, 216]
    assert sorted(swizzled.offsets) == list(range(512))
    assert (conflicts(plain, 2, 8, Pattern.DOWN_COLUMN), conflicts(swizzled, 2, 8, Pattern.DOWN_COLUMN)) == (8, 1)


def test_a_tensor_core_fragment_is_the_one_the_instruction_set_documents(executor: CpuExecutor) -> None:
    """PTX ISA, "Matrix Fragments for mma.m16n8k16": row = lane / 4 (+ 8 for c2, c3), column = lane % 4 * 2 + c % 2."""
    pictures = evaluate(executor, H100, "make_tiled_mma(MMA_Atom<SM80_16x8x16_F32BF16BF16F32_TN>{})")
    parts = {part.operand: part for part in pictures if isinstance(part, Partition)}
    accumulator = parts["C"]
    assert (accumulator.rows, accumulator.cols, accumulator.threads, accumulator.values) == (16, 8, 32, 4)
    for lane in range(32):
        for c in range(4):
            row, column = lane // 4 + 8 * (c // 2), lane % 4 * 2 + c % 2
            assert accumulator.owners[row + 16 * column] == ((lane, c),)
    assert (parts["A"].rows, parts["A"].cols, parts["B"].rows, parts["B"].cols) == (16, 16, 8, 16)


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("make_layout(make_shape(m, _8{}))", "m is known only at run time"),
        ("make_layout(_65536{})", "too large to be drawn"),
        ("42", "does not compile"),
        ("", "write one CuTe expression"),
        ("make_layout(_8{}); asm volatile(\"trap;\")", "write one CuTe expression"),
        ("make_layout(_8{})\n#include \"/etc/passwd\"\n", "cannot be evaluated"),
    ],
)  # fmt: skip
def test_what_cannot_be_drawn_says_why(executor: CpuExecutor, expression: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        evaluate(executor, H100, expression)


@pytest.mark.parametrize(
    ("table", "itemsize", "width", "pattern", "ways"),
    [
        (FLOATS, 4, 1, Pattern.ALONG_ROW, 1),
        (FLOATS, 4, 1, Pattern.DOWN_COLUMN, 32),
        (PADDED, 4, 1, Pattern.DOWN_COLUMN, 1),
        (FLOATS, 4, 4, Pattern.ALONG_ROW, 1),
        (FLOATS, 4, 4, Pattern.DOWN_COLUMN, 8),
        (FLOATS, 8, 1, Pattern.ALONG_ROW, 1),
        (ROWS_OF_64_HALVES, 2, 1, Pattern.ALONG_ROW, 1),
        (LayoutTable(32, 1, (0,) * 32), 4, 1, Pattern.DOWN_COLUMN, 1),
    ],
)  # fmt: skip
def test_bank_conflicts(table: LayoutTable, itemsize: int, width: int, pattern: Pattern, ways: int) -> None:
    assert conflicts(table, itemsize, width, pattern) == ways
    assert bank(33, 4) == 1


def test_an_access_no_hardware_has_is_refused() -> None:
    with pytest.raises(UsageError, match="8 elements of 4 bytes are no access"):
        conflicts(FLOATS, 4, 8, Pattern.ALONG_ROW)
    with pytest.raises(UsageError, match="cannot be cut into groups of 4"):
        conflicts(LayoutTable(2, 3, tuple(range(6))), 4, 4, Pattern.ALONG_ROW)
