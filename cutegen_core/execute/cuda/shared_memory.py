"""Fill the shared memory of every SM with a byte, to expose kernels that read it uninitialised.

Shared memory keeps the values of the last block on an SM, which are mostly zeros: the value on which a kernel that
forgot to initialise it would rely. compute-sanitizer does not detect this. Each block uses all shared memory of an SM,
so one block per SM reaches every SM. The kernel is PTX, so that a process without a compiler can load it.
"""

from __future__ import annotations

import ctypes

from cuda.bindings import driver as cuda

from cutegen_core.execute.cuda.driver import CudaDevice, call

_BLOCK = 1024
_PTX = b"""
.version 7.0
.target sm_70
.address_size 64
.extern .shared .align 16 .b8 place[];
.visible .entry cutegen_fill_shared(.param .u32 value, .param .u32 words)
{
  .reg .pred %done;
  .reg .u32 %v, %n, %i, %step, %at, %first;
  ld.param.u32 %v, [value];
  ld.param.u32 %n, [words];
  mov.u32 %i, %tid.x;
  mov.u32 %step, %ntid.x;
  mov.u32 %first, place;
loop:
  setp.ge.u32 %done, %i, %n;
  @%done bra end;
  shl.b32 %at, %i, 2;
  add.u32 %at, %at, %first;
  st.volatile.shared.u32 [%at], %v;
  add.u32 %i, %i, %step;
  bra loop;
end:
  ret;
}
\0"""


class SharedMemory:
    """The filling kernel, loaded in the current context.

    Attributes:
        nbytes: most shared memory of one block on this device.
    """

    def __init__(self, gpu: CudaDevice) -> None:
        attribute = cuda.CUdevice_attribute.CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN
        self.nbytes = int(call(cuda.cuDeviceGetAttribute, attribute, gpu.handle))
        self._blocks = gpu.sm_count
        self._function = call(cuda.cuModuleGetFunction, call(cuda.cuModuleLoadData, _PTX), b"cutegen_fill_shared")
        most = cuda.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
        call(cuda.cuFuncSetAttribute, self._function, most, self.nbytes)

    def fill(self, byte: int, stream: int) -> None:
        """Enqueue the kernel that fills shared memory with `byte`."""
        arguments = (ctypes.c_uint32(byte * 0x01010101), ctypes.c_uint32(self.nbytes // 4))
        pointers = (ctypes.c_void_p * 2)(*(ctypes.addressof(a) for a in arguments))
        where = ctypes.addressof(pointers)
        call(cuda.cuLaunchKernel, self._function, self._blocks, 1, 1, _BLOCK, 1, 1, self.nbytes, stream, where, 0)
