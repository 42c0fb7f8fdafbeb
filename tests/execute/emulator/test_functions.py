"""Instructions and intrinsics one by one against numpy and Python, and kernels built of them."""

from __future__ import annotations

import math
import struct
from typing import NamedTuple

import numpy as np
import pytest

from cutegen_core.records.launch import LaunchPlan
from cutegen_core.records.trial import Status
from tests.execute.emulator.emulated import Harness, Ran, kernel, launch, line_of, one

BUILDS = pytest.mark.parametrize("checked", [False, True], ids=["plain", "checked"])
FULL = 0xFFFFFFFF


def f32(x: float) -> int:
    """Return the bits of a float."""
    return int.from_bytes(struct.pack("<f", x), "little")


def f64(x: float) -> int:
    return int.from_bytes(struct.pack("<d", x), "little")


def f16(*xs: float) -> int:
    """Return bits of halfs, the first one lowest."""
    return int.from_bytes(np.array(xs, np.float16).tobytes(), "little")


class Instruction(NamedTuple):
    """One PTX statement: `r` 32 bits, `l` 64, `h` 16, first the result; the inputs' bits; the result's bits."""

    text: str
    constraints: str
    inputs: tuple[int, ...]
    result: int


def op(text: str, constraints: str, *bits: int) -> Instruction:
    return Instruction(text, constraints, bits[:-1], bits[-1])


INSTRUCTIONS = [
    # Integers.
    op("add.s32 %0, %1, %2;", "rrr", 7, FULL, 6),
    op("add.sat.s32 %0, %1, %2;", "rrr", 0x7FFFFFFF, 5, 0x7FFFFFFF),
    op("sub.u32 %0, %1, %2;", "rrr", 3, 5, 0xFFFFFFFE),
    op("mul.lo.u32 %0, %1, %2;", "rrr", 0x10001, 0x10001, 0x20001),
    op("mul.hi.s32 %0, %1, %2;", "rrr", 0x80000000, 2, FULL),
    op("mul.wide.u32 %0, %1, %2;", "lrr", FULL, FULL, 0xFFFFFFFE00000001),
    op("mad.wide.s32 %0, %1, %2, %3;", "lrrl", FULL, 3, 10, 7),
    op("mad.lo.s32 %0, %1, %2, %3;", "rrrr", 3, 4, 5, 17),
    op("div.s32 %0, %1, %2;", "rrr", 0xFFFFFFF9, 2, 0xFFFFFFFD),
    op("rem.s32 %0, %1, %2;", "rrr", 0xFFFFFFF9, 2, FULL),
    op("min.s32 %0, %1, %2;", "rrr", 1, FULL, FULL),
    op("max.u32 %0, %1, %2;", "rrr", 1, FULL, FULL),
    op("abs.s32 %0, %1;", "rr", 0xFFFFFFFB, 5),
    op("sad.u32 %0, %1, %2, %3;", "rrrr", 3, 10, 1, 8),
    op("shl.b32 %0, %1, %2;", "rrr", 1, 33, 0),
    op("shr.s32 %0, %1, %2;", "rrr", 0x80000000, 40, FULL),
    op("shr.u64 %0, %1, %2;", "llr", 1 << 63, 60, 8),
    op("shf.l.wrap.b32 %0, %1, %2, %3;", "rrrr", 0x80000000, 1, 1, 3),
    op("shf.r.clamp.b32 %0, %1, %2, %3;", "rrrr", 5, 9, 32, 9),
    op("popc.b64 %0, %1;", "rl", 0xF0F0F0F0F0F0F0F0, 32),
    op("clz.b32 %0, %1;", "rr", 1, 31),
    op("brev.b32 %0, %1;", "rr", 1, 0x80000000),
    op("bfind.u32 %0, %1;", "rr", 0x100, 8),
    op("bfe.u32 %0, %1, %2, %3;", "rrrr", 0xABCD, 4, 8, 0xBC),
    op("bfe.s32 %0, %1, %2, %3;", "rrrr", 0x80, 4, 4, 0xFFFFFFF8),
    op("bfi.b32 %0, %1, %2, %3, %4;", "rrrrr", 0xF, 0, 4, 4, 0xF0),
    op("lop3.b32 %0, %1, %2, %3, 0x96;", "rrrr", 0xC, 0xA, 0x9, 0xC ^ 0xA ^ 0x9),
    op("prmt.b32 %0, %1, %2, 0x5410;", "rrr", 0x22221111, 0x44443333, 0x33331111),
    op("dp4a.s32.s32 %0, %1, %2, %3;", "rrrr", 0x01FF0203, 0x01010101, 10, 15),
    op("dp2a.lo.u32.u32 %0, %1, %2, %3;", "rrrr", 0x00020003, 0x0504, 1, 23),
    op("and.b32 %0, %1, 0xFF;", "rr", 0x1234, 0x34),
    op("not.b32 %0, %1;", "rr", 0, FULL),
    # Floats, rounded as asked.
    op("add.rz.f32 %0, %1, %2;", "rrr", f32(1), f32(2**-24 * 1.5), f32(1)),
    op("add.rp.f32 %0, %1, %2;", "rrr", f32(1), f32(2**-30), f32(1 + 2**-23)),
    op("fma.rn.f32 %0, %1, %2, %3;", "rrrr", f32(1 + 2**-12), f32(1 + 2**-12), f32(-1), f32(2**-11 + 2**-24)),
    op("fma.rn.f64 %0, %1, %2, %3;", "llll", f64(3), f64(5), f64(0.5), f64(15.5)),
    op("mul.ftz.f32 %0, %1, %2;", "rrr", f32(2**-100), f32(2**-40), 0),
    op("mul.sat.f32 %0, %1, %2;", "rrr", f32(3), f32(5), f32(1)),
    op("max.f32 %0, %1, %2;", "rrr", f32(math.nan), f32(2), f32(2)),
    op("max.NaN.f32 %0, %1, %2;", "rrr", f32(math.nan), f32(2), 0x7FC00000),
    op("min.f32 %0, %1, %2;", "rrr", f32(0.0), f32(-0.0), f32(-0.0)),
    op("neg.f32 %0, %1;", "rr", f32(1.5), f32(-1.5)),
    op("abs.f64 %0, %1;", "ll", f64(-2), f64(2)),
    op("rcp.rn.f32 %0, %1;", "rr", f32(3), f32(1 / 3)),
    op("sqrt.rn.f32 %0, %1;", "rr", f32(2), f32(math.sqrt(2))),
    op("ex2.approx.ftz.f32 %0, %1;", "rr", f32(3), f32(8)),
    op("lg2.approx.f32 %0, %1;", "rr", f32(8), f32(3)),
    op("tanh.approx.f32 %0, %1;", "rr", f32(0.5), f32(math.tanh(0.5))),
    op("copysign.f32 %0, %1, %2;", "rrr", f32(-1), f32(4), f32(-4)),
    op("fma.rn.f16x2 %0, %1, %2, %3;", "rrrr", f16(2, 3), f16(4, 5), f16(1, 0.5), f16(9, 15.5)),
    op("fma.rn.relu.f16x2 %0, %1, %2, %3;", "rrrr", f16(-2, 3), f16(4, 5), f16(1, 0.5), f16(0, 15.5)),
    op("add.f16 %0, %1, %2;", "hhh", f16(2048), f16(1), f16(2048)),
    op("max.bf16x2 %0, %1, %2;", "rrr", 0x3F80BF80, 0x40003F80, 0x40003F80),
    op("ex2.approx.f16 %0, %1;", "hh", f16(2), f16(4)),
    # Conversions.
    op("cvt.rni.s32.f32 %0, %1;", "rr", f32(2.5), 2),
    op("cvt.rzi.u32.f32 %0, %1;", "rr", f32(-3.5), 0),
    op("cvt.rpi.s32.f64 %0, %1;", "rl", f64(-3.5), 0xFFFFFFFD),
    op("cvt.rn.f32.u64 %0, %1;", "rl", (1 << 63) + (1 << 39) + 1, f32(2**63 + 2**40)),
    op("cvt.rz.f32.s32 %0, %1;", "rr", 0x7FFFFFFF, f32(2147483520.0)),
    op("cvt.sat.u8.s32 %0, %1;", "rr", 300, 255),
    op("cvt.s32.s8 %0, %1;", "rr", 0x1FF, FULL),
    op("cvt.f32.f16 %0, %1;", "rh", f16(0.1), f32(float(np.float16(0.1)))),
    op("cvt.rn.f16.f32 %0, %1;", "hr", f32(65504 + 15), f16(65504)),
    op("cvt.rn.f16x2.f32 %0, %1, %2;", "rrr", f32(1), f32(2), f16(2, 1)),
    op("cvt.rn.bf16x2.f32 %0, %1, %2;", "rrr", f32(1), f32(2), 0x3F804000),
    op("cvt.rna.tf32.f32 %0, %1;", "rr", 0x3F801000, 0x3F802000),
    op("cvt.pack.sat.s16.s32 %0, %1, %2;", "rrr", 70000, 0xFFFFFFFF, 0x7FFFFFFF),
    # Moves, predicates, several instructions in one statement.
    op("mov.b32 %0, {%1, %2};", "rhh", 0x1111, 0x2222, 0x22221111),
    op("{ .reg .b16 a, b; mov.b32 {a, b}, %1; mov.b32 %0, {b, a}; }", "rr", 0x22221111, 0x11112222),
    op("{ .reg .f32 a; mov.f32 a, 0f3F800000; add.f32 a, a, 0f40000000; mov.b32 %0, a; }", "r", f32(3)),
    op("{ .reg .pred p; setp.lt.s32 p, %1, %2; selp.b32 %0, 7, 9, p; }", "rrr", FULL, 1, 7),
    op("{ .reg .pred p, q; setp.gt.f32 p|q, %1, %2; @!q mov.b32 %0, 1; @q mov.b32 %0, 2; }", "rrr", f32(1), f32(3), 2),
    op("{ .reg .pred p, q; setp.eq.u32 p, %1, 1; setp.ne.or.u32 q, %1, 2, p; selp.u32 %0, 1, 0, q; }", "rr", 2, 0),
    op("set.lt.u32.f32 %0, %1, %2;", "rrr", f32(1), f32(math.nan), 0),
    op("{ .reg .pred p; .reg .s32 i; mov.s32 i, 0; mov.s32 %0, 0; AGAIN: add.s32 %0, %0, i; add.s32 i, i, 1;"
       " setp.le.s32 p, i, %1; @p bra AGAIN; }", "rr", 10, 55),
]  # fmt: skip
C_TYPES = {"r": "unsigned", "l": "unsigned long long", "h": "unsigned short"}


def one_by_one(instructions: list[Instruction]) -> str:
    """Return a kernel that executes each and writes its result's bits."""
    lines = []
    for number, item in enumerate(instructions):
        values = ", ".join(
            f'"{c}"(({C_TYPES[c]}){bits}ull)' for c, bits in zip(item.constraints[1:], item.inputs, strict=True)
        )
        kind = C_TYPES[item.constraints[0]]
        lines.append(f'  {{ {kind} r; asm volatile("{item.text}" : "={item.constraints[0]}"(r) : {values}); ')
        lines.append(f"    out[{number}] = r; }}")
    return "__global__ void one_by_one(long long* out) {\n" + "\n".join(lines) + "\n}\n"


def test_instructions_one_by_one(harness: Harness) -> None:
    plan = one("one_by_one", 1, 1, "out:int64")
    out = np.zeros(len(INSTRUCTIONS), np.int64)
    ran = harness.run(kernel("one_by_one", one_by_one(INSTRUCTIONS)), {}, {"out": out}, plan)
    assert ran.status is Status.PASSED, ran.executed.message
    got = ran.outputs["out"].view(np.uint64)
    wrong = [
        f"{item.text}: {int(g):#x}, want {item.result:#x}"
        for item, g in zip(INSTRUCTIONS, got, strict=True)
        if int(g) != item.result and not (item.text.startswith("max.NaN") and int(g) & 0x7FC00000 == 0x7FC00000)
    ]
    assert not wrong, "\n".join(wrong)


WARP = kernel(
    "warp",
    """
__global__ void warp(int const* x, int* out) {
  int const lane = threadIdx.x % 32, value = x[threadIdx.x];
  int* const mine = out + threadIdx.x * 10;
  unsigned a, b, c, d, e, f, g, h;
  asm volatile("{ .reg .pred p; shfl.sync.down.b32 %0|p, %2, 3, 0x1f, 0xffffffff; selp.u32 %1, 1, 0, p; }"
               : "=r"(a), "=r"(b) : "r"(value));
  asm volatile("shfl.sync.bfly.b32 %0, %1, 1, 0x181f, 0xffffffff;" : "=r"(c) : "r"(value));
  asm volatile("{ .reg .pred p; setp.gt.s32 p, %1, 50; vote.sync.ballot.b32 %0, p, -1; }" : "=r"(d) : "r"(value));
  asm volatile("redux.sync.max.s32 %0, %1, 0xffffffff;" : "=r"(e) : "r"(value));
  asm volatile("match.any.sync.b32 %0, %1, 0xffffffff;" : "=r"(f) : "r"(value % 4));
  g = 0;
  if (lane % 3 == 0) {
    asm volatile("activemask.b32 %0;" : "=r"(g));
    g += __popc(__activemask());
  }
  asm volatile("mov.u32 %0, %%lanemask_lt;" : "=r"(h));
  mine[0] = a, mine[1] = b, mine[2] = c, mine[3] = d, mine[4] = e, mine[5] = f, mine[6] = g, mine[7] = h;
  int const odd = value & 1;
  asm volatile("{ .reg .pred p; setp.ne.s32 p, %1, 0; bar.sync 0; bar.red.popc.u32 %0, 0, p; }" : "=r"(a) : "r"(odd));
  asm volatile("atom.add.u32 %0, [%1], %2;" : "=r"(b) : "l"(out + 640), "r"(1));
  asm volatile("red.global.max.s32 [%0], %1;" ::"l"(out + 641), "r"(value) : "memory");
  mine[8] = a, mine[9] = b;
}
__global__ void zero(int* out) { out[640 + threadIdx.x] = 0; }
""",
).replace("/* cutegen\n", '/* cutegen\n[[launch]]\nkernel = "zero"\ngrid = ["1"]\nblock = ["1"]\nargs = []\n')


@BUILDS
def test_instructions_of_a_warp(harness: Harness, rng: np.random.Generator, checked: bool) -> None:
    x = rng.integers(0, 100, 64, dtype=np.int32)
    plan = LaunchPlan((launch("zero", 1, 2, "out:int32"), launch("warp", 1, 64, "x:int32", "out:int32")))
    ran = harness.run(WARP, {"x": x}, {"out": np.zeros(642, np.int32)}, plan, checked=checked, order="random", seed=9)
    assert ran.status is Status.PASSED, ran.executed.message
    got = ran.outputs["out"].view(np.uint32)
    assert (got[640], got[641]) == (64, x.max())
    assert sorted(got[9:640:10]) == list(range(64))
    thirds = [sum(1 << lane for lane in range(0, 32, 3) if lane % 2 == odd) for odd in range(2)]
    for t in range(64):
        warp, lane = x[t // 32 * 32 : t // 32 * 32 + 32], t % 32
        down = lane + 3 < 32
        same = sum(int(v % 4 == x[t] % 4) << i for i, v in enumerate(warp))
        assert list(got[t * 10 : t * 10 + 9]) == [
            warp[lane + 3] if down else x[t], down, warp[lane ^ 1], sum(int(v > 50) << i for i, v in enumerate(warp)),
            warp.max(), same, 0 if lane % 3 else thirds[lane % 2] + thirds[lane % 2].bit_count(), (1 << lane) - 1,
            int((x & 1).sum()),
        ]  # fmt: skip


INTRINSICS = kernel(
    "intrinsics",
    """
__global__ void intrinsics(float const* x, float* out, int const* n, int* words) {
  int const i = threadIdx.x;
  float const a = x[i], b = x[i + 1];
  float* const f = out + i * 8;
  __builtin_assume(i < 32);
  f[0] = __fadd_rz(a, b), f[1] = __fmul_ru(a, b), f[2] = __fmaf_rd(a, b, a), f[3] = __fdiv_rz(a, b);
  f[4] = __fsqrt_ru(fabsf(a)), f[5] = __int2float_rd(n[i]), f[6] = erfinvf(0.4f), f[7] = normcdfinvf(0.025f);
  int* const w = words + i * 8;
  unsigned const u = n[i], v = n[i + 1];
  w[0] = __dp4a((int)u, (int)v, 5), w[1] = __dp2a_hi(u, v, 7u), w[2] = __vaddus4(u, v), w[3] = __vmaxs2(u, v);
  w[4] = __vabsdiffu4(u, v), w[5] = __funnelshift_lc(u, v, 35), w[6] = __byte_perm(u, v, 0x7250), w[7] = __fns(u, 0, 2);
  __nanosleep(10);
}
""",
)


OF_ZERO = kernel(
    "of_zero",
    """
__global__ void of_zero(float const* x, float* out) {
  float const zero = x[threadIdx.x];
  float* const mine = out + 4 * threadIdx.x;
  mine[0] = __expf(zero), mine[1] = __cosf(zero);
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(mine[2]) : "f"(zero));
  asm("cos.approx.f32 %0, %1;" : "=f"(mine[3]) : "f"(zero));
}
""",
)


@pytest.mark.parametrize("edge", [-1, 1])
def test_what_the_manual_gives_for_zero_is_exact(harness: Harness, edge: int) -> None:
    x = np.array([0.0, -0.0, 0.5], np.float32)
    plan = one("of_zero", 1, 3, "x:float32", "out:float32")
    ran = harness.run(OF_ZERO, {"x": x}, {"out": np.zeros((3, 4), np.float32)}, plan, edge=edge)
    assert ran.status is Status.PASSED, ran.executed.message
    np.testing.assert_array_equal(ran.outputs["out"][:2], np.ones((2, 4), np.float32))
    exact = [math.exp(0.5), math.cos(0.5), 2**0.5, math.cos(0.5)]
    assert all(np.sign(ran.outputs["out"][2] - exact) == edge)


def toward(x: float, mode: str) -> np.float32:
    """Return a Python float (exact enough for these values) rounded to float32 in one direction."""
    near = np.float32(x)
    if mode == "zero":
        mode = "down" if x > 0 else "up"
    if mode == "down":
        return near if float(near) <= x else np.nextafter(near, np.float32(-np.inf))
    return near if float(near) >= x else np.nextafter(near, np.float32(np.inf))


def test_intrinsics(harness: Harness, rng: np.random.Generator) -> None:
    # Few significant bits, so that sums and products are exact in Python's floats.
    x = rng.standard_normal(33).astype(np.float32)
    n = rng.integers(-(1 << 31), 1 << 31, 33).astype(np.int32)
    plan = one("intrinsics", 1, 32, "x:float32", "out:float32", "n:int32", "words:int32")
    outputs = {"out": np.zeros((32, 8), np.float32), "words": np.zeros((32, 8), np.int32)}
    ran = harness.run(INTRINSICS, {"x": x, "n": n}, outputs, plan)
    assert ran.status is Status.PASSED, ran.executed.message
    for i, (a, b) in enumerate(zip(x.astype(float), x[1:].astype(float), strict=False)):
        got = ran.outputs["out"][i]
        # The quotient's and the root's double is nearer than half a unit of float32, but for ties that do not occur.
        want = [
            toward(a + b, "zero"),
            toward(a * b, "up"),
            toward(math.fsum((a * b, a)), "down"),
            toward(a / b, "zero"),
        ]
        want += [toward(math.sqrt(abs(a)), "up"), toward(float(n[i]), "down")]
        np.testing.assert_array_equal(got[:6], np.array(want, np.float32))
        np.testing.assert_allclose(got[6:], [0.37080717, -1.959964], rtol=1e-6)
    for i, (u, v) in enumerate(zip(n.view(np.uint32), n[1:].view(np.uint32), strict=False)):
        four = [np.array([word], np.uint32).view(np.int8).astype(np.int64) for word in (u, v)]
        bytes4 = [np.array([word], np.uint32).view(np.uint8).astype(np.int64) for word in (u, v)]
        two = [np.array([word], np.uint32).view(np.int16) for word in (u, v)]
        half = np.array([u], np.uint32).view(np.uint16).astype(np.int64)
        both = [*bytes4[0], *bytes4[1]]
        bits = [position for position in range(32) if u >> position & 1]
        want_words = [
            int((four[0] * four[1]).sum()) + 5, int(half[0] * bytes4[1][2] + half[1] * bytes4[1][3]) + 7,
            int.from_bytes(bytes(np.minimum(bytes4[0] + bytes4[1], 255).tolist()), "little"),
            int.from_bytes(np.maximum(two[0], two[1]).tobytes(), "little"),
            int.from_bytes(bytes(np.abs(bytes4[0] - bytes4[1]).tolist()), "little"), int(u),
            int.from_bytes(bytes(int(both[s]) for s in (0, 5, 2, 7)), "little"), bits[1],
        ]  # fmt: skip
        assert [int(w) & FULL for w in ran.outputs["words"][i]] == [w & FULL for w in want_words]


OF_THREE = kernel(
    "of_three",
    """
__global__ void of_three(int const* x, int* out) {
  int const i = threadIdx.x, a = x[i], b = x[i + 1], c = x[i + 2];
  unsigned const u = a, v = b, w = c;
  int* const mine = out + i * 16;
  bool first, high, low;
  mine[0] = __viaddmax_s32(a, b, c), mine[1] = __viaddmin_u32(u, v, w), mine[2] = __viaddmax_s16x2(u, v, w);
  mine[3] = __viaddmin_u16x2(u, v, w), mine[4] = __viaddmin_s32_relu(a, b, c), mine[5] = __vimax3_u32(u, v, w);
  mine[6] = __vimin3_s16x2(u, v, w), mine[7] = __vimin3_s16x2_relu(u, v, w), mine[8] = __vimin_s32_relu(a, b);
  mine[9] = __vimax_s16x2_relu(u, v), mine[10] = __vibmax_u32(u, v, &first), mine[11] = first;
  mine[12] = __vibmin_s16x2(u, v, &high, &low), mine[13] = high * 2 + low;
  mine[14] = __vibmax_s32(a, a, &first), mine[15] = first;
}
""",
)


def test_extremes_of_sums_and_of_three(harness: Harness, rng: np.random.Generator) -> None:
    x = rng.integers(-(1 << 31), 1 << 31, 34).astype(np.int32)
    plan = one("of_three", 1, 32, "x:int32", "out:int32")
    ran = harness.run(OF_THREE, {"x": x}, {"out": np.zeros((32, 16), np.int32)}, plan)
    assert ran.status is Status.PASSED, ran.executed.message
    for i, got in enumerate(ran.outputs["out"]):
        a, b, c = (x[i + k : i + k + 1] for k in range(3))
        (u, v, w), (s, t, r) = ([one.view(kind) for one in (a, b, c)] for kind in (np.uint32, np.int16))
        su, tu, ru = (one.view(np.uint16) for one in (a, b, c))
        first_halves = s <= t
        want = [
            np.maximum(a + b, c), np.minimum(u + v, w), np.maximum(s + t, r), np.minimum(su + tu, ru),
            np.maximum(np.minimum(a + b, c), 0), np.maximum(np.maximum(u, v), w), np.minimum(np.minimum(s, t), r),
            np.maximum(np.minimum(np.minimum(s, t), r), 0), np.maximum(np.minimum(a, b), 0),
            np.maximum(np.maximum(s, t), 0), np.maximum(u, v), (u >= v).astype(np.int32), np.minimum(s, t),
            (first_halves[1:] * 2 + first_halves[:1]).astype(np.int32), a, np.ones(1, np.int32),
        ]  # fmt: skip
        assert list(got) == [int(np.ascontiguousarray(one).view(np.int32)[0]) for one in want]


DOT = kernel(
    "dot_int8",
    """
__global__ void dot_int8(int const* x, int const* y, int* out, int n) {
  int sum = 0;
  for (int i = threadIdx.x; i < n; i += blockDim.x) sum = __dp4a(__ldg(x + i), __ldg(y + i), sum);
  sum = __reduce_add_sync(0xffffffffu, sum);
  if (threadIdx.x % 32 == 0) atomicAdd(out, sum);
}
__global__ void zero(int* out) { *out = 0; }
""",
).replace("/* cutegen\n", '/* cutegen\n[[launch]]\nkernel = "zero"\ngrid = ["1"]\nblock = ["1"]\nargs = []\n')


@BUILDS
def test_dot_product_of_bytes(harness: Harness, rng: np.random.Generator, checked: bool) -> None:
    x, y = rng.integers(-128, 128, (2, 1000), dtype=np.int8)
    plan = LaunchPlan(
        (launch("zero", 1, 1, "out:int32"), launch("dot_int8", 1, 64, "x:int32", "y:int32", "out:int32", 250))
    )
    given = {"x": x.view(np.int32), "y": y.view(np.int32)}
    ran = harness.run(DOT, given, {"out": np.zeros(1, np.int32)}, plan, checked=checked)
    assert ran.status is Status.PASSED, ran.executed.message
    assert ran.outputs["out"][0] == (x.astype(np.int64) * y).sum()


HALF2 = kernel(
    "gelu_half2",
    """
__global__ void gelu_half2(__half2 const* x, __half2* out, int n) {
  int const i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  __half2 const v = __ldcs(x + i), cubed = __hmul2(__hmul2(v, v), v);
  __half2 const inner = __hfma2(cubed, __float2half2_rn(0.044715f), v);
  float2 const t = __half22float2(__hmul2(inner, __float2half2_rn(0.7978845608f)));
  __half2 const gate = __hadd2(__float2half2_rn(1.f), __floats2half2_rn(tanhf(t.x), tanhf(t.y)));
  __stcg(out + i, __hmax2(__hmul2(__hmul2(v, __float2half2_rn(0.5f)), gate), __float2half2_rn(-1.f)));
}
""",
)


@BUILDS
def test_half2_elementwise(harness: Harness, rng: np.random.Generator, checked: bool) -> None:
    x = rng.standard_normal(300).astype(np.float16)
    plan = one("gelu_half2", 3, 64, "x:float16", "out:float16", 150)
    ran = harness.run(HALF2, {"x": x}, {"out": x}, plan, checked=checked)
    assert ran.status is Status.PASSED, ran.executed.message
    wide = x.astype(np.float64)
    want = 0.5 * wide * (1 + np.tanh(0.7978845608 * (wide + 0.044715 * wide**3)))
    np.testing.assert_allclose(ran.outputs["out"], want, rtol=5e-3, atol=5e-3)


GROUPS = kernel(
    "group_sum",
    """
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cooperative_groups/scan.h>
namespace cg = cooperative_groups;
__global__ void group_sum(float const* x, float* out, int n) {
  __shared__ float partial[8];
  cg::thread_block const block = cg::this_thread_block();
  auto const warp = cg::tiled_partition<32>(block);
  auto const quad = cg::tiled_partition<4>(warp);
  float sum = 0;
  for (int i = block.thread_rank(); i < n; i += block.size()) sum += x[blockIdx.x * n + i];
  float const whole = cg::reduce(warp, sum, cg::plus<float>());
  if (warp.thread_rank() == 0) partial[warp.meta_group_rank()] = whole;
  cg::sync(block);  // SYNC
  if (warp.meta_group_rank() == 0) {
    float const all = cg::reduce(warp, warp.thread_rank() < warp.meta_group_size() ? partial[warp.thread_rank()] : 0.f,
                                 cg::plus<float>());
    if (warp.thread_rank() == 0) out[blockIdx.x * 5] = all;
  }
  int const before = cg::exclusive_scan(quad, (int)quad.thread_rank() + 1);
  int const votes = quad.ballot(quad.thread_rank() % 2), next = quad.shfl_down((int)block.thread_rank(), 1);
  int active = 0;
  if (block.thread_rank() % 32 >= 20) active = cg::coalesced_threads().size();
  if (block.thread_rank() == 62) {
    float* const mine = out + blockIdx.x * 5 + 1;
    mine[0] = before, mine[1] = votes, mine[2] = next, mine[3] = quad.shfl_xor(0, 1) + active;
  } else {
    quad.shfl_xor(0, 1);
  }
}
""",
)


def run_groups(harness: Harness, source: str, rng: np.random.Generator, *, checked: bool) -> tuple[Ran, np.ndarray]:
    x = rng.standard_normal((2, 777)).astype(np.float32)
    plan = one("group_sum", 2, 128, "x:float32", "out:float32", 777)
    out = np.zeros((2, 5), np.float32)
    return harness.run(source, {"x": x}, {"out": out}, plan, checked=checked, order="random", seed=1), x


@BUILDS
def test_cooperative_groups_of_a_block(harness: Harness, rng: np.random.Generator, checked: bool) -> None:
    ran, x = run_groups(harness, GROUPS, rng, checked=checked)
    assert ran.status is Status.PASSED, ran.executed.message
    np.testing.assert_allclose(ran.outputs["out"][:, 0], x.sum(axis=1), rtol=1e-4, atol=1e-4)
    every_second = 12 // 2  # of the lanes that are together
    np.testing.assert_array_equal(ran.outputs["out"][:, 1:], [[3, 0b1010, 63, every_second]] * 2)


def test_a_missing_group_barrier_is_a_race(harness: Harness, rng: np.random.Generator) -> None:
    source = GROUPS.replace("  cg::sync(block);  // SYNC\n", "")
    ran, _ = run_groups(harness, source, rng, checked=True)
    assert ran.status is Status.MEMORY_ERROR
    assert (ran.finding.variable, ran.finding.kind in ("race", "uninitialised")) == ("partial", True)


GRID = kernel(
    "normalise",
    """
#include <cooperative_groups.h>
__global__ void normalise(float const* x, float* sums, float* out, int n) {
  auto const grid = cooperative_groups::this_grid();
  int const i = grid.thread_rank();
  float sum = i < n ? x[i] : 0.f;
  for (int offset = 16; offset > 0; offset /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, offset);
  if (threadIdx.x % 32 == 0) sums[i / 32] = sum;
  grid.sync();  // SYNC
  float total = 0;
  for (unsigned k = 0; k < grid.size() / 32; ++k) total += sums[k];
  if (i < n) out[i] = x[i] / total;
}
""",
)


def run_grid(harness: Harness, source: str, *, checked: bool = False, blocks: int = 5, cooperative: bool = True) -> Ran:
    x = np.arange(1, 301, dtype=np.float32)
    sums = np.zeros(blocks * 2, np.float32)
    plan = one("normalise", blocks, 64, "x:float32", "sums:float32", "out:float32", 300)
    launches = tuple(type(item)(**{**vars(item), "cooperative": cooperative}) for item in plan.launches)
    outputs = {"sums": sums, "out": x}
    return harness.run(source, {"x": x}, outputs, LaunchPlan(launches), checked=checked, timeout_s=5.0)


@BUILDS
def test_blocks_of_a_cooperative_launch_meet(harness: Harness, checked: bool) -> None:
    ran = run_grid(harness, GRID, checked=checked)
    assert ran.status is Status.PASSED, ran.executed.message
    x = np.arange(1, 301, dtype=np.float32)
    np.testing.assert_allclose(ran.outputs["out"], x / x.sum(), rtol=1e-6)
    assert [f.kind for f in ran.executed.findings] == (["race-unproven"] if checked else [])


def test_mistakes_with_the_grid_are_named(harness: Harness) -> None:
    ran = run_grid(harness, GRID, cooperative=False)
    assert (ran.status, ran.finding.kind) == (Status.RUNTIME_ERROR, "grid-sync")
    assert ran.finding.line == line_of(GRID, "// SYNC")
    skipped = GRID.replace("  grid.sync();  // SYNC\n", "  if (blockIdx.x < 3) grid.sync();  // SYNC\n")
    ran = run_grid(harness, skipped)
    assert (ran.status, ran.finding.kind) == (Status.MEMORY_ERROR, "divergent-barrier")
    assert "2 of 5 blocks have left the kernel" in ran.executed.message
    assert ran.finding.line == line_of(skipped, "// SYNC")
    ran = run_grid(harness, GRID, blocks=513)
    assert ran.status is Status.UNSUPPORTED
    assert "up to 512" in ran.executed.message


EXTREMES = kernel(
    "extremes",
    """
__global__ void extremes(float const* x, int n, int* out) {
  for (int i = 0; i < n * n; ++i) {
    float const a = x[i / n], b = x[i % n];
    float found[4];
    asm("max.NaN.f32 %0, %1, %2;" : "=f"(found[0]) : "f"(a), "f"(b));
    asm("max.NaN.f32  %0, %1, %2;" : "=f"(found[1]) : "f"(a), "f"(b));
    asm("min.NaN.f32 %0, %1, %2;" : "=f"(found[2]) : "f"(a), "f"(b));
    asm("min.NaN.f32  %0, %1, %2;" : "=f"(found[3]) : "f"(a), "f"(b));
    for (int k = 0; k < 4; ++k) out[4 * i + k] = __float_as_int(found[k]);
  }
}
""",
)


@BUILDS
def test_extremes_that_are_written_out_are_those_of_the_interpreter(harness: Harness, checked: bool) -> None:
    x = np.array([0.0, -0.0, 1.0, -1.0, math.inf, -math.inf, math.nan, 1e-45, 3.5], np.float32)
    out = np.zeros(4 * len(x) ** 2, np.int32)
    plan = one("extremes", 1, 1, "x:float32", len(x), "out:int32")
    ran = harness.run(EXTREMES, {"x": x}, {"out": out}, plan, checked=checked)
    assert ran.status is Status.PASSED, ran.executed.message
    got = ran.outputs["out"].reshape(-1, 2, 2)
    assert (got[..., 0] == got[..., 1]).all()
