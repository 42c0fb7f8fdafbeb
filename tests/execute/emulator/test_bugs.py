"""Seeded bugs: the instrumented run must say what is wrong, with which variable, in which line of the kernel file."""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from elftools.elf.elffile import ELFFile

from cutegen_core.execute.emulator import run
from cutegen_core.execute.emulator.symbolise import Symboliser
from cutegen_core.kernel.kernel_file import PROGRAM_NAME
from cutegen_core.records.trial import Status
from tests.adversarial.corpus import named
from tests.crowd import crowded, descendants
from tests.execute.emulator.emulated import Harness, kernel, line_of, one
from tests.patience import wait_until

MARK = "// HERE"


class Bug(NamedTuple):
    """One wrong kernel `main_kernel(float const* x, float* out, int n)` and what must be said about it."""

    body: str
    status: Status
    kind: str
    variable: str
    words: str = ""
    n: int = 100
    grid: int = 2
    block: int = 64
    smem: int = 0


MEMORY = Status.MEMORY_ERROR
BUGS = {
    "missing tail": Bug(
        "int i = blockIdx.x * blockDim.x + threadIdx.x;\n  out[i] = 2 * x[i];  // HERE",
        MEMORY,
        "out-of-bounds",
        "x",
        "element 100, it has 100 elements",
    ),
    "i <= n": Bug(
        "int i = blockIdx.x * blockDim.x + threadIdx.x;\n  if (i <= n) out[i] = 1.f;  // HERE",
        MEMORY,
        "out-of-bounds",
        "out",
        "writes out out of bounds: element 100",
    ),
    "in a function of CuTe's": Bug(
        "if (threadIdx.x == 0) {\n    Tensor all = make_tensor(make_gmem_ptr(out), n + 1);\n"
        "    fill(all, 1.f);  // HERE\n  }",
        MEMORY,
        "out-of-bounds",
        "out",
        "element 100",
        grid=1,
    ),
    "in a lambda that CuTe calls": Bug(
        "if (threadIdx.x == 0)\n    for_each(make_seq<2>{}, [&](auto i) {\n"
        "      out[n - 1 + int(i)] = 1.f;  // HERE\n    });",
        MEMORY,
        "out-of-bounds",
        "out",
        "element 100",
        grid=1,
    ),
    "before the start": Bug(
        "out[threadIdx.x] = x[(int)threadIdx.x - 1];  // HERE", MEMORY, "out-of-bounds", "x", "element -1", grid=1
    ),
    "vector read over the end": Bug(
        "float4 v = reinterpret_cast<float4 const*>(x)[threadIdx.x];  // HERE\n  out[threadIdx.x] = v.x;",
        MEMORY,
        "out-of-bounds",
        "x",
        n=98,
        grid=1,
    ),
    "cute copy over the end": Bug(
        "Tensor t = make_tensor(make_gmem_ptr(x), make_layout(Int<128>{}));\n"
        "  Tensor o = make_tensor(make_gmem_ptr(out), make_layout(Int<128>{}));\n"
        "  auto part = [](auto const& whole) { return local_partition(whole, Layout<_64>{}, threadIdx.x); };\n"
        "  copy(part(t), part(o));  // HERE",
        MEMORY,
        "out-of-bounds",
        "x",
        grid=1,
    ),
    "shared array one too small": Bug(
        "__shared__ float tile[63];\n  float* p = tile;\n  p[threadIdx.x] = x[threadIdx.x];  // HERE\n"
        "  __syncthreads();\n"
        "  out[threadIdx.x] = p[0];",
        MEMORY,
        "out-of-bounds",
        "tile",
        "element 63, it has 63 elements",
        grid=1,
    ),
    "constant index outside a shared array": Bug(
        "__shared__ float tile[64];\n  tile[threadIdx.x + n] = 1.f;  // HERE",
        MEMORY,
        "out-of-bounds",
        "tile",
        grid=1,
    ),
    "dynamic shared memory too small": Bug(
        "extern __shared__ float row[];\n  row[threadIdx.x] = x[threadIdx.x];  // HERE\n  __syncthreads();\n"
        "  out[threadIdx.x] = row[63 - threadIdx.x];",
        MEMORY,
        "out-of-bounds",
        "row",
        "element 63, it has 63 elements",
        grid=1,
        smem=252,
    ),
    "uninitialised shared memory": Bug(
        "__shared__ float tile[64];\n  if (threadIdx.x < 32) tile[threadIdx.x] = x[threadIdx.x];\n  __syncthreads();\n"
        "  out[threadIdx.x] = tile[threadIdx.x];  // HERE",
        MEMORY,
        "uninitialised",
        "tile",
        "element 32",
        grid=1,
    ),
    "missing barrier": Bug(
        "__shared__ float tile[64];\n  tile[threadIdx.x] = x[threadIdx.x];\n"
        "  if (threadIdx.x > 0) out[threadIdx.x] = tile[threadIdx.x - 1];  // HERE",
        MEMORY,
        "race",
        "tile",
        "with no barrier in between",
        grid=1,
    ),
    "missing barrier before the next write": Bug(
        "__shared__ float total;\n  for (int k = 0; k < 3; ++k) {\n    if (threadIdx.x == 0) total = x[k];\n"
        "    __syncthreads();\n    out[threadIdx.x] = total;  // HERE\n  }",
        MEMORY,
        "race",
        "total",
        "wrote with no barrier in between",
        grid=1,
    ),
    "warps not synchronised": Bug(
        "__shared__ float tile[64];\n  tile[threadIdx.x] = x[threadIdx.x];\n  __syncwarp();\n"
        "  if (threadIdx.x >= 32) out[threadIdx.x] = tile[threadIdx.x - 32];  // HERE",
        MEMORY,
        "race",
        "tile",
        grid=1,
    ),
    "race between blocks": Bug(
        "if (threadIdx.x == 0) out[0] += x[blockIdx.x];  // HERE", MEMORY, "race", "out", "block (0, 0, 0)"
    ),
    "race between threads": Bug(
        "out[0] += x[threadIdx.x];  // HERE", MEMORY, "race", "out", "thread (0, 0, 0)", grid=1
    ),
    "barrier some lanes skip": Bug(
        "out[threadIdx.x] = 1.f;\n  if (threadIdx.x < 40) __syncthreads();  // HERE",
        MEMORY,
        "divergent-barrier",
        "",
        "thread (40, 0, 0) has left the kernel without reaching it",
        grid=1,
    ),
    "two different barriers": Bug(
        "if (threadIdx.x < 32)\n    __syncthreads();  // HERE\n  else\n    __syncthreads();\n  out[threadIdx.x] = 0.f;",
        MEMORY,
        "divergent-barrier",
        "",
        "waits at __syncthreads() in line",
        grid=1,
    ),
    "early return before a shuffle's mask": Bug(
        "float v = x[threadIdx.x];\n  if (threadIdx.x % 2) v = __shfl_sync(0x1u, v, 0);  // HERE\n"
        "  out[threadIdx.x] = v;",
        MEMORY,
        "divergent-warp",
        "",
        "does not name the calling lane",
        grid=1,
    ),
    "misaligned float4": Bug(
        "float4 v = *reinterpret_cast<float4 const*>(x + 1 + 4 * threadIdx.x);  // HERE\n"
        "  out[threadIdx.x] = v.x + v.w;",
        MEMORY,
        "misaligned",
        "x",
        "16 bytes",
        n=400,
        grid=1,
    ),
    "unknown PTX": Bug(
        'asm volatile("tcgen05.fence::before_thread_sync;\\n" ::: "memory");  // HERE',
        Status.UNSUPPORTED,
        "unsupported-ptx",
        "",
        "'tcgen05.fence::before_thread_sync'",
    ),
    "writes an input": Bug(
        "const_cast<float*>(x)[3] = 0.f;  // HERE", Status.INPUT_MODIFIED, "input-modified", "x", "element 3"
    ),
    "trap": Bug("if (n == 100) __trap();  // HERE", Status.RUNTIME_ERROR, "trap", "", "__trap()"),
    "a member of what a null pointer points to": Bug(
        "struct Pair { float a, b; };\n  Pair* none = nullptr;\n  if (threadIdx.x == 3) none->b = x[0];  // HERE",
        MEMORY,
        "out-of-bounds",
        "",
        "writes address 0x4",
    ),
    "code that the kernel says is never reached": Bug(
        "if (n == 100) __builtin_unreachable();  // HERE\n  out[0] = n;",
        Status.RUNTIME_ERROR,
        "unreachable",
        "",
        "declared unreachable",
    ),
    "a false assumption": Bug(
        "__builtin_assume(n != 100);  // HERE\n  out[0] = n;",
        Status.RUNTIME_ERROR,
        "unreachable",
        "",
        "declared unreachable",
    ),
    "an alignment that is assumed": Bug(
        "__shared__ float tile[64];\n  tile[threadIdx.x] = n;\n  __syncthreads();\n"
        "  auto four = (float const*)__builtin_assume_aligned(tile + 1, 16);  // HERE\n"
        "  out[threadIdx.x] = four[threadIdx.x / 2];",
        MEMORY,
        "misaligned",
        "tile",
        "multiple of 16 bytes",
    ),
    "a function without its return": Bug(
        "auto one = [](int i) -> int { if (i != 100) return 1; };  // HERE\n  out[0] = one(n);",
        Status.RUNTIME_ERROR,
        "missing-return",
        "",
        "ends without a return",
    ),
    "a shift by more bits than there are": Bug(
        "out[0] = 1u << (n - 60);  // HERE",
        Status.RUNTIME_ERROR,
        "shift",
        "",
        "'unsigned int' by 40 bits",
    ),
    "assertion": Bug("assert(n != 100);  // HERE", Status.RUNTIME_ERROR, "assert", "", "n != 100"),
}


def source_of(bug: Bug) -> str:
    return kernel(
        "main_kernel", f"__global__ void main_kernel(float const* x, float* out, int n) {{\n  {bug.body}\n}}\n"
    )


@pytest.mark.by_default(12)
@pytest.mark.parametrize("name", BUGS)
def test_the_instrumented_run_names_the_bug(harness: Harness, name: str) -> None:
    bug = BUGS[name]
    source = source_of(bug)
    x = np.arange(bug.n, dtype=np.float32)
    plan = one("main_kernel", bug.grid, bug.block, "x:float32", "out:float32", bug.n, smem=bug.smem)
    ran = harness.run(source, {"x": x}, {"out": x}, plan, checked=True)
    assert ran.status is bug.status, ran.executed.message
    assert ran.finding.kind == bug.kind, ran.finding
    assert ran.finding.variable == bug.variable, ran.finding
    assert ran.finding.line == line_of(source, MARK), ran.finding
    assert bug.words in ran.executed.message
    assert ran.finding.kernel == "main_kernel"


HARMLESS = {
    "every thread writes the same value": (
        "__shared__ int flag;\n  flag = n;\n  __syncthreads();\n  out[threadIdx.x] = flag;"
    ),
    "lanes that have left are not waited for": (
        "if (threadIdx.x >= 48) return;\n  out[threadIdx.x] = __shfl_down_sync(0xffffffffu, x[threadIdx.x], 1);"
    ),
    "warp-level exchange through shared memory": (
        "__shared__ float tile[64];\n  tile[threadIdx.x] = x[threadIdx.x];\n  __syncwarp();\n"
        "  float v = tile[threadIdx.x ^ 1];\n  __syncwarp();\n  tile[threadIdx.x ^ 1] = v;\n  out[threadIdx.x] = v;"
    ),
    "a lock between the threads of a block": (
        "__shared__ int lock;\n  __shared__ float sum;\n  if (threadIdx.x == 0) { lock = 0; sum = 0; }\n"
        "  __syncthreads();\n"
        "  bool done = false;\n  while (!done) {\n"
        "    if (atomicCAS(&lock, 0, 1) == 0) { atomicAdd(&sum, 1.f); atomicExch(&lock, 0); done = true; }\n"
        "  }\n  __syncthreads();\n  out[threadIdx.x] = sum;"
    ),
    "shared variable captured by a lambda": (
        "__shared__ float tile[64];\n  auto put = [=](int i) { tile[i] = x[i]; };\n  put(threadIdx.x);\n"
        "  __syncthreads();\n"
        "  out[threadIdx.x] = tile[63 - threadIdx.x];"
    ),
    "shared struct with alignment": (
        "struct Storage { alignas(16) float a[32]; half_t b[64]; };\n  alignas(128) __shared__ Storage storage;\n"
        "  storage.b[threadIdx.x] = half_t(x[threadIdx.x]);\n  __syncthreads();\n"
        "  out[threadIdx.x] = float(storage.b[63 - threadIdx.x]);"
    ),
}


@pytest.mark.by_default(3)
@pytest.mark.parametrize("name", HARMLESS)
@pytest.mark.parametrize("order", [pytest.param("forward", marks=pytest.mark.thorough), "random"])
def test_what_is_allowed_is_not_reported(harness: Harness, name: str, order: str) -> None:
    source = source_of(Bug(HARMLESS[name], Status.PASSED, "", ""))
    x = np.arange(100, dtype=np.float32)
    plan = one("main_kernel", 1, 64, "x:float32", "out:float32", 100)
    ran = harness.run(source, {"x": x}, {"out": x}, plan, checked=True, order=order, seed=5)
    assert ran.status is Status.PASSED, ran.executed.message


def test_the_plain_run_catches_a_write_far_past_the_end_and_a_near_one(harness: Harness) -> None:
    body = "__global__ void main_kernel(float* out, int n) {\n  out[n] = 1.f;  // HERE\n}\n"
    source = kernel("main_kernel", body)
    out = np.zeros(64, np.float32)
    far = harness.run(source, {}, {"out": out}, one("main_kernel", 1, 1, "out:float32", 2000))
    assert (far.status, far.finding.kind, far.finding.variable) == (MEMORY, "out-of-bounds", "out")
    assert far.finding.line == line_of(source, MARK)
    near = harness.run(source, {}, {"out": out[:60]}, one("main_kernel", 1, 1, "out:float32", 60))
    assert near.status is MEMORY
    assert "past the end of out" in near.executed.message


def test_the_plain_run_sees_a_write_behind_dynamic_shared_memory(harness: Harness) -> None:
    bug = BUGS["dynamic shared memory too small"]
    x = np.arange(64, dtype=np.float32)
    plan = one("main_kernel", 1, bug.block, "x:float32", "out:float32", 64, smem=bug.smem)
    ran = harness.run(source_of(bug), {"x": x}, {"out": x}, plan)
    assert (ran.status, ran.finding.kind) == (MEMORY, "out-of-bounds"), ran.executed.message
    assert "byte 252 of dynamic shared memory, of which the launch has 252" in ran.executed.message


def test_the_plain_run_sees_a_modified_input(harness: Harness) -> None:
    body = "__global__ void main_kernel(float* x) {\n  x[1] = 1.f;  // HERE\n}\n"
    source = kernel("main_kernel", body)
    ran = harness.run(source, {"x": np.zeros(4, np.float32)}, {}, one("main_kernel", 1, 1, "x:float32"))
    assert ran.status is Status.INPUT_MODIFIED
    assert (ran.finding.variable, ran.finding.line) == ("x", line_of(source, MARK))


@pytest.mark.by_default(2)
@pytest.mark.parametrize("checked", [False, True], ids=["plain", "checked"])
@pytest.mark.parametrize("access", ["*none = 1.f", "out[1] = *none", "take(*none)"])
def test_an_access_through_a_null_pointer_is_no_success(harness: Harness, access: str, checked: bool) -> None:
    """A compiler takes it for code that is never reached, and leaves out what leads there; a GPU's compiler traps."""
    body = (
        "__device__ void take(float& value) { value = 1.f; }\n__global__ void main_kernel(float* out, int n) {\n"
        f"  float* none = nullptr;\n  if (n == 100) {access};\n  out[0] = 1.f;\n}}\n"
    )
    plan = one("main_kernel", 1, 1, "out:float32", 100)
    ran = harness.run(kernel("main_kernel", body), {}, {"out": np.zeros(2, np.float32)}, plan, checked=checked)
    assert ran.status in (MEMORY, Status.RUNTIME_ERROR), ran.executed.message


def test_a_local_variable_that_was_never_set_is_no_number(harness: Harness) -> None:
    """Compilers may take anything for it, for example what makes the result right."""
    body = (
        "__global__ void main_kernel(float* out, int n) {\n  float sum[4];\n  int first;\n  if (n == 0) first = 0;\n"
        "  for (int i = 0; i < 4; ++i) sum[i] += i;\n  out[0] = sum[2];\n  out[1] = first;\n}\n"
    )
    plan = one("main_kernel", 1, 1, "out:float32", 100)
    ran = harness.run(kernel("main_kernel", body), {}, {"out": np.zeros(2, np.float32)}, plan)
    assert np.isnan(ran.outputs["out"][0])
    assert ran.outputs["out"][1] < -1e9


def test_numbers_that_no_integer_holds_are_converted_as_a_gpu_does(harness: Harness) -> None:
    """PTX ISA, cvt: to the nearest number of the integer type, NaN to 0."""
    x = np.array([1e20, -1e20, np.nan, -7.9, np.inf], np.float32)
    body = (
        "__global__ void main_kernel(float const* x, float* out, int n) {\n"
        "  for (int i = 0; i < n; ++i) { out[i] = (int)x[i]; out[n + i] = (unsigned)x[i]; }\n}\n"
    )
    plan = one("main_kernel", 1, 1, "x:float32", "out:float32", 5)
    ran = harness.run(kernel("main_kernel", body), {"x": x}, {"out": np.zeros(10, np.float32)}, plan)
    assert list(ran.outputs["out"]) == [2.0**31, -(2.0**31), 0, -7, 2.0**31, 2.0**32, 0, 0, 0, 2.0**32]


@pytest.mark.parametrize("checked", [pytest.param(False, marks=pytest.mark.thorough), True], ids=["plain", "checked"])
def test_an_endless_loop_times_out_with_its_line(harness: Harness, checked: bool) -> None:
    body = (
        "__global__ void main_kernel(float* out, unsigned n) {\n  unsigned i = 1;\n"
        "  while (i != n) {\n    i = i * 2654435761u | 1u;  // HERE\n  }\n  out[0] = i;\n}\n"
    )
    source = kernel("main_kernel", body)
    plan = one("main_kernel", 1, 32, "out:float32", 0)
    harness.build(source)
    ran = harness.run(source, {}, {"out": np.zeros(1, np.float32)}, plan, checked=checked, timeout_s=0.5)
    assert (ran.status, ran.finding.kind) == (Status.TIMEOUT, "timeout")
    assert abs(ran.finding.line - line_of(source, MARK)) <= 1
    assert "endless loop" in ran.executed.message
    assert "500 ms of processor time" in ran.executed.message


def test_an_endless_loop_gets_another_try_where_it_had_to_wait(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    body = (
        "__global__ void main_kernel(float* out, unsigned n) {\n  unsigned i = 1;\n"
        "  while (i != n) i = i * 2654435761u | 1u;\n  out[0] = i;\n}\n"
    )
    source, zero, answers = kernel("main_kernel", body), np.zeros(1, np.float32), list[Mapping[str, list[str]]]()
    plan, really = one("main_kernel", 1, 32, "out:float32", 0), run._run_once

    def kept(*arguments: Any) -> Mapping[str, list[str]]:
        answers.append(really(*arguments))
        return answers[-1]

    harness.build(source)
    monkeypatch.setattr(run, "_run_once", kept)
    with crowded(1.0):
        harness.run(source, {}, {"out": zero}, plan, timeout_s=0.5)
    assert len(answers) == 2

    at_once = iter(answers)
    monkeypatch.setattr(run, "_run_once", lambda *_: next(at_once))
    assert harness.run(source, {}, {"out": zero}, plan, timeout_s=60).status is Status.TIMEOUT
    assert next(at_once, None) is answers[1]


def test_a_kernel_ends_with_the_process_that_runs_it_however_that_ended(harness: Harness) -> None:
    """An engine may be killed: its runner, and the worker that the runner has forked, must not compute on."""
    body = (
        "__global__ void main_kernel(float* out, unsigned n) {\n  unsigned i = 1;\n"
        "  while (i != n) i = i * 2654435761u | 1u;\n  out[0] = i;\n}\n"
    )
    source, zero = kernel("main_kernel", body), np.zeros(1, np.float32)
    harness.build(source)
    engine = os.fork()
    if engine == 0:
        harness.run(source, {}, {"out": zero}, one("main_kernel", 1, 32, "out:float32", 0), timeout_s=600)
        os._exit(0)
    try:
        wait_until(lambda: len(descendants(engine)) >= 2)
        running = descendants(engine)
    finally:
        os.kill(engine, signal.SIGKILL)
        os.waitpid(engine, 0)
    wait_until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in running))


def test_a_busy_machine_is_not_blamed_on_the_kernel(harness: Harness) -> None:
    """The limit counts processor time: what takes long because others use the processor has not timed out."""
    body = (
        "__global__ void main_kernel(float* out, unsigned n) {\n  unsigned i = 1;\n"
        "  for (unsigned k = 0; k < n; ++k) i = i * 2654435761u | 1u;\n  out[0] = i;\n}\n"
    )
    source, zero = kernel("main_kernel", body), np.zeros(1, np.float32)
    harness.build(source)
    with crowded(1.0):
        ran = harness.run(
            source, {}, {"out": zero}, one("main_kernel", 1, 1, "out:float32", 100_000_000), timeout_s=0.8
        )
    assert ran.status is Status.PASSED, ran.executed.message
    assert ran.executed.seconds > 1.0


def test_blocks_that_wait_for_one_another_are_unsupported(harness: Harness) -> None:
    body = (
        "__device__ int arrived = 0;\n__global__ void main_kernel(float* out) {\n  if (threadIdx.x == 0) {\n"
        "    atomicAdd(&arrived, 1);\n    while (atomicAdd(&arrived, 0) < 2) {}  // HERE\n  }\n  __syncthreads();\n"
        "  out[blockIdx.x] = 1;\n}\n"
    )
    source = kernel("main_kernel", body)
    plan = one("main_kernel", 2, 32, "out:float32")
    ran = harness.run(source, {}, {"out": np.zeros(2, np.float32)}, plan, checked=True)
    assert (ran.status, ran.finding.kind) == (Status.UNSUPPORTED, "inter-block-wait")
    assert ran.finding.line == line_of(source, MARK)


ENDED = {
    "threads without work": "if (threadIdx.x < 40) {\n    out[threadIdx.x] = 1.f;\n    __syncthreads();  // HERE\n  }",
    "a warp that has done its part": (
        "if (threadIdx.x < 40) out[threadIdx.x] = 1.f;\n  if (threadIdx.x >= 32) return;\n  __syncthreads();  // HERE"
    ),
}


@pytest.mark.parametrize("name", ENDED)
def test_a_barrier_after_threads_have_ended_warns(harness: Harness, name: str) -> None:
    source = source_of(Bug(ENDED[name], MEMORY, "", ""))
    x = np.zeros(40, np.float32)
    ran = harness.run(
        source, {"x": x}, {"out": x}, one("main_kernel", 1, 64, "x:float32", "out:float32", 40), checked=True
    )
    assert ran.status is Status.PASSED
    assert (ran.finding.kind, ran.finding.line) == ("divergent-barrier", line_of(source, MARK))
    assert "has left the kernel before this __syncthreads()" in ran.finding.message
    assert (ran.outputs["out"] == 1).all()


SPINS = {
    "a thread's own variable": (
        "volatile int left = 40000000;\n  while (left > 0) left = left - 1000;\n  out[threadIdx.x] = left;",
        Status.PASSED, "",
    ),
    "a flag in shared memory": (
        "__shared__ int flag;\n  if (threadIdx.x == 0) flag = 0;\n  __syncthreads();\n"
        "  if (threadIdx.x == 63) { for (int i = 0; i < 9; ++i) __syncwarp(1u << 31); atomicExch(&flag, 1); }\n"
        "  else while (atomicAdd(&flag, 0) == 0) {}\n  __syncthreads();\n  out[threadIdx.x] = flag;",
        Status.PASSED, "",
    ),
    "a flag nobody sets": (
        "__shared__ int flag;\n  if (threadIdx.x == 0) flag = 0;\n  __syncthreads();\n"
        "  while (atomicAdd(&flag, 0) == 0) {}  // HERE\n  out[threadIdx.x] = flag;",
        Status.TIMEOUT, "deadlock",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", SPINS)
def test_what_a_block_can_wait_for(harness: Harness, name: str) -> None:
    body, status, kind = SPINS[name]
    source = source_of(Bug(body, status, kind, ""))
    x = np.zeros(64, np.float32)
    plan = one("main_kernel", 2, 64, "x:float32", "out:float32", 64)
    if status is Status.PASSED:
        plan = one("main_kernel", 1, 64, "x:float32", "out:float32", 64)
    ran = harness.run(source, {"x": x}, {"out": x}, plan, checked=True)
    assert ran.status is status, ran.executed.message
    if kind:
        assert (ran.finding.kind, ran.finding.variable, ran.finding.line) == (kind, "flag", line_of(source, MARK))


@pytest.mark.parametrize(
    ("read", "told", "status"),
    [
        ("volatile", "volatile", Status.PASSED),
        ("volatile", "", Status.MEMORY_ERROR),
        ("", "volatile", Status.MEMORY_ERROR),
    ],
)
def test_a_flag_in_global_memory_may_be_polled_within_a_block(
    harness: Harness, read: str, told: str, status: Status
) -> None:
    body = (
        "__global__ void main_kernel(float const* x, float* out) {\n"
        f"  if (threadIdx.x == 32) *static_cast<float {told}*>(out) = 7;\n"
        f"  if (threadIdx.x == 0) do out[1] = *static_cast<float {read}*>(out); while (out[1] != 7);\n}}\n"
    )
    x = np.zeros(2, np.float32)
    plan = one("main_kernel", 1, 64, "x:float32", "out:float32")
    ran = harness.run(kernel("main_kernel", body), {"x": x}, {"out": x}, plan, checked=True, order="reverse")
    assert ran.status is status, ran.executed
    assert [f.kind for f in ran.executed.findings] == ([] if status is Status.PASSED else ["race"])


def test_the_last_block_pattern_warns_where_the_second_fence_is_missing(harness: Harness) -> None:
    body = (
        "__device__ unsigned finished = 0;\n"
        "__global__ void main_kernel(float const* x, float* partial, float* out) {\n"
        "  if (threadIdx.x != 0) return;\n  partial[blockIdx.x] = x[blockIdx.x];\n  __threadfence();\n"
        "  if (atomicAdd(&finished, 1u) + 1 < gridDim.x) return;\n  float sum = 0.f;\n"
        "  for (unsigned i = 0; i < gridDim.x; ++i) sum += partial[i];  // HERE\n  out[0] = sum;\n"
        "  finished = 0;\n}\n"
    )
    source = kernel("main_kernel", body)
    x = np.arange(4, dtype=np.float32)
    plan = one("main_kernel", 4, 32, "x:float32", "partial:float32", "out:float32")
    ran = harness.run(source, {"x": x}, {"partial": x, "out": x[:1]}, plan, checked=True)
    assert ran.status is Status.PASSED
    assert (ran.finding.kind, ran.finding.line) == ("missing-fence", line_of(source, MARK))
    assert ran.outputs["out"][0] == 6


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("x:float32", "out:float32"), "main_kernel takes 3 arguments, the plan gives 2"),
        (("x:float32", "out:float32", 1, 2), "main_kernel takes 3 arguments, the plan gives 4"),
        (("x:float32", 5, 1), "parameter 2 is a pointer, the plan gives a number"),
        (("x:float32", "out:float32", "x:float32"), "parameter 3 is a number, the plan gives a tensor"),
        (("x:float32", "out:float32", 1 << 40), "does not fit its 32-bit parameter"),
        (("x:float32", "out:float32", 1.5), "argument 3 is a whole number, the plan gives 1.5"),
        (("x:int32", "out:float32", 1), "parameter 1 points to float32, but x holds int32"),
    ],
)
def test_arguments_that_do_not_fit_are_refused_before_anything_runs(
    harness: Harness, arguments: tuple[object, ...], words: str
) -> None:
    source = source_of(Bug("out[0] = x[0] + n;", Status.LAUNCH_ERROR, "", ""))
    x = np.zeros(4, np.float32)
    ran = harness.run(source, {"x": x}, {"out": x}, one("main_kernel", 1, 1, *arguments))
    assert ran.status is Status.LAUNCH_ERROR
    assert words in ran.executed.message


def test_a_kernel_name_that_cannot_be_instantiated_is_a_compile_error_of_the_plan(harness: Harness) -> None:
    source = kernel("main_kernel<float>", "template <int N>\n__global__ void main_kernel() {}\n")
    built = harness.build(source)
    assert built.status is Status.COMPILE_ERROR
    assert "kernel 'main_kernel<float>' of the plan" in built.message


def test_compile_errors_carry_the_line_of_the_kernel_file(harness: Harness) -> None:
    source = kernel("main_kernel", "__global__ void main_kernel(float* out) {\n  out[0] = missing;  // HERE\n}\n")
    built = harness.build(source)
    assert built.status is Status.COMPILE_ERROR
    assert built.diagnostics[0].line == line_of(source, MARK)
    assert "missing" in built.diagnostics[0].message


def test_errors_inside_cute_are_folded_to_the_line_that_led_there(harness: Harness) -> None:
    body = (
        "__global__ void main_kernel(float* out) {\n  Tensor t = make_tensor(make_gmem_ptr(out), Layout<_4>{});\n"
        "  auto tile = local_tile(t, Shape<_2, _2>{}, make_coord(0, 0, 0));  // HERE\n  out[0] = size(tile);\n}\n"
    )
    source = kernel("main_kernel", body)
    built = harness.build(source)
    assert built.status is Status.COMPILE_ERROR
    assert built.diagnostics[0].line == line_of(source, MARK)


def test_an_endless_loop_that_is_stopped_at_a_merged_instruction_has_its_line(harness: Harness) -> None:
    """The compiler gives instructions that it merged or moved line 0."""
    built = harness.build(named("endless loop").source, checked=True)
    assert built.path is not None
    with built.path.open("rb") as file:
        dwarf = ELFFile(file).get_dwarf_info()
        (program,) = (dwarf.line_program_for_CU(unit) for unit in dwarf.iter_CUs())
        rows = [entry.state for entry in program.get_entries() if entry.state is not None]
    own = [n for n, entry in enumerate(program["file_entry"], 1) if entry.name.decode().endswith(PROGRAM_NAME)]
    loop = [row.address for row in rows if row.file in own and row.line == 17]
    numberless = [r.address + 1 for r in rows if r.file in own and not r.line and r.address > min(loop)]
    assert numberless
    lines = [Symboliser(built.path).find_line([address]) for address in numberless]
    assert 17 in lines or 16 in lines, "some belong to header code around it, and to no line of the file"
