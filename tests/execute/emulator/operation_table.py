"""A kernel that evaluates operations with one right result (integers, conversions, roundings), as an H200 does them.

`python -m tests.execute.emulator.operation_table` on a machine with a GPU (sm_90a) records its results anew.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from cutegen_core.records.launch import LaunchPlan
from tests.execute.emulator.emulated import kernel, one
from tests.execute.emulator.on_gpu import run_on_gpu
from tests.places import DATA

RECORDED = DATA / "operations_h200.npz"
COUNT = 288
_ROUNDINGS = ("rn", "rz", "ru", "rd")
_KEEP = {
    "int": "(unsigned long long)(unsigned)({})", "long": "(unsigned long long)({})",
    "float": "(unsigned long long)__float_as_uint({})", "double": "(unsigned long long)__double_as_longlong({})",
}  # fmt: skip
"""How a result of a kind is kept as 64 bits."""
_SMALL = {
    "half": ("__half_as_ushort({}({}))", "h"),
    "bfloat16": ("__bfloat16_as_ushort({}({}))", "g"),
}


class Operation(NamedTuple):
    """An expression of a, b, c (float), i, j, k (int), l, m (long long), d, e (double), h.. (half) and g.. (bfloat16).

    Attributes:
        kind: of its result, in `_KEEP`.
        before: statements in front of it.
    """

    name: str
    expression: str
    kind: str
    before: str = ""


def _integers() -> Iterator[Operation]:
    for given, names in {
        "i": "__ffs __clz __popc __brev abs __vnegss4 __vabs2 __vabsss4",
        "i, j": "__mulhi __umulhi __mul24 __umul24 __hadd __rhadd __uhadd __urhadd min max __vadd2 __vsub2 __vavgs2 "
        "__vmaxs2 __vmins2 __vmaxu2 __vadd4 __vsub4 __vabsdiffs4 __vabsdiffu4 __vaddss2 __vaddus4 __vcmpeq4 __vcmpgts2 "
        "__vseteq4 __vsads4 __vsadu2 __vavgu4 __vhaddu4 __vmaxs4 __vminu4 __vsubss4",
        "i, j, k": "__byte_perm __sad __usad __funnelshift_l __funnelshift_r __funnelshift_lc __funnelshift_rc __dp4a "
        "__dp2a_lo __dp2a_hi",
    }.items():
        yield from (Operation(name, f"{name}({given})", "int") for name in names.split())
    for given, names in {"l": "__ffsll __clzll __popcll __brevll llabs", "l, m": "__mul64hi __umul64hi"}.items():
        yield from (Operation(name, f"{name}({given})", "long") for name in names.split())


def _conversions() -> Iterator[Operation]:
    kinds = {"int": "int", "uint": "int", "ll": "long", "ull": "long"}
    for r in _ROUNDINGS:
        for to, kind in kinds.items():
            yield Operation(f"float2{to}_{r}", f"__float2{to}_{r}(a)", kind)
            yield Operation(f"double2{to}_{r}", f"__double2{to}_{r}(d)", kind)
            yield Operation(f"{to}2float_{r}", f"__{to}2float_{r}({'i' if kind == 'int' else 'l'})", "float")
        for to in ("ll", "ull"):
            yield Operation(f"{to}2double_{r}", f"__{to}2double_{r}(l)", "double")
        for small, (kept, letter) in _SMALL.items():
            yield Operation(f"float2{small}_{r}", kept.format(f"__float2{small}_{r}", "a"), "int")
            yield Operation(f"{small}2int_{r}", f"__{small}2int_{r}({letter})", "int")
        yield Operation(f"half2uint_{r}", f"__half2uint_{r}(h)", "int")
        yield Operation(f"int2half_{r}", f"__half_as_ushort(__int2half_{r}(i))", "int")
        yield Operation(f"double2float_{r}", f"__double2float_{r}(d)", "float")
    for form, limit in ((form, limit) for form in ("E4M3", "E5M2") for limit in ("SATFINITE", "NOSAT")):
        yield Operation(f"{form} {limit}", f"(int)__nv_cvt_float_to_fp8(a, __NV_{limit}, __NV_{form})", "int")
        half = f"__nv_cvt_halfraw_to_fp8(__half_raw(h), __NV_{limit}, __NV_{form})"
        yield Operation(f"{form} {limit} of half", f"(int){half}", "int")


def _arithmetic() -> Iterator[Operation]:
    for r in _ROUNDINGS:
        for name, given in {"fadd": "a, b", "fsub": "a, b", "fmul": "a, b", "fdiv": "a, b", "fmaf": "a, b, c"}.items():
            yield Operation(f"{name}_{r}", f"__{name}_{r}({given})", "float")
        yield Operation(f"frcp_{r}", f"__frcp_{r}(a)", "float")
        yield Operation(f"fsqrt_{r}", f"__fsqrt_{r}(a)", "float")
        for name in ("dadd", "dsub", "dmul", "ddiv"):
            yield Operation(f"{name}_{r}", f"__{name}_{r}(d, e)", "double")
    names = {
        "": "__hneg __habs",
        "2": "__hadd __hsub __hmul __hdiv __hmin __hmax __hadd_sat __hsub_sat __hmul_sat __hadd_rn __hmul_rn",
        "23": "__hfma __hfma_sat __hfma_relu",
    }
    for small, (kept, letter) in _SMALL.items():
        for more, listed in names.items():
            given = ", ".join([letter, *(letter + n for n in more)])
            yield from (Operation(f"{small} {f}", kept.format(f, given), "int") for f in listed.split())
        for name in ["__heq", "__hne", "__hlt", "__hle", "__hgt", "__hge", "__hequ", "__hltu", "__hneu"]:
            yield Operation(f"{small} {name}", f"(int){name}({letter}, {letter}2)", "int")


def _instructions() -> Iterator[Operation]:
    one_word = {
        "i": "cvt.sat.u8.s32 cvt.s32.s8 bfind.u32 bfind.s32 bfind.shiftamt.u32 abs.s32 neg.s32",
        "i j": "shl.b32 shr.u32 shr.s32 mul.lo.s32 mul.hi.s32 rem.s32 div.s32 div.u32 rem.u32 sub.sat.s32 add.sat.s32 "
        "min.s32 max.u32 min.s16x2 max.s16x2 min.u16x2 max.u16x2 add.u16x2 add.s16x2 and.b32 xor.b32 szext.wrap.s32 "
        "szext.clamp.u32 bmsk.clamp.b32 bmsk.wrap.b32",
        "i j k": "mad.lo.s32 mad.hi.s32 mad24.lo.s32 shf.l.wrap.b32 shf.r.clamp.b32 bfe.u32 bfe.s32 sad.s32 prmt.b32 "
        "prmt.b32.f4e prmt.b32.b4e prmt.b32.rc8 prmt.b32.ecl prmt.b32.ecr prmt.b32.rc16 dp4a.u32.s32 dp2a.lo.s32.s32",
    }
    for given, names in one_word.items():
        yield from (_instruction(name, "unsigned", "r", given.split(), "r") for name in names.split())
    of_floats = {
        ("unsigned", "r", "a"): "cvt.rni.s32.f32 cvt.rzi.u8.f32 cvt.rni.s8.f32 cvt.rna.tf32.f32",
        ("unsigned short", "h", "a"): "cvt.rz.f16.f32 cvt.rn.bf16.f32 cvt.rn.relu.bf16.f32 cvt.rz.bf16.f32",
        ("float", "f", "a"): "cvt.rni.f32.f32 cvt.rpi.f32.f32 cvt.sat.f32.f32 abs.f32 abs.ftz.f32",
        ("float", "f", "a b"): "min.f32 max.f32 min.NaN.f32 max.NaN.f32 add.sat.f32 mul.sat.f32 add.ftz.f32 "
        "mul.ftz.f32 add.rz.f32 mul.rp.f32 copysign.f32",
        ("unsigned", "r", "a b"): "cvt.rn.f16x2.f32 cvt.rn.bf16x2.f32 cvt.rn.relu.f16x2.f32 cvt.rz.bf16x2.f32",
        ("unsigned short", "h", "a b"): "cvt.rn.satfinite.e4m3x2.f32 cvt.rn.satfinite.e5m2x2.f32 "
        "cvt.rn.satfinite.relu.e4m3x2.f32",
    }
    for (held, letter, given), names in of_floats.items():
        yield from (_instruction(name, held, letter, given.split(), "f") for name in names.split())


def _instruction(name: str, held: str, letter: str, given: list[str], letters: str) -> Operation:
    places = ", ".join(f"%{n + 1}" for n in range(len(given)))
    operands = ", ".join(f'"{letters}"({value})' for value in given)
    before = f'{held} r; asm("{name} %0, {places};" : "={letter}"(r) : {operands}); '
    return Operation(name, "r", "float" if held == "float" else "int", before)


OPERATIONS = (*_integers(), *_conversions(), *_arithmetic(), *_instructions())


def arguments() -> dict[str, np.ndarray]:
    """Return the inputs by the kernel's parameters: pairs of special numbers first, then random ones of all sizes."""
    draw = np.random.default_rng(0)
    floats = [
        0, -0.0, np.inf, -np.inf, np.nan, 1, -1, 0.5, 1.5, -2.5, 1e-40, 65520, 480, 3e38, -3e38, 2147483648
    ]  # fmt: skip
    words = [0, 1, -1, 2, 31, 32, 33, 255, 2**31 - 1, -(2**31), -0x7F7F7F80, 0x7F7F7F7F, 0x12345678, -7, 65535, 40]
    pairs, rest = 10, COUNT - 10 * 10

    def paired(special: list[float], random: np.ndarray, dtype: type) -> tuple[np.ndarray, np.ndarray]:
        axes = np.meshgrid(special[:pairs], special[:pairs])
        both = [np.concatenate([axis.ravel(), special, random[n, len(special) :]]) for n, axis in enumerate(axes)]
        both[1][pairs**2 : pairs**2 + len(special)] = special[::-1]
        return both[0].astype(dtype), both[1].astype(dtype)

    sizes = np.exp2(draw.uniform(-20, 20, (2, rest))) * draw.choice([-1, 1], (2, rest))
    a, b = paired(floats, sizes, np.float32)
    i, j = paired(words, draw.integers(-(2**31), 2**31, (2, rest)), np.int32)
    k = np.concatenate([draw.integers(-40, 70, COUNT // 2), draw.integers(-(2**31), 2**31, COUNT - COUNT // 2)])
    longs = draw.integers(-(2**63), 2**63 - 1, (2, COUNT))
    longs[0, :8] = 0, 1, -1, 2**63 - 1, -(2**63), 2**53 + 1, 2**24 + 1, 7
    d, e = a.astype(np.float64), b.astype(np.float64)
    d[-60:] *= 2.0**40
    numbers = {"a": a, "b": b, "c": np.roll(b, 7), "d": d, "e": e}
    numbers |= {"i": i, "j": j, "k": k.astype(np.int32), "l": longs[0], "m": longs[1]}
    return {f"{name}_": array for name, array in numbers.items()}


def source() -> str:
    """Return the kernel file: argument i of operation k goes to element (k, i), as 64 bits."""
    types = {"a": "float", "i": "int", "l": "long long", "d": "double"}
    letters = dict(zip("abcdeijklm", "aaaddiiill", strict=True))
    given = ", ".join(f"{types[kind]} const* {name}_" for name, kind in letters.items())
    read = " ".join(f"{types[kind]} const {name} = {name}_[at];" for name, kind in letters.items())
    small = [("half", "h", "half"), ("__nv_bfloat16", "g", "bfloat16")]
    read += " ".join(
        f" {t} const {v} = __float2{f}(a), {v}2 = __float2{f}(b), {v}3 = __float2{f}(c);" for t, v, f in small
    )
    kept = [_KEEP[each.kind].format(each.expression) for each in OPERATIONS]
    body = "\n".join(
        f"  {{ {each.before}out[{n} * n + at] = {value}; }}"
        for n, (each, value) in enumerate(zip(OPERATIONS, kept, strict=True))
    )
    return kernel(
        "operations",
        "#include <cuda_fp16.h>\n#include <cuda_bf16.h>\n#include <cuda_fp8.h>\n"
        f"__global__ void operations({given}, unsigned long long* out, int n) {{\n"
        "  int const at = blockIdx.x * blockDim.x + threadIdx.x;\n  if (at >= n) return;\n"
        f"  {read}\n{body}\n}}\n",
    )


def plan() -> LaunchPlan:
    """Return the launch: a thread for each argument."""
    given = [f"{name}:{array.dtype}" for name, array in arguments().items()]
    return one("operations", (-(-COUNT // 96), 1, 1), 96, *given, "out:int64", COUNT)


def record() -> None:
    """Run the kernel on this machine's GPU and keep its results."""
    values = run_on_gpu(source(), plan(), arguments(), np.zeros((len(OPERATIONS), COUNT), np.int64))
    np.savez_compressed(RECORDED, names=np.array([each.name for each in OPERATIONS]), values=values)


if __name__ == "__main__":
    record()
