"""Launch a kernel from its cubin, on torch's current stream and in torch's memory.

A module is loaded once for each device. Each launch of the plan has its memory for arguments and its configuration,
filled in by every call: the driver copies both before it returns.
"""

from __future__ import annotations

import ctypes
import io
import struct
import threading
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import torch
from cuda.bindings import driver as cuda
from elftools.elf.elffile import ELFFile
from elftools.elf.sections import SymbolTableSection

from cutegen_core.execute.compiler.demangle import demangle
from cutegen_core.execute.cuda.driver import DriverError, call
from cutegen_core.execute.cuda.launching import allow_cluster, make_attributes, read_parameter_sizes
from cutegen_core.kernel.check_arguments import parse_parameters
from cutegen_core.operators.plan_closure import LaunchNumbers, PlanClosure, Planned
from cutegen_core.operators.source import Source
from cutegen_core.records.errors import MachineError, UsageError

_INTEGERS = {1: "b", 2: "h", 4: "i", 8: "q"}
_UNSIGNED = {1: "B", 2: "H", 4: "I", 8: "Q"}
_FLOATS = {4: "f", 8: "d"}
_SLOT_BYTES = 8
_FUNCTION = "STT_FUNC"


def find_functions(cubin: bytes) -> Mapping[str, str]:
    """Return the functions of a cubin: demangled name -> name."""
    table = ELFFile(io.BytesIO(cubin)).get_section_by_name(".symtab")
    if not isinstance(table, SymbolTableSection):
        return {}
    symbols = (s for s in table.iter_symbols() if s["st_info"]["type"] == _FUNCTION)
    return {demangle(symbol.name): symbol.name for symbol in symbols}


def function_names(source: Source) -> Mapping[str, str]:
    """Return for each kernel of the plan its name in the cubin.

    Raises:
        UsageError: the cubin was not kept, or does not hold the kernel.
    """
    if not source.cubin:
        raise UsageError(f"the cubin of {source.label} was not kept in the store: test the kernel again.")
    found = find_functions(source.cubin)
    missing = [k.kernel for k in source.kernels if k.signature not in found]
    if missing:
        raise UsageError(f"the stored cubin of {source.label} does not hold {', '.join(missing)}: test it again.")
    return {k.kernel: found[k.signature] for k in source.kernels}


class _LoadedLaunch:
    """One launch of the plan on one device: its function, and memory for its arguments, 8 bytes each."""

    def __init__(self, function: Any, signature: str, where: str, *, cooperative: bool) -> None:  # noqa: ANN401 - CUfunction
        sizes, types = read_parameter_sizes(function), parse_parameters(signature)
        if len(sizes) != len(types):
            raise MachineError(f"{where}: the driver sees {len(sizes)} parameters, the compiler wrote {len(types)}.")
        self.function = function
        codes = [_code(t.base, size, pointer=t.pointer) for t, size in zip(types, sizes, strict=True)]
        self.layout = struct.Struct("<" + "".join(f"{code}{_SLOT_BYTES - struct.calcsize(code)}x" for code in codes))
        self.memory = ctypes.create_string_buffer(max(1, self.layout.size))
        start = ctypes.addressof(self.memory)
        addresses = [start + _SLOT_BYTES * n for n in range(len(codes))]
        self.pointers = (ctypes.c_void_p * max(1, len(codes)))(*addresses)
        self.config = cuda.CUlaunchConfig()
        self._cooperative, self._cluster = cooperative, (0, 0, 0)

    def configure(self, planned: LaunchNumbers, stream: int) -> None:
        config = self.config
        config.gridDimX, config.gridDimY, config.gridDimZ = planned.grid
        config.blockDimX, config.blockDimY, config.blockDimZ = planned.block
        config.sharedMemBytes, config.hStream = planned.smem, cuda.CUstream(stream)
        if planned.cluster != self._cluster:
            allow_cluster(self.function, planned.cluster)
            config.attrs = make_attributes(planned.cluster, cooperative=self._cooperative)
            config.numAttrs, self._cluster = len(config.attrs), planned.cluster


def _code(base: str, size: int, *, pointer: bool) -> str:
    """Return the format of one parameter for `struct`."""
    if pointer:
        return "Q"
    if base in ("float", "double"):
        return _FLOATS[size]
    return (_UNSIGNED if base.startswith("unsigned") or base == "bool" else _INTEGERS)[size]


class Launcher:
    """A kernel loaded on one device.

    Raises:
        UsageError: the device has another architecture than the cubin, or it was not kept.
        MachineError: the driver refuses the cubin.
    """

    def __init__(self, source: Source, ordinal: int) -> None:
        _check_architecture(source, ordinal)
        names = function_names(source)
        signatures = {k.kernel: k.signature for k in source.kernels}
        self._ordinal, self._label, self._lock = ordinal, source.label, threading.Lock()
        enter_context(ordinal)
        self._module = call(cuda.cuModuleLoadData, source.cubin)
        self._launches = [
            _LoadedLaunch(
                self._load(names[launch.kernel], dynamic=launch.smem is not None), signatures[launch.kernel],
                f"{source.label}: {launch.kernel}", cooperative=launch.cooperative,
            )
            for launch in source.kernel.launches
        ]  # fmt: skip

    def run(
        self, closure: PlanClosure, planned: Planned, inputs: Sequence[torch.Tensor], outputs: Sequence[torch.Tensor]
    ) -> None:
        """Enqueue all launches on torch's current stream of the device, which must be torch's current one."""
        enter_context(self._ordinal)
        stream = torch._C._cuda_getCurrentRawStream(self._ordinal)  # without an object for it: a tenth of the time
        places = {name: tensor.data_ptr() for name, tensor in zip(closure.tensors, (*inputs, *outputs), strict=True)}
        # Scratch belongs to this stream: torch gives its memory away again in the stream's order.
        kept = []
        for spec, shape in zip(closure.kernel.scratch, planned.scratch, strict=True):
            make = torch.zeros if spec.zero else torch.empty
            kept.append(make(shape, dtype=getattr(torch, spec.dtype), device=f"cuda:{self._ordinal}"))
            places[spec.name] = kept[-1].data_ptr()
        with self._lock:
            for launch in planned.launches:
                self._launch(self._launches[launch.number], closure.pointers[launch.number], launch, places, stream)

    def _launch(
        self,
        ready: _LoadedLaunch,
        pointers: Sequence[str],
        planned: LaunchNumbers,
        places: Mapping[str, int],
        stream: int,
    ) -> None:
        numbers = iter(planned.numbers)
        values = [places[name] if name else next(numbers) for name in pointers]
        try:
            ready.layout.pack_into(ready.memory, 0, *values)
        except struct.error as error:
            raise UsageError(f"{self._label}: a number does not fit its parameter ({values}): {error}.") from error
        ready.configure(planned, stream)
        try:
            call(cuda.cuLaunchKernelEx, ready.config, ready.function, ctypes.addressof(ready.pointers), 0)
        except DriverError as error:
            raise MachineError(
                f"{self._label}: grid {planned.grid}, block {planned.block}, cluster {planned.cluster}, "
                f"{planned.smem} bytes of shared memory: {error}"
            ) from error

    def _load(self, name: str, *, dynamic: bool) -> Any:  # noqa: ANN401 - CUfunction
        function = call(cuda.cuModuleGetFunction, self._module, name.encode())
        if dynamic:
            attribute = cuda.CUfunction_attribute
            static = call(cuda.cuFuncGetAttribute, attribute.CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, function)
            most = device_numbers("", self._ordinal).smem_max - static
            call(cuda.cuFuncSetAttribute, function, attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, most)
        return function


class GpuNumbers(NamedTuple):
    """What a plan may ask of the device."""

    arch: str
    sm_count: int
    smem_max: int
    warp_size: int


def device_numbers(arch: str, ordinal: int) -> GpuNumbers:
    """Ask the driver what a plan may ask of a device."""
    device, name = call(cuda.cuDeviceGet, ordinal), cuda.CUdevice_attribute
    asked = (
        name.CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT,
        name.CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN,
        name.CU_DEVICE_ATTRIBUTE_WARP_SIZE,
    )
    return GpuNumbers(arch, *(int(call(cuda.cuDeviceGetAttribute, each, device)) for each in asked))


def enter_context(ordinal: int) -> None:
    """Make torch's context of the device current in this thread: those that autograd starts may have none yet."""
    code, current = cuda.cuCtxGetDevice()
    if code == cuda.CUresult.CUDA_SUCCESS and int(current) == ordinal:
        return
    call(cuda.cuInit, 0)
    call(cuda.cuCtxSetCurrent, call(cuda.cuDevicePrimaryCtxRetain, call(cuda.cuDeviceGet, ordinal)))


def _check_architecture(source: Source, ordinal: int) -> None:
    major, minor = torch.cuda.get_device_capability(ordinal)
    wanted = source.arch.removeprefix("sm_").rstrip("af")
    if wanted != f"{major}{minor}":
        name = torch.cuda.get_device_name(ordinal)
        raise UsageError(
            f"{source.label} was compiled for {source.arch}, and {name} is sm_{major}{minor}: open a session for that "
            "device, and test the kernel there."
        )
