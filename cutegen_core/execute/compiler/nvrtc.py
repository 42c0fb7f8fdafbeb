"""Call NVRTC, NVIDIA's runtime compiler, through ctypes; only the functions that the compile server needs.

Only the compile server's process loads it, from an explicit path, so it cannot clash with another NVRTC (torch's).
Reference: https://docs.nvidia.com/cuda/nvrtc/.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from cutegen_core.kernel.plan_records import global_name
from cutegen_core.records.errors import MachineError

SUCCESS, OUT_OF_MEMORY = 0, 1


@dataclass(frozen=True)
class NvrtcProgram:
    """A program to compile.

    Attributes:
        name: the file that messages name.
        names: its kernels, with template arguments.
        headers: name -> text of headers that are included instead of the files of these names.
    """

    text: str
    name: str
    names: Sequence[str] = ()
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class NvrtcResult:
    """The result of compiling one program.

    Attributes:
        code: nvrtcResult: SUCCESS, 6 (an error in the program), OUT_OF_MEMORY, or another failure.
        lowered: name expression -> mangled name; empty unless successful.
    """

    code: int
    log: str
    cubin: bytes
    lowered: Mapping[str, str]


class Nvrtc:
    """The loaded library."""

    def __init__(self, library: Path, builtins: Path) -> None:
        ctypes.CDLL(str(builtins))
        self._library = ctypes.CDLL(str(library))
        self._library.nvrtcGetErrorString.restype = ctypes.c_char_p

    def version(self) -> str:
        major, minor = ctypes.c_int(), ctypes.c_int()
        self._call("nvrtcVersion", ctypes.byref(major), ctypes.byref(minor))
        return f"{major.value}.{minor.value}"

    def set_pch_heap(self, size_bytes: int) -> None:
        """Set the size of the heap for precompiled headers; call it before the first compile."""
        self._call("nvrtcSetPCHHeapSize", ctypes.c_size_t(size_bytes))

    def compile(self, program: NvrtcProgram, options: Sequence[str]) -> NvrtcResult:
        """Compile one program to a cubin. An error in the program is a result.

        Raises:
            MachineError: NVRTC itself fails.
        """
        with self._open(program) as handle:
            for expression in program.names:
                self._call("nvrtcAddNameExpression", handle, global_name(expression).encode())
            encoded = [option.encode() for option in options]
            array = (ctypes.c_char_p * len(encoded))(*encoded)
            code = self._library.nvrtcCompileProgram(handle, len(encoded), array)
            log = self._bytes("nvrtcGetProgramLog", handle).rstrip(b"\0").decode(errors="replace")
            if code != SUCCESS:
                return NvrtcResult(code, log, b"", {})
            lowered = {expression: self._lowered(handle, global_name(expression)) for expression in program.names}
            return NvrtcResult(code, log, self._bytes("nvrtcGetCUBIN", handle), lowered)

    def create_pch(self, program: NvrtcProgram, options: Sequence[str], pch: Path) -> None:
        """Precompile what a program includes into `pch`, valid only in this process and its forks and with the same
        options.

        Raises:
            MachineError: NVRTC cannot precompile it.
        """
        made = self.compile(program, [*options, f"-create-pch={pch}"])
        if made.code != SUCCESS or not pch.exists():
            raise MachineError(
                f"the headers could not be precompiled (NVRTC result {made.code}). The packages of the toolchain may "
                f"not belong together; `cutegen doctor` lists them.\n{made.log[:4000]}"
            )

    @contextmanager
    def _open(self, program: NvrtcProgram) -> Iterator[ctypes.c_void_p]:
        handle, count = ctypes.c_void_p(), len(program.headers)
        texts = (ctypes.c_char_p * count)(*(text.encode() for text in program.headers.values()))
        names = (ctypes.c_char_p * count)(*(header.encode() for header in program.headers))
        source, name = program.text.encode(), program.name.encode()
        self._call("nvrtcCreateProgram", ctypes.byref(handle), source, name, count, texts, names)
        try:
            yield handle
        finally:
            self._call("nvrtcDestroyProgram", ctypes.byref(handle))

    def _lowered(self, handle: ctypes.c_void_p, expression: str) -> str:
        name = ctypes.c_char_p()
        self._call("nvrtcGetLoweredName", handle, expression.encode(), ctypes.byref(name))
        return (name.value or b"").decode()

    def _bytes(self, getter: str, handle: ctypes.c_void_p) -> bytes:
        size = ctypes.c_size_t()
        self._call(f"{getter}Size", handle, ctypes.byref(size))
        buffer = ctypes.create_string_buffer(size.value)
        self._call(getter, handle, buffer)
        return buffer.raw

    def _call(self, function: str, *arguments: object) -> None:
        code = getattr(self._library, function)(*arguments)
        if code != SUCCESS:
            raise MachineError(f"{function} failed: {self._library.nvrtcGetErrorString(code).decode()}")
