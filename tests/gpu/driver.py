"""The CUDA driver's own answers about a cubin, through ctypes."""

import ctypes


class Module:
    """A cubin loaded into a fresh context on the first GPU."""

    def __init__(self, cubin: bytes) -> None:
        self._cuda = ctypes.CDLL("libcuda.so.1")
        device, self._context, self._module = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_void_p()
        self._call("cuInit", 0)
        self._call("cuDeviceGet", ctypes.byref(device), 0)
        self._call("cuDevicePrimaryCtxRetain", ctypes.byref(self._context), device)
        self._call("cuCtxSetCurrent", self._context)
        self._call("cuModuleLoadData", ctypes.byref(self._module), cubin)

    def blocks_per_sm(self, kernel: str, block: int, smem_dynamic: int) -> int:
        """Return cuOccupancyMaxActiveBlocksPerMultiprocessor of a mangled kernel name."""
        function, blocks = ctypes.c_void_p(), ctypes.c_int()
        self._call("cuModuleGetFunction", ctypes.byref(function), self._module, kernel.encode())
        self._call("cuFuncSetAttribute", function, 8, smem_dynamic)  # MAX_DYNAMIC_SHARED_SIZE_BYTES
        self._call("cuFuncSetAttribute", function, 9, 100)  # PREFERRED_SHARED_MEMORY_CARVEOUT, percent
        self._call(
            "cuOccupancyMaxActiveBlocksPerMultiprocessor",
            ctypes.byref(blocks), function, block, ctypes.c_size_t(smem_dynamic),
        )  # fmt: skip
        return blocks.value

    def _call(self, function: str, *arguments: object) -> None:
        code = getattr(self._cuda, function)(*arguments)
        assert code == 0, f"{function} returned {code}"
