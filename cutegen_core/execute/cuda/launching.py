"""Load a program and launch it on buffer sets.

1. The constructor of `LoadedProgram` prepares everything once: functions, packed arguments, launch configurations. It
   refuses a wrong plan with a message before anything runs; the driver itself crashes on too few arguments and accepts
   wrong ones.
2. `LoadedProgram.run` only enqueues, so it can be captured into a graph; it is a `measuring.TimedWork`.
3. `Preparation` is the same for the launches marked once, which `run` leaves out.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from cuda.bindings import driver as cuda

from cutegen_core.execute.cuda import driver
from cutegen_core.execute.cuda.driver import DriverError, call
from cutegen_core.execute.cuda.program import Descriptor, PassedArgument, Program, ProgramStep
from cutegen_core.records.launch import PORTABLE_CLUSTER, TENSOR_MAP_BYTES, Dim3

_INTEGERS = {1: "b", 2: "h", 4: "i", 8: "q"}
_FLOATS = {4: "f", 8: "d"}


class LaunchRefused(Exception):  # noqa: N818 - a verdict, not a fault
    """The plan does not fit the compiled kernel or the device; its text is for the person."""


class DeviceTensor(NamedTuple):
    """A tensor in device memory mapped in this process."""

    address: int
    nbytes: int
    output: bool


DeviceTensors = Mapping[str, DeviceTensor]
"""The inputs and outputs of one buffer set by name."""


@dataclass
class _Prepared:
    """One launch and the memory it points to, which must live as long as the launch may run."""

    function: Any
    config: Any
    pointers: ctypes.Array[ctypes.c_void_p]
    storage: list[Any]


class LoadedProgram:
    """A loaded module and its launches for each buffer set; `unload` frees it and its global variables.

    Args:
        scratch: addresses by name, shared by all sets, which run one after another.
        kept: for each set, addresses of the scratch that launches marked once make; where there is one set, they may be
            among `scratch`.

    Raises:
        LaunchRefused: arguments, shared memory, cluster or a tensor map do not fit.
        DriverError: the cubin cannot be loaded.
    """

    def __init__(
        self,
        cubin: bytes,
        program: Program,
        sets: Sequence[DeviceTensors],
        scratch: Mapping[str, int],
        kept: Sequence[Mapping[str, int]] = (),
    ) -> None:
        self.program = program
        self._sets, self._scratch = sets, scratch
        self._kept = kept or [scratch] * len(sets)
        self._module = call(cuda.cuModuleLoadData, cubin)
        try:
            self._functions = {step.function: self._load_function(step) for step in program.steps}
            self._launches = [list(self._prepare(places, own)) for places, own in zip(sets, self._kept, strict=True)]
        except BaseException:
            cuda.cuModuleUnload(self._module)
            raise

    def run(self, stream: int, index: int) -> None:
        """Enqueue the zeroing of scratch and every launch of a call on one buffer set.

        Raises:
            LaunchRefused: the driver refuses a launch.
        """
        for space in self.program.scratch:
            if space.zero:
                driver.fill(self._scratch[space.name], 0, space.nbytes, stream)
        self._enqueue(stream, index, once=False)

    def prepare(self, stream: int, index: int) -> None:
        """Enqueue the launches marked once on one buffer set.

        Raises:
            LaunchRefused: the driver refuses a launch.
        """
        self._enqueue(stream, index, once=True)

    def _enqueue(self, stream: int, index: int, *, once: bool) -> None:
        for step, launch in self._launches[index]:
            if step.once is not once:
                continue
            launch.config.hStream = cuda.CUstream(stream)
            try:
                call(cuda.cuLaunchKernelEx, launch.config, launch.function, ctypes.addressof(launch.pointers), 0)
            except DriverError as error:
                if error.name not in _REFUSALS:
                    raise  # an error of an earlier launch, or of a capture
                raise LaunchRefused(_describe_refusal(step, error)) from error

    def poison(self, stream: int, index: int, byte: int = 0xFF) -> None:
        """Enqueue filling the set's outputs, and scratch that is neither zeroed nor kept, with a byte."""
        for place in self._sets[index].values():
            if place.output:
                driver.fill(place.address, byte, place.nbytes, stream)
        for space in self.program.scratch:
            if not (space.zero or space.kept):
                driver.fill(self._scratch[space.name], byte, space.nbytes, stream)

    def poison_kept(self, stream: int, index: int, byte: int = 0xFF) -> None:
        """Enqueue filling the set's kept scratch with a byte."""
        for space in self.program.scratch:
            if space.kept:
                driver.fill(self._kept[index][space.name], byte, space.nbytes, stream)

    def unload(self) -> None:
        """Unload the module; the device must be idle."""
        call(cuda.cuModuleUnload, self._module)

    def _load_function(self, step: ProgramStep) -> Any:  # noqa: ANN401 - CUfunction
        function = call(cuda.cuModuleGetFunction, self._module, step.function.encode())
        most = max(s.smem_bytes for s in self.program.steps if s.function == step.function)
        attribute = cuda.CUfunction_attribute
        try:
            call(cuda.cuFuncSetAttribute, function, attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, most)
        except DriverError as error:
            static = call(cuda.cuFuncGetAttribute, attribute.CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, function)
            raise LaunchRefused(
                f"{step.kernel}: {most} bytes of dynamic and {static} of static shared memory are more than a block "
                "of this device can have; the plan can ask for smem_max"
            ) from error
        for cluster in {s.cluster for s in self.program.steps if s.function == step.function}:
            allow_cluster(function, cluster)
        return function

    def _prepare(self, places: DeviceTensors, kept: Mapping[str, int]) -> Iterator[tuple[ProgramStep, _Prepared]]:
        outputs = [place for place in places.values() if place.output]
        if outputs and not any(place.nbytes for place in outputs):
            return  # all outputs are empty: a host program would return before launching
        addresses = {name: place.address for name, place in places.items()} | {**self._scratch, **kept}
        maps = {each.name: each for each in self.program.maps}
        for step in self.program.steps:
            if not step.empty:
                yield step, self._pack(step, addresses, maps)

    def _pack(self, step: ProgramStep, addresses: Mapping[str, int], maps: Mapping[str, Descriptor]) -> _Prepared:
        function = self._functions[step.function]
        sizes = read_parameter_sizes(function)
        if len(sizes) != len(step.passed):
            given = len(step.passed)
            raise LaunchRefused(f"{step.kernel} takes {len(sizes)} parameters, the plan gives {given} arguments")
        storage: list[Any] = []
        for number, (passed, size) in enumerate(zip(step.passed, sizes, strict=True), 1):
            where = f"{step.kernel}, argument {number}"
            if passed.kind == "map":
                storage.append(_encode_tensor_map(maps[str(passed.value)], addresses, size, where))
                continue
            value = PassedArgument("tensor", addresses[str(passed.value)]) if passed.kind == "tensor" else passed
            storage.append(ctypes.create_string_buffer(pack(value, size, where), size))
        pointers = (ctypes.c_void_p * max(1, len(storage)))(*(_address(each) for each in storage))
        return _Prepared(function, _make_config(step), pointers, storage)


@dataclass(frozen=True)
class Preparation:
    """The launches marked once as work to time."""

    loaded: LoadedProgram

    def run(self, stream: int, index: int) -> None:
        self.loaded.prepare(stream, index)

    def poison(self, stream: int, index: int) -> None:
        self.loaded.poison_kept(stream, index)


def pack(passed: PassedArgument, size: int, where: str) -> bytes:
    """Pack a pointer or number as a kernel parameter of `size` bytes; a number beyond float's range becomes infinite.

    Raises:
        LaunchRefused: no parameter of this kind has that size, or the value does not fit.
    """
    formats = {"tensor": {8: "Q"}, "int": _INTEGERS, "float": _FLOATS}[passed.kind]
    if size not in formats:
        wanted = " or ".join(map(str, formats))
        raise LaunchRefused(f"{where}: the parameter has {size} bytes, a {_NOUNS[passed.kind]} has {wanted}")
    if passed.kind != "int":
        return struct.pack(formats[size], passed.value)
    value, bits = int(passed.value), 8 * size
    if not -(1 << bits - 1) <= value < 1 << bits:
        raise LaunchRefused(f"{where}: {value} does not fit into the {size} bytes of the parameter")
    return (value & ((1 << bits) - 1)).to_bytes(size, "little")


_NOUNS = {"tensor": "pointer", "int": "whole number", "float": "floating-point number"}


def read_parameter_sizes(function: Any) -> list[int]:  # noqa: ANN401 - CUfunction
    """Return the size in bytes of each parameter of a loaded kernel."""
    sizes: list[int] = []
    while True:
        code, _, size = cuda.cuFuncGetParamInfo(function, len(sizes))
        if code != cuda.CUresult.CUDA_SUCCESS:
            return sizes
        sizes.append(int(size))


def _encode_tensor_map(each: Descriptor, addresses: Mapping[str, int], size: int, where: str) -> Any:  # noqa: ANN401 - CUtensorMap
    if size != TENSOR_MAP_BYTES:
        raise LaunchRefused(
            f"{where}: the parameter has {size} bytes, a tensor map has {TENSOR_MAP_BYTES} and is passed by value"
        )
    data_type, interleave, swizzle, promotion, fill = each.codes
    wide, narrow = cuda.cuuint64_t, cuda.cuuint32_t
    try:
        return call(
            cuda.cuTensorMapEncodeTiled, cuda.CUtensorMapDataType(data_type), len(each.dims),
            addresses[each.tensor] + each.offset_bytes, [wide(d) for d in each.dims],
            [wide(s) for s in each.strides_bytes or (16,)], [narrow(b) for b in each.box],
            [narrow(s) for s in each.element_strides], cuda.CUtensorMapInterleave(interleave),
            cuda.CUtensorMapSwizzle(swizzle), cuda.CUtensorMapL2promotion(promotion),
            cuda.CUtensorMapFloatOOBfill(fill),
        )  # fmt: skip
    except DriverError as error:
        raise LaunchRefused(f"{where}: the driver refuses the tensor map {each.name}: {error}") from error


def _address(storage: Any) -> int:  # noqa: ANN401 - a ctypes buffer or a CUtensorMap
    return int(storage.getPtr()) if isinstance(storage, cuda.CUtensorMap) else ctypes.addressof(storage)


def _make_config(step: ProgramStep) -> Any:  # noqa: ANN401 - CUlaunchConfig
    config = cuda.CUlaunchConfig()
    config.gridDimX, config.gridDimY, config.gridDimZ = step.grid
    config.blockDimX, config.blockDimY, config.blockDimZ = step.block
    config.sharedMemBytes = step.smem_bytes
    config.attrs = make_attributes(step.cluster, cooperative=step.cooperative)
    config.numAttrs = len(config.attrs)
    return config


def make_attributes(cluster: Dim3, *, cooperative: bool) -> list[Any]:
    """Return a launch's CUlaunchAttributes: its cluster, where that is more than one block, and cooperation."""
    made = []
    if cluster != (1, 1, 1):
        extents = cuda.CUlaunchAttribute()
        extents.id = cuda.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION
        extents.value.clusterDim.x, extents.value.clusterDim.y, extents.value.clusterDim.z = cluster
        made.append(extents)
    if cooperative:
        together = cuda.CUlaunchAttribute()
        together.id = cuda.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_COOPERATIVE
        together.value.cooperative = 1
        made.append(together)
    return made


def allow_cluster(function: Any, cluster: Dim3) -> None:  # noqa: ANN401 - CUfunction
    """Let a kernel be launched by clusters that not every device takes."""
    if _volume(cluster) > PORTABLE_CLUSTER:
        attribute = cuda.CUfunction_attribute.CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED
        call(cuda.cuFuncSetAttribute, function, attribute, 1)


def _volume(extents: Sequence[int]) -> int:
    x, y, z = extents
    return x * y * z


_REFUSALS = {
    "CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE": (
        "a cooperative launch needs all its blocks on the device at once; launch fewer, such as device.sm_count times "
        "what fits on one SM"
    ),
    "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES": (
        "a block needs more registers or shared memory than an SM has; use smaller blocks or __launch_bounds__"
    ),
    "CUDA_ERROR_INVALID_CLUSTER_SIZE": (
        "the cluster does not fit; the grid must be a multiple of it, and more than 8 blocks are not portable"
    ),
    "CUDA_ERROR_INVALID_VALUE": (
        "an extent of grid, block or cluster is beyond the device's limits, or the block is larger than the kernel's "
        "__launch_bounds__"
    ),
    "CUDA_ERROR_NOT_SUPPORTED": "the device does not have what the launch asks for",
}


def _describe_refusal(step: ProgramStep, error: DriverError) -> str:
    cluster = f", cluster {step.cluster}" if step.cluster != (1, 1, 1) else ""
    shape = f"grid {step.grid}, block {step.block}{cluster}, {step.smem_bytes} bytes of shared memory"
    return f"line {step.line}: {step.kernel} cannot be launched ({shape}): {_REFUSALS[error.name]} ({error.name})"
