"""The 8-bit floats, written out as a table of all 256 codes: what conversions are held against."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np

from cutegen_core.records.problem import Signature, TensorRole, TensorSpec
from tests.places import DATA

KERNEL: Path = DATA / "float8_conversions.cu"
CODES = np.arange(256, dtype=np.uint8)


class Format(NamedTuple):
    """Stored bits of the significand, exponent of the smallest normal number, largest code of a finite number."""

    stored: int
    lowest: int
    largest: int


E4M3, E5M2 = Format(3, -6, 0x7E), Format(2, -14, 0x7B)


def values(form: Format) -> np.ndarray:
    """Return the value of every code, as float32."""
    exponent, fraction = (CODES & 0x7F) >> form.stored, CODES & ((1 << form.stored) - 1)
    step = 2.0 ** (np.maximum(exponent, 1).astype(np.float64) - 1 + form.lowest - form.stored)
    magnitude = (fraction + np.where(exponent > 0, 1 << form.stored, 0)) * step
    code = CODES & 0x7F
    infinite = (form.stored == 2) & (code == form.largest + 1)
    magnitude = np.where(code <= form.largest, magnitude, np.where(infinite, np.inf, np.nan))
    return np.where(CODES & 0x80, -magnitude, magnitude).astype(np.float32)


def encode(x: np.ndarray, form: Format, *, saturate: bool) -> np.ndarray:
    """Return the code of every float: to the nearest, of two equally near the even one; 0x7F for every NaN."""
    table = values(form)[: form.largest + 1].astype(np.float64)
    with np.errstate(invalid="ignore"):
        magnitude = np.abs(x.astype(np.float64))
    table = np.append(table, 2 * table[-1] - table[-2])  # what would come next: halfway to it lies the limit
    above = np.clip(np.searchsorted(table, magnitude, side="left"), 1, len(table) - 1)
    below = above - 1
    middle = (table[below] + table[above]) / 2
    nearest = np.where(magnitude < middle, below, np.where(magnitude > middle, above, below + (below & 1)))
    beyond = form.largest if saturate else 0x7F if form.stored == 3 else 0x7C
    code = np.where(nearest > form.largest, beyond, nearest) | np.where(np.signbit(x), 0x80, 0)
    return np.where(np.isnan(x), 0x7F, code).astype(np.uint8)


def same_codes(got: np.ndarray, want: np.ndarray, form: Format) -> np.ndarray:
    """Return where two codes are equal; one NaN is as good as another."""
    of = values(form)
    return (got == want) | (np.isnan(of[got]) & np.isnan(of[want]))


def samples(count: int = 1 << 14) -> np.ndarray:
    """Return floats of every kind: all codes and the middles between them, their neighbours, random bits."""
    found = []
    for form in (E4M3, E5M2):
        finite = values(form)[: form.largest + 1]
        middles = (finite[1:] + finite[:-1]) / 2
        near = np.concatenate([finite, middles, [np.float32(2) * finite[-1]]]).astype(np.float32)
        near = np.concatenate([near, np.nextafter(near, np.float32(0)), np.nextafter(near, np.float32(np.inf))])
        found += [near, -near]
    bits = np.random.default_rng(8).integers(0, 1 << 32, count, dtype=np.uint32)
    spread = np.exp2(np.random.default_rng(9).uniform(-20, 18, count)).astype(np.float32)
    special = np.array([np.inf, -np.inf, np.nan, 0.0, -0.0, 3.4e38, 464.0, 480.0, 61440.0], np.float32)
    x = np.concatenate([*found, bits.view(np.float32), spread, -spread, special])
    return np.append(x, np.zeros(-len(x) % 4, np.float32)).astype(np.float32)  # vector conversions take four


class Output(NamedTuple):
    """An output of `KERNEL`: its dtype and the codes, or floats, that it must hold."""

    name: str
    dtype: str
    form: Format
    want: np.ndarray

    def wrong(self, raw: bytes) -> np.ndarray:
        """Return the places that hold something else."""
        if self.want.dtype == np.uint8:
            return np.flatnonzero(~same_codes(np.frombuffer(raw, np.uint8), self.want, self.form))
        got = np.frombuffer(raw, self.want.dtype)
        nan = np.isnan(got) & np.isnan(self.want)
        return np.flatnonzero(~nan & ((got != self.want) | (np.signbit(got) != np.signbit(self.want))))


def outputs(x: np.ndarray) -> list[Output]:
    """Return what `KERNEL` must write for `x` and for all codes, in the order of the plan."""
    with np.errstate(over="ignore", invalid="ignore"):
        half, bits = x.astype(np.float16).astype(np.float32), x.view(np.uint32)
    bfloat16 = ((bits + 0x7FFF + ((bits >> 16) & 1)) & np.uint32(0xFFFF0000)).view(np.float32)
    bfloat16 = np.where(np.isnan(x), np.float32(np.nan), bfloat16)
    narrowed = [
        ("uint8", E4M3, encode(x, E4M3, saturate=True)),
        ("uint8", E4M3, encode(x, E4M3, saturate=False)),
        ("float8_e5m2", E5M2, encode(x, E5M2, saturate=True)),
        ("uint8", E5M2, encode(x, E5M2, saturate=False)),
        ("float8_e4m3fn", E4M3, encode(x, E4M3, saturate=True)),
        ("float8_e5m2", E5M2, encode(x, E5M2, saturate=True)),
        ("float8_e4m3fn", E4M3, encode(x, E4M3, saturate=True)),
        ("float8_e4m3fn", E4M3, encode(x, E4M3, saturate=True)),
        ("float8_e4m3fn", E4M3, encode(half, E4M3, saturate=True)),
        ("float8_e5m2", E5M2, encode(bfloat16, E5M2, saturate=True)),
        ("float8_e4m3fn", E4M3, encode(x, E4M3, saturate=True)),
        ("float8_e4m3fn", E4M3, encode(x, E4M3, saturate=True)),
        ("float32", E4M3, values(E4M3)),
        ("float32", E5M2, values(E5M2)),
        ("float32", E4M3, values(E4M3)),
        ("float32", E5M2, values(E5M2)),
        ("float16", E4M3, values(E4M3).astype(np.float16)),
        ("float16", E5M2, values(E5M2).astype(np.float16)),
    ]
    return [Output(f"out{k}", dtype, form, want) for k, (dtype, form, want) in enumerate(narrowed)]


def signature(x: np.ndarray) -> Signature:
    """Return the tensors of `KERNEL`."""
    given = TensorSpec("x", "float32", x.shape), TensorSpec("codes", "uint8", CODES.shape)
    written = (TensorSpec(o.name, o.dtype, o.want.shape, TensorRole.OUTPUT) for o in outputs(x))
    return Signature(given, tuple(written))
