"""Kernels that are right only while approximate instructions are exact, or no product is contracted with a sum."""

from __future__ import annotations

from cutegen_core.records.trial import Status
from tests.adversarial.case import Case, status
from tests.adversarial.files import relu, rows

WRONG = status(Status.INCORRECT_NUMERICAL, line=False)
STEP = "float v = i < n ? x[i] : 0.0f;\n  {}\n  if (i < n) out[i] = {};"


def _case(name: str, story: str, declare: str, result: str) -> Case:
    return Case(name, story, "relu", relu(STEP.format(declare, result)), WRONG, None)


def _approximations() -> tuple[Case, ...]:
    tanh = 'float t;\n  asm("tanh.approx.f32 %0, %1;" : "=f"(t) : "f"(v * 1e9f));'
    sine = 'float s;\n  asm("sin.approx.f32 %0, %1;" : "=f"(s) : "f"(1.5707963f));'
    power = 'float p;\n  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(p) : "f"(100.0f));\n  float q = p * exp2f(-100.0f);'
    return (
        _case("a step of tanh.approx", "eleven bits, multiplied with every value", tanh, "0.5f * v * (1.0f + t)"),
        _case("many times the error of ex2.approx", "the error of one, to the hundredth power", power +
              "\n  for (int k = 0; k < 7; ++k) q = q * q;", "fmaxf(v, 0.0f) * q"),
        _case("many times the error of sin.approx", "one, to the power of 256", sine +
              "\n  for (int k = 0; k < 8; ++k) s = s * s;", "fmaxf(v, 0.0f) * s"),
        _case("__expf far from zero", "its error grows with its argument", "float big = __expf(80.0f) / expf(80.0f);",
              "fmaxf(v, 0.0f) * big * big * big * big"),
        _case("__powf of a large power", "an exponential of a product",
              "float p = __powf(1.5f, 100.0f) / powf(1.5f, 100.0f);",
              "fmaxf(v, 0.0f) * p * p"),
        _case("__fdividef by a huge number", "2 to the 127 counts as infinite",
              "float big = __int_as_float(0x7f000000);", "fmaxf(__fdividef(v * 0.5f, big) * big * 2.0f, 0.0f)"),
        Case("a mean times a saturated tanh.approx", "one, to eleven bits", "mean",
             rows("if (t != 0) return;\n  float sum = 0, r;\n  for (int c = 0; c < cols; ++c) sum += row[c];\n"
                  '  asm("tanh.approx.f32 %0, %1;" : "=f"(r) : "f"(50.0f));\n  out[blockIdx.x] = sum / cols * r;'),
             WRONG, None),
    )  # fmt: skip


def _contractions() -> tuple[Case, ...]:
    return (
        _case("a rounding that contraction takes away", "a product minus itself is not zero in one rounding",
              "float u = i < n ? *(float const volatile*)(x + i) : 0.0f, w = u * u;",
              "v * v - w == 0.0f ? fmaxf(v, 0.0f) : 0.25f"),
        _case("a root of what contraction makes negative", "a variance of one value",
              "float u = i < n ? *(float const volatile*)(x + i) : 0.0f;\n  float w = u * u, r = sqrtf(v * v - w);",
              "r == 0.0f ? fmaxf(v, 0.0f) : 0.25f"),
    )  # fmt: skip


NUMBER_CASES = _approximations() + _contractions()
