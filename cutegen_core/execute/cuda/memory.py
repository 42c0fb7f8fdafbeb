"""Allocate device memory that two processes can share: one mapping per tensor, unmapped addresses after it.

    reserved:  |<------------------ mapped, a multiple of 2 MiB ------------------>|<-- never mapped -->|
               | guard pattern ................. | tensor ............... | tail |

1. The owner allocates memory (`Buffer.allocate`) and exports a file descriptor (`share`); it may read and write.
2. The runner imports the descriptor (`Buffer.import_fd`), inputs read-only.
3. Mappings lie at random addresses, different in each process.
4. A tensor ends at the end of its mapping, so that access to the first element after it faults. Its start is aligned,
   which may leave a tail of fewer than `alignment` bytes. Tail and front hold a pattern that the owner checks
   (`find_damage`).

Source: CUDA Driver API, chapter "Virtual Memory Management".
"""

from __future__ import annotations

import os
import secrets
from dataclasses import dataclass

from cuda.bindings import driver as cuda

from cutegen_core.execute.cuda import driver
from cutegen_core.execute.cuda.driver import call
from cutegen_core.execute.cuda.layout import ALIGNMENT, Layout, Shared

GUARD = 0xA5
"""The byte of the pattern around tensors."""

_HOLE_BYTES = 64 << 20
_WINDOW_AT, _WINDOW_BYTES, _SLOT_BYTES = 1 << 44, 512 << 30, 32 << 20  # the driver rounds hints to 32 MiB
_FD = cuda.CUmemAllocationHandleType.CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR


@dataclass(frozen=True)
class Damage:
    """Guard bytes that were overwritten.

    Attributes:
        where: "in front of" or "behind" the tensor.
        distance: bytes from the tensor to the nearest overwritten byte, 1 for the adjacent byte.
    """

    where: str
    distance: int

    def describe(self, tensor: str) -> str:
        """Describe the damage next to `tensor`, for the person."""
        return f"the kernel writes {self.where} {tensor}, {self.distance} bytes away from it"


class Buffer:
    """The memory of one tensor, mapped in this process; `address` and `nbytes` are the tensor's, `free` unmaps it."""

    def __init__(self, layout: Layout, handle: int, access: int) -> None:
        self.layout = layout
        self._handle = handle
        self._reserved = layout.mapped + _HOLE_BYTES
        self._base = int(call(cuda.cuMemAddressReserve, self._reserved, 0, _random_address(), 0))
        self._mapped = False
        try:
            call(cuda.cuMemMap, self._base, layout.mapped, 0, handle, 0)
            self._mapped = True
            call(cuda.cuMemSetAccess, self._base, layout.mapped, [_access(access)], 1)
        except driver.DriverError:
            self.free()
            raise

    @classmethod
    def allocate(cls, nbytes: int, alignment: int = ALIGNMENT) -> Buffer:
        """Allocate memory on the current device; the guards are written, the tensor is undefined.

        Raises:
            DriverError: such as CUDA_ERROR_OUT_OF_MEMORY.
        """
        layout = Layout.of(nbytes, granularity(), alignment)
        buffer = cls(layout, int(call(cuda.cuMemCreate, layout.mapped, _properties(), 0)), _READ_WRITE)
        buffer.write_guards()
        return buffer

    @classmethod
    def import_fd(cls, fd: int, layout: Layout, *, writable: bool) -> Buffer:
        """Map another process's memory and close the descriptor. A write to read-only memory is an illegal address."""
        try:
            handle = int(call(cuda.cuMemImportFromShareableHandle, fd, _FD))
        finally:
            os.close(fd)
        return cls(layout, handle, _READ_WRITE if writable else _READ)

    @property
    def address(self) -> int:
        return self._base + self.layout.offset

    @property
    def nbytes(self) -> int:
        return self.layout.nbytes

    def share(self, name: str, *, output: bool) -> Shared:
        """Export the memory for a runner under a tensor's name; the caller closes the descriptor."""
        return Shared(name, int(call(cuda.cuMemExportToShareableHandle, self._handle, _FD, 0)), self.layout, output)

    def fill(self, byte: int) -> None:
        """Fill the tensor, but not the guards, and wait."""
        if self.nbytes:
            call(cuda.cuMemsetD8, self.address, byte, self.nbytes)
            call(cuda.cuCtxSynchronize)

    def write_guards(self) -> None:
        """Write the pattern around the tensor and wait."""
        call(cuda.cuMemsetD8, self._base, GUARD, self.layout.offset)
        if self.layout.tail:
            call(cuda.cuMemsetD8, self.address + self.nbytes, GUARD, self.layout.tail)
        call(cuda.cuCtxSynchronize)

    def protect(self, *, writable: bool) -> None:
        """Map the memory anew, writable or read-only; call it while no kernel runs."""
        call(cuda.cuMemSetAccess, self._base, self.layout.mapped, [_access(_READ_WRITE if writable else _READ)], 1)

    def find_damage(self) -> Damage | None:
        """Return the damage to the guards, or None; call it while no kernel runs."""
        behind = driver.copy_out(self.address + self.nbytes, self.layout.tail)
        front = driver.copy_out(self._base, self.layout.offset)
        return find_damage(front, behind)

    def free(self) -> None:
        """Unmap and free the memory. Safe to call twice; after the context is lost it frees what it still can."""
        if self._mapped:
            cuda.cuMemUnmap(self._base, self.layout.mapped)
            self._mapped = False
        if self._base:
            cuda.cuMemAddressFree(self._base, self._reserved)
            cuda.cuMemRelease(self._handle)
            self._base = 0


def find_damage(front: bytes | bytearray, behind: bytes | bytearray) -> Damage | None:
    """Return the damage to the bytes in front of a tensor and behind it, or None."""
    if not _is_intact(behind):
        return Damage("behind", len(behind) - len(behind.lstrip(_PATTERN)) + 1)
    if not _is_intact(front):
        return Damage("in front of", len(front) - len(front.rstrip(_PATTERN)) + 1)
    return None


def _is_intact(guard: bytes | bytearray) -> bool:
    """Compare as blocks of memory: Python's strip takes 3 ms a megabyte, of up to two a tensor."""
    return guard == _PATTERN * len(guard)


def _random_address() -> int:
    """Return a random address hint, so that a kernel cannot find other tensors from the address of one.

    All hints lie in a window that one page directory covers, so that address translation does not get slower.
    """
    return _WINDOW_AT + secrets.randbelow(_WINDOW_BYTES // _SLOT_BYTES) * _SLOT_BYTES


def granularity() -> int:
    """Return the granularity of mappings: their size must be a multiple of this many bytes."""
    minimum = cuda.CUmemAllocationGranularity_flags.CU_MEM_ALLOC_GRANULARITY_MINIMUM
    size: int = call(cuda.cuMemGetAllocationGranularity, _properties(), minimum)
    return size


_PATTERN = bytes([GUARD])
_READ = cuda.CUmemAccess_flags.CU_MEM_ACCESS_FLAGS_PROT_READ
_READ_WRITE = cuda.CUmemAccess_flags.CU_MEM_ACCESS_FLAGS_PROT_READWRITE


def _location() -> cuda.CUmemLocation:
    location = cuda.CUmemLocation()
    location.type = cuda.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
    location.id = int(call(cuda.cuCtxGetDevice))
    return location


def _properties() -> cuda.CUmemAllocationProp:
    properties = cuda.CUmemAllocationProp()
    properties.type = cuda.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED
    properties.requestedHandleTypes = _FD
    properties.location = _location()
    return properties


def _access(flags: int) -> cuda.CUmemAccessDesc:
    access = cuda.CUmemAccessDesc()
    access.location = _location()
    access.flags = flags
    return access
