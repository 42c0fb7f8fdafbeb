"""Hostile kernel files: host code, system calls and files must stay out of reach, each with a clear status."""

from __future__ import annotations

import numpy as np
import pytest

from cutegen_core.execute.executors.cpu import CpuExecutor
from cutegen_core.machine.sandbox import sandbox
from cutegen_core.machine.sandbox.policy import SandboxLevel
from cutegen_core.records.trial import Status
from tests.execute.emulator.emulated import Harness, kernel, one

SECRET = "the-secret-nobody-may-read"


def of(statements: str, before: str = "") -> str:
    return kernel("main_kernel", f"{before}\n__global__ void main_kernel(float* out) {{\n  {statements}\n}}\n")


REFUSED_BY_THE_COMPILER = {
    "host assembly": of('asm volatile("syscall" : "=a"(*out) : "a"(39));'),
    "assembly at file scope": of("out[0] = 1;", 'asm(".incbin \\"/etc/passwd\\"");'),
    "assembly by pasting": of('PASTE(as, m)("syscall");', "#define PASTE(a, b) a##b"),
    "assembly by another keyword": of('__asm__ __volatile__("int3");').replace("__asm__", "__a\\\nsm__"),
    "a private file": of("out[0] = 1;", '#include "/etc/passwd"'),
    "a file by a macro": of("out[0] = 1;", "#define FILE_NAME </etc/passwd>\n#include FILE_NAME"),
    "embed": of("out[0] = 1;", 'const char secret[] = {\n#embed "/etc/passwd"\n};'),
    "asking for a file": of("out[0] = 1;", '#if __has_include("/etc/passwd")\n#endif'),
    "a pragma": of("out[0] = 1;", '#pragma clang section text="x"'),
    "a constructor": of("out[0] = 1;", "__attribute__((constructor)) void early() {}"),
    "an ifunc": of("out[0] = 1;", '__attribute__((ifunc("pick"))) void picked();'),
    "the emulator's own names": of("emu_fence(0);"),
}


@pytest.mark.parametrize("name", REFUSED_BY_THE_COMPILER)
def test_doors_to_the_host_are_refused_when_compiling(harness: Harness, name: str) -> None:
    built = harness.build(REFUSED_BY_THE_COMPILER[name])
    assert built.status is Status.COMPILE_ERROR, built
    assert built.message
    assert "root:" not in built.log + built.message


REFUSED_BY_THE_LOADER = {
    "system": ('system("id > /tmp/owned");', 'extern "C" int system(const char*);', "'system'"),
    "open": ('out[0] = open("/etc/passwd", 0);', 'extern "C" int open(const char*, int, ...);', "'open'"),
    "socket": ("out[0] = socket(2, 1, 0);", 'extern "C" int socket(int, int, int);', "'socket'"),
    "syscall": ("out[0] = syscall(39);", 'extern "C" long syscall(long, ...);', "'syscall'"),
    "dlopen": ('out[0] = dlopen("libc.so.6", 1) != 0;', 'extern "C" void* dlopen(const char*, int);', "'dlopen'"),
    "fopen": ('out[0] = fopen("/etc/passwd", "r") != 0;', "", "'fopen'"),
    "computed global": (
        "out[0] = early;",
        "float __attribute__((noinline)) start() { return sqrtf(2.f); }\nfloat early = start() + clock64();",
        "runs when it is loaded",
    ),
}


@pytest.mark.parametrize("name", REFUSED_BY_THE_LOADER)
def test_library_functions_do_not_exist_for_a_kernel(harness: Harness, name: str) -> None:
    statements, before, words = REFUSED_BY_THE_LOADER[name]
    out = np.zeros(1, np.float32)
    ran = harness.run(of(statements, before), {}, {"out": out}, one("main_kernel", 1, 1, "out:float32"))
    assert ran.status is Status.LAUNCH_ERROR
    assert words in ran.executed.message
    assert not ran.outputs


def test_a_system_call_out_of_the_runners_own_code_is_stopped(harness: Harness) -> None:
    """The way that is left: jump to the bytes of a `syscall` instruction inside the runner, which no filter of names
    can hide. `memcpy`'s address is legal to know; the search for the two bytes is what an attacker would do."""
    if sandbox.probe_level() is SandboxLevel.NONE:
        pytest.skip("this machine offers no system call filter")
    statements = """
  unsigned char* code = reinterpret_cast<unsigned char*>(reinterpret_cast<unsigned long>(&expf) & ~0xffful);
  while (!(code[0] == 0x0f && code[1] == 0x05 && code[2] == 0xc3)) ++code;
  using Call = long (*)(long, long, long, long, long, long);
  out[0] = reinterpret_cast<Call>(code)(0, 0, 0, 0, 0, 0);"""
    ran = harness.run(
        of(statements), {}, {"out": np.zeros(1, np.float32)}, one("main_kernel", 1, 1, "out:float32"), timeout_s=5
    )
    assert ran.status in (Status.RUNTIME_ERROR, Status.MEMORY_ERROR), ran.executed
    assert not ran.outputs


def test_writing_code_into_data_does_not_execute(harness: Harness) -> None:
    statements = """
  static unsigned char code[16];
  code[0] = 0x0f; code[1] = 0x05; code[2] = 0xc3;
  reinterpret_cast<void (*)()>(code)();
  out[0] = 1;"""
    ran = harness.run(of(statements), {}, {"out": np.zeros(1, np.float32)}, one("main_kernel", 1, 1, "out:float32"))
    assert ran.status in (Status.RUNTIME_ERROR, Status.MEMORY_ERROR)


def test_the_executor_says_what_runs_and_how_it_is_shut_in(executor: CpuExecutor) -> None:
    text = executor.describe()
    assert "emulator" in text
    assert str(sandbox.probe_level()) in text
