"""Call the CUDA driver through `cuda.bindings.driver`, with plain ints and one exception for every failure.

Works with cuda-bindings 13.0 to 13.4. Importing this module calls nothing; a process calls `start` first. All
addresses, streams, events and functions are ints, so that they can be stored, compared and sent.
Reference: https://docs.nvidia.com/cuda/cuda-driver-api/.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from mmap import mmap
from typing import Any

from cuda.bindings import driver as cuda

from cutegen_core.records.errors import MachineError

_SPIN_S = 0.002
_NAP_S = 0.0005


class DriverError(MachineError):
    """A driver call failed. The caller decides whether the candidate or the machine is the cause.

    Attributes:
        name: the CUresult's name, "CUDA_ERROR_ILLEGAL_ADDRESS".
        call: the function that returned it; for an asynchronous error, the function that reported it.
        text: the driver's own description.
    """

    def __init__(self, name: str, call: str, text: str) -> None:
        super().__init__(f"{call} failed with {name}: {text}.")
        self.name, self.call, self.text = name, call, text


class Unfinished(Exception):  # noqa: N818 - an outcome, not a fault
    """The device was still busy at the deadline."""


@dataclass(frozen=True)
class CudaDevice:
    """The device that a process uses.

    Attributes:
        handle: CUdevice.
        uuid: "GPU-..." as nvidia-smi writes it.
        driver: newest CUDA version the driver supports, "13.0".
    """

    handle: int
    name: str
    uuid: str
    driver: str
    sm_count: int
    l2_bytes: int
    memory_bytes: int


def call(function: Callable[..., tuple[Any, ...]], *arguments: Any) -> Any:  # noqa: ANN401 - the bindings have no types
    """Call a driver function; return its result, a tuple of several results, or None.

    Raises:
        DriverError: it did not return CUDA_SUCCESS.
    """
    code, *results = function(*arguments)
    if code != cuda.CUresult.CUDA_SUCCESS:
        raise _make_error(code, function.__name__)
    return results[0] if len(results) == 1 else tuple(results) or None


def start(ordinal: int = 0) -> CudaDevice:
    """Initialise the driver and make the device's primary context current in this thread.

    Raises:
        MachineError: there is no driver, or no such device.
    """
    try:
        call(cuda.cuInit, 0)
    except RuntimeError as error:  # the bindings raise this when libcuda is missing
        raise MachineError(f"the NVIDIA driver is not installed here: {error}") from error
    device = call(cuda.cuDeviceGet, ordinal)
    call(cuda.cuCtxSetCurrent, call(cuda.cuDevicePrimaryCtxRetain, device))
    version = call(cuda.cuDriverGetVersion)
    attribute = cuda.CUdevice_attribute
    return CudaDevice(
        handle=int(device),
        name=call(cuda.cuDeviceGetName, 256, device).split(b"\0", 1)[0].decode(),
        uuid=f"GPU-{uuid.UUID(bytes=bytes(call(cuda.cuDeviceGetUuid, device).bytes))}",
        driver=f"{version // 1000}.{version % 1000 // 10}",
        sm_count=call(cuda.cuDeviceGetAttribute, attribute.CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, device),
        l2_bytes=call(cuda.cuDeviceGetAttribute, attribute.CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE, device),
        memory_bytes=call(cuda.cuDeviceTotalMem, device),
    )


def create_stream() -> int:
    """Create a stream that does not wait for the default stream."""
    return int(call(cuda.cuStreamCreate, cuda.CUstream_flags.CU_STREAM_NON_BLOCKING))


def wait_until_idle(stream: int, deadline: float) -> None:
    """Poll a stream until it has no work left; polling lets the deadline end the wait for an endless kernel.

    Args:
        deadline: in the time of `time.monotonic`.

    Raises:
        Unfinished: the device is still busy at the deadline.
        DriverError: work on the stream failed.
    """
    started = time.monotonic()
    while not is_idle(stream):
        now = time.monotonic()
        if now > deadline:
            raise Unfinished
        if now - started > _SPIN_S:
            time.sleep(_NAP_S)


def is_idle(stream: int) -> bool:
    """Tell whether a stream has no work left; DriverError if work on it failed."""
    (code,) = cuda.cuStreamQuery(stream)
    if code == cuda.CUresult.CUDA_ERROR_NOT_READY:
        return False
    if code != cuda.CUresult.CUDA_SUCCESS:
        raise _make_error(code, "cuStreamQuery")
    return True


def fill(address: int, byte: int, nbytes: int, stream: int) -> None:
    """Enqueue setting device memory to one byte value."""
    if nbytes:
        call(cuda.cuMemsetD8Async, address, byte, nbytes, stream)


def copy_in(address: int, data: bytes | bytearray | mmap) -> None:
    """Copy from host to device and wait."""
    if len(data):
        call(cuda.cuMemcpyHtoD, address, data, len(data))


def copy_out(address: int, nbytes: int) -> bytearray:
    """Copy from device to host and wait."""
    data = bytearray(nbytes)
    if nbytes:
        call(cuda.cuMemcpyDtoH, data, address, nbytes)
    return data


def free_memory_bytes() -> int:
    """Return the free memory of the device."""
    free: int = call(cuda.cuMemGetInfo)[0]
    return free


def _make_error(code: Any, name: str) -> DriverError:  # noqa: ANN401 - CUresult
    text = cuda.cuGetErrorString(code)[1] or b"no description"
    return DriverError(code.name if hasattr(code, "name") else str(code), name, text.decode())
