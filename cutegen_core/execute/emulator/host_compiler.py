"""Choose the compiler of candidates and runner: the clang in the ziglang wheel, or an installed one by setting.

`CUTEGEN_HOST_CXX=/path/to/clang++` chooses an installed clang (g++ is refused: the layout of shared variables needs
clang). It is a setting, never a fallback, because results name the compiler they belong to.
"""

from __future__ import annotations

import functools
import os
import re
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from cutegen_core.machine import toolchain
from cutegen_core.records.errors import MachineError

SETTING = "CUTEGEN_HOST_CXX"
GLIBC = "2.28"

# Kernels, and CuTe's vectorised copies, move halves as 64-bit integers: to a GPU's compiler that is the same memory.
# Functions are marked for the thread checker, so that the optimiser invents no accesses, but only the checked build's
# second step puts its calls in. Assignments of variables are not tracked: line tables have no variables.
# What C++ leaves undefined must not come out right here by chance: accesses through null pointers stay, local variables
# begin as a pattern (NaN), and floats that no integer holds are converted as a GPU does. `null` of the sanitizer would
# make compiling a half longer.
_CANDIDATE = (
    "-std=c++17", "-O1", "-fPIC", "-fvisibility=hidden", "-fno-exceptions", "-fno-rtti", "-fno-omit-frame-pointer",
    "-fno-optimize-sibling-calls", "-fno-strict-aliasing", "-gline-tables-only", "-gdwarf-4", "-ferror-limit=20", "-w",
    "-fsanitize=thread,alignment,bounds,unreachable,return,shift-exponent", "-fno-delete-null-pointer-checks",
    "-ftrivial-auto-var-init=pattern", "-fno-strict-float-cast-overflow",
    "-mllvm", "-tsan-instrument-memory-accesses=0", "-mllvm", "-tsan-instrument-func-entry-exit=0",
    "-mllvm", "-tsan-instrument-atomics=0", "-mllvm", "-tsan-instrument-memintrinsics=0",
    "-Xclang", "-fexperimental-assignment-tracking=disabled",
    "-ffp-contract=fast-honor-pragmas",
)  # fmt: skip
_CLANG_ONLY = ("-fno-gnu-inline-asm",)
_CHECKER = (
    "-x", "ir", "-O0", "-w", "-fsanitize=thread", "-mllvm", "-tsan-instrument-func-entry-exit=0",
    "-mllvm", "-tsan-distinguish-volatile", "-emit-llvm",
)  # fmt: skip
# The code is optimised already. Optimised once more, it would lose accesses that race.
_MACHINE = (
    "-x", "ir", "-O1", "-Xclang", "-disable-llvm-passes", "-fPIC", "-fno-omit-frame-pointer",
    "-fno-optimize-sibling-calls", "-w",
)  # fmt: skip
# A GPU's compiler contracts a product and a sum to one rounding (FMA) wherever it can. The plain build does, too, where
# the processor can; the checked build, whose results are judged as well, never does: both ends must be right.
_FMA = ("avx", "crc32", "fma", "popcnt", "sse3", "sse4.1", "sse4.2", "ssse3", "xsave")
_RUNNER = (
    "-std=c++17", "-O2", "-fPIE", "-fno-exceptions", "-fno-rtti", "-fno-omit-frame-pointer", "-fno-stack-protector",
)  # fmt: skip
_LIBCXX = (
    "_LIBCPP_ABI_VERSION=1", "_LIBCPP_ABI_NAMESPACE=__1", "_LIBCPP_HAS_THREADS=1", "_LIBCPP_HAS_MONOTONIC_CLOCK",
    "_LIBCPP_HAS_TERMINAL", "_LIBCPP_HAS_MUSL_LIBC=0", "_LIBCPP_DISABLE_VISIBILITY_ANNOTATIONS",
    "_LIBCPP_HAS_VENDOR_AVAILABILITY_ANNOTATIONS=0", "_LIBCPP_HAS_FILESYSTEM=1", "_LIBCPP_HAS_RANDOM_DEVICE",
    "_LIBCPP_HAS_LOCALIZATION", "_LIBCPP_HAS_UNICODE", "_LIBCPP_HAS_WIDE_CHARACTERS", "_LIBCPP_HAS_NO_STD_MODULES",
    "_LIBCPP_HAS_TIME_ZONE_DATABASE", "_LIBCPP_PSTL_BACKEND_SERIAL",
    "_LIBCPP_HARDENING_MODE=_LIBCPP_HARDENING_MODE_NONE",
    "_LIBCPP_ASSERTION_SEMANTIC_DEFAULT=_LIBCPP_ASSERTION_SEMANTIC_IGNORE", "__GLIBC_MINOR__=28",
)  # fmt: skip
_ZIG_INCLUDES = (
    "libcxx/include", "include", "libc/include/x86-linux-gnu", "libc/include/generic-glibc",
    "libc/include/x86-linux-any", "libc/include/any-linux-any",
)  # fmt: skip


@dataclass(frozen=True)
class HostCompiler:
    """The command lines of one compiler.

    Attributes:
        compile: start of every command that compiles C++.
        link_runner: start of the command that links the runner; objects and `-o` follow.
        link_candidate: start of the command that links a candidate's shared object.
        reads: folders and files that the compiler itself must be able to read.
        version: one line for messages and cache keys.
    """

    compile: tuple[str, ...]
    link_runner: tuple[str, ...]
    link_candidate: tuple[str, ...]
    reads: tuple[Path, ...]
    version: str
    is_clang: bool = True

    def candidate_flags(self) -> tuple[str, ...]:
        """Return the options of the first step, from C++ to optimised LLVM code; prelude and candidates share them."""
        return (*_CANDIDATE, *(_CLANG_ONLY if self.is_clang else ()))

    def checker_flags(self) -> tuple[str, ...]:
        """Return the options that put the thread checker's calls into LLVM code, and change nothing else."""
        return _CHECKER

    def machine_flags(self) -> tuple[str, ...]:
        """Return the options of the last step, from LLVM code to an object."""
        return _MACHINE

    def runner_flags(self) -> tuple[str, ...]:
        return _RUNNER


def find() -> HostCompiler:
    """Return the compiler in use.

    Raises:
        MachineError: the ziglang wheel is missing, or the compiler in the setting cannot be run.
    """
    chosen = os.environ.get(SETTING)
    return _installed(Path(chosen)) if chosen else _zig()


def digest_flags() -> str:
    """Return a text that changes if the options of any compile change."""
    return repr((_CANDIDATE, _CLANG_ONLY, _CHECKER, _MACHINE, contraction_features(), _RUNNER))


def contraction_features() -> tuple[str, ...]:
    """Return the features of the processor with which the plain build contracts; empty if it has no FMA."""
    return _FMA if has_fma() else ()


@functools.cache
def has_fma() -> bool:
    """Tell whether this processor multiplies and adds with one rounding."""
    flags = re.search(r"^flags\s*:(.*)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    return flags is not None and {"fma", "avx"} <= set(flags[1].split())


def environment(cache: Path) -> Mapping[str, str]:
    """Return the environment of every compile: no user settings, zig's caches inside `cache`."""
    return {
        "PATH": os.environ.get("PATH", ""), "HOME": str(cache), "TMPDIR": str(cache),
        "ZIG_GLOBAL_CACHE_DIR": str(cache / "zig"), "ZIG_LOCAL_CACHE_DIR": str(cache / "zig"),
    }  # fmt: skip


def _zig() -> HostCompiler:
    zig = Path(toolchain.find_zig()[0])
    library = zig.parent / "lib"
    system = [word for name in _ZIG_INCLUDES for word in ("-isystem", str(library / name))]
    defines = [f"-D{name}" for name in _LIBCXX]
    return HostCompiler(
        compile=(str(zig), "clang", "--target=x86_64-linux-gnu", "-nostdinc", "-nostdinc++", *system, *defines),
        link_runner=(str(zig), "cc", "-target", f"x86_64-linux-gnu.{GLIBC}", "-O2", "-pie", "-fno-sanitize=all", "-lm"),
        link_candidate=(str(zig), "ld.lld", "-shared", "-Bsymbolic", "--hash-style=sysv",
                        "--unresolved-symbols=ignore-all"),
        reads=(zig.parent,),
        version=f"clang of ziglang {toolchain.installed_version('ziglang')}",
    )  # fmt: skip


def _installed(path: Path) -> HostCompiler:
    try:
        said = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=30, check=True).stdout
    except (OSError, subprocess.SubprocessError) as error:
        raise MachineError(f"{SETTING}={path} cannot be run: {error}. Name a clang++, or unset it.") from error
    if "clang" not in said:
        raise MachineError(
            f"{SETTING}={path} is not clang; the instrumented build needs its sanitizers. Name a clang++, or unset it "
            "to use the clang of the ziglang wheel."
        )
    return HostCompiler(
        compile=(str(path),),
        link_runner=(str(path), "-pie", "-lm"),
        link_candidate=(str(path), "-shared", "-nostdlib", "-Wl,-Bsymbolic,--hash-style=sysv,-z,undefs"),
        reads=(Path("/usr"), path.resolve().parent.parent),
        version=said.splitlines()[0],
    )
