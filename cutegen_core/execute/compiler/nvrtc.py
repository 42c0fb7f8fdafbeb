"""Call NVRTC, NVIDIA's runtime compiler, through ctypes; only the functions that the compile server needs.

Only the compile server's process loads it, from an explicit path, so it cannot clash with another NVRTC (torch's).
Reference: https://docs.nvidia.com/cuda/nvrtc/.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from cutegen_core.records.errors import MachineError

SUCCESS, OUT_OF_MEMORY = 0, 1
NO_HEADERS: Mapping[str, str] = {}


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

    def compile(
        self,
        source: str,
        name: str,
        options: Sequence[str],
        names: Sequence[str] = (),
        headers: Mapping[str, str] = NO_HEADERS,
    ) -> NvrtcResult:
        """Compile one program to a cubin. An error in the program is a result.

        Args:
            headers: name -> text of headers that are included instead of the files of these names.

        Raises:
            MachineError: NVRTC itself fails.
        """
        with self._program(source, name, headers) as program:
            for expression in names:
                self._call("nvrtcAddNameExpression", program, expression.encode())
            encoded = [option.encode() for option in options]
            array = (ctypes.c_char_p * len(encoded))(*encoded)
            code = self._library.nvrtcCompileProgram(program, len(encoded), array)
            log = self._bytes("nvrtcGetProgramLog", program).rstrip(b"\0").decode(errors="replace")
            if code != SUCCESS:
                return NvrtcResult(code, log, b"", {})
            lowered = {expression: self._lowered(program, expression) for expression in names}
            return NvrtcResult(code, log, self._bytes("nvrtcGetCUBIN", program), lowered)

    def create_pch(self, source: str, name: str, options: Sequence[str], pch: Path, headers: Mapping[str, str]) -> None:
        """Precompile headers into `pch`, valid only in this process and its forks and with the same options.

        Raises:
            MachineError: NVRTC cannot precompile them.
        """
        made = self.compile(source, name, [*options, f"-create-pch={pch}"], headers=headers)
        if made.code != SUCCESS or not pch.exists():
            raise MachineError(
                f"the headers could not be precompiled (NVRTC result {made.code}). The packages of the toolchain may "
                f"not belong together; `cutegen doctor` lists them.\n{made.log[:4000]}"
            )

    @contextmanager
    def _program(self, source: str, name: str, headers: Mapping[str, str]) -> Iterator[ctypes.c_void_p]:
        program, count = ctypes.c_void_p(), len(headers)
        texts = (ctypes.c_char_p * count)(*(text.encode() for text in headers.values()))
        names = (ctypes.c_char_p * count)(*(header.encode() for header in headers))
        self._call(
            "nvrtcCreateProgram", ctypes.byref(program), source.encode(), name.encode(), count, texts, names
        )  # fmt: skip
        try:
            yield program
        finally:
            self._call("nvrtcDestroyProgram", ctypes.byref(program))

    def _lowered(self, program: ctypes.c_void_p, expression: str) -> str:
        name = ctypes.c_char_p()
        self._call("nvrtcGetLoweredName", program, expression.encode(), ctypes.byref(name))
        return (name.value or b"").decode()

    def _bytes(self, getter: str, program: ctypes.c_void_p) -> bytes:
        size = ctypes.c_size_t()
        self._call(f"{getter}Size", program, ctypes.byref(size))
        buffer = ctypes.create_string_buffer(size.value)
        self._call(getter, program, buffer)
        return buffer.raw

    def _call(self, function: str, *arguments: object) -> None:
        code = getattr(self._library, function)(*arguments)
        if code != SUCCESS:
            raise MachineError(f"{function} failed: {self._library.nvrtcGetErrorString(code).decode()}")
