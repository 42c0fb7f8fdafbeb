"""Flush a device's L2 cache between two samples.

It writes twice the L2's size and then reads another buffer of that size. After the write alone the cache is full of
dirty lines, and the next kernel would be charged for their write-back. Torch-free; the reading kernel is PTX, so that
a process without a compiler can load it.
"""

from __future__ import annotations

import ctypes
from typing import Any

from cuda.bindings import driver as cuda

from cutegen_core.execute.cuda import driver
from cutegen_core.execute.cuda.driver import call

_FACTOR = 2
_BLOCK, _GRID, _WORD = 512, 528, 16
_PTX = b"""
.version 7.0
.target sm_70
.address_size 64
.visible .entry cutegen_read(.param .u64 first, .param .u64 count, .param .u64 sink)
{
  .reg .u64 %p, %n, %s, %i, %step, %at;
  .reg .u32 %t, %b, %d, %g, %acc, %v<4>;
  .reg .pred %done, %odd;
  ld.param.u64 %p, [first];
  ld.param.u64 %n, [count];
  ld.param.u64 %s, [sink];
  mov.u32 %t, %tid.x;
  mov.u32 %b, %ctaid.x;
  mov.u32 %d, %ntid.x;
  mov.u32 %g, %nctaid.x;
  mad.lo.u32 %t, %b, %d, %t;
  mul.lo.u32 %d, %d, %g;
  cvt.u64.u32 %i, %t;
  cvt.u64.u32 %step, %d;
  mov.u32 %acc, 0;
loop:
  setp.ge.u64 %done, %i, %n;
  @%done bra end;
  shl.b64 %at, %i, 4;
  add.u64 %at, %at, %p;
  ld.global.v4.u32 {%v0, %v1, %v2, %v3}, [%at];
  xor.b32 %acc, %acc, %v0;
  xor.b32 %acc, %acc, %v1;
  xor.b32 %acc, %acc, %v2;
  xor.b32 %acc, %acc, %v3;
  add.u64 %i, %i, %step;
  bra loop;
end:
  setp.eq.u32 %odd, %acc, 305419896;
  @%odd st.global.u32 [%s], %acc;
  ret;
}
\0"""
"""Kernel that reads `count` 16-byte words. It writes, to its own buffer, only if their XOR has a value that zeros never
give."""


class Reading:
    """A launch of the reading kernel, packed once: it reads all whole words of 16 bytes of some memory.

    Args:
        sink: memory of ours that it would write to.
    """

    def __init__(self, reader: Any, address: int, nbytes: int, sink: int) -> None:  # noqa: ANN401 - CUfunction
        first = -(-address // _WORD) * _WORD
        self._reader = reader
        self._arguments = tuple(map(ctypes.c_uint64, (first, max(0, address + nbytes - first) // _WORD, sink)))
        self._pointers = (ctypes.c_void_p * 3)(*(ctypes.addressof(a) for a in self._arguments))

    def enqueue(self, stream: int) -> None:
        pointers = ctypes.addressof(self._pointers)
        call(cuda.cuLaunchKernel, self._reader, _GRID, 1, 1, _BLOCK, 1, 1, 0, stream, pointers, 0)


class Flush:
    """Two buffers and the reading kernel in the current context.

    Attributes:
        nbytes: bytes written and then read by each flush.
    """

    def __init__(self, l2_bytes: int) -> None:
        self.nbytes = _FACTOR * l2_bytes
        self._written = int(call(cuda.cuMemAlloc, self.nbytes))
        read = int(call(cuda.cuMemAlloc, self.nbytes))
        call(cuda.cuMemsetD8, read, 0, self.nbytes)
        module = call(cuda.cuModuleLoadData, _PTX)
        self._reader = call(cuda.cuModuleGetFunction, module, b"cutegen_read")
        self._reading = self.reading(read, self.nbytes)

    def enqueue(self, stream: int) -> None:
        """Enqueue a flush: it leaves the L2 full of clean lines of unrelated data."""
        call(cuda.cuMemsetD8Async, self._written, 0, self.nbytes, stream)
        self._reading.enqueue(stream)

    def reading(self, address: int, nbytes: int) -> Reading:
        """Return a launch that reads this memory."""
        return Reading(self._reader, address, nbytes, self._written)


if __name__ == "__main__":  # a kernel on which `profiling.try_out` tries the profiler
    driver.start()
    Flush(1 << 20).enqueue(0)
    call(cuda.cuCtxSynchronize)
