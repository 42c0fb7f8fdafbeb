"""Turn a driver error into a verdict on the candidate, with advice for the person.

Errors: https://docs.nvidia.com/cuda/cuda-driver-api/, CUresult. After any of them the context is lost, and with it the
runner.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from cutegen_core.records.trial import Status


class Fault(NamedTuple):
    """A verdict, the kind of its finding ("" for none) and the message for the person."""

    status: Status
    kind: str
    message: str


_LINE = "a thorough trial runs the sanitizer, which names the line"
_FAULTS = {
    "CUDA_ERROR_ILLEGAL_ADDRESS": Fault(
        Status.MEMORY_ERROR, "out-of-bounds",
        "the kernel touched memory it was not given: past the end of a tensor, where nothing is mapped, or it wrote to "
        f"an input; {_LINE}",
    ),
    "CUDA_ERROR_MISALIGNED_ADDRESS": Fault(
        Status.MEMORY_ERROR, "misaligned",
        "a vector access is not aligned: a float4 must lie at a multiple of 16 bytes, which rows of an odd length do "
        f"not; {_LINE}",
    ),
    "CUDA_ERROR_INVALID_ADDRESS_SPACE": Fault(
        Status.MEMORY_ERROR, "out-of-bounds",
        f"an instruction for one kind of memory was given the address of another (shared, local, global); {_LINE}",
    ),
    "CUDA_ERROR_HARDWARE_STACK_ERROR": Fault(
        Status.RUNTIME_ERROR, "stack", "the device's call stack overflowed or is damaged: recursion is too deep"
    ),
    "CUDA_ERROR_ILLEGAL_INSTRUCTION": Fault(
        Status.RUNTIME_ERROR, "trap",
        "the kernel met an instruction that is illegal where it stands: a barrier, TMA or wgmma used against its rules",
    ),
    "CUDA_ERROR_INVALID_PC": Fault(
        Status.RUNTIME_ERROR, "crash",
        "the kernel jumped to where no code is: a bad function pointer or a damaged stack",
    ),
    "CUDA_ERROR_ASSERT": Fault(Status.RUNTIME_ERROR, "assert", "assertion failed"),
    "CUDA_ERROR_LAUNCH_FAILED": Fault(
        Status.RUNTIME_ERROR, "trap",
        "the kernel stopped itself (trap), or shared or local memory was accessed out of bounds; a thorough trial runs "
        "the sanitizer, which tells them apart",
    ),
    "CUDA_ERROR_LAUNCH_TIMEOUT": Fault(
        Status.TIMEOUT, "timeout", "the driver's watchdog stopped the kernel: a screen is attached to this GPU"
    ),
    "CUDA_ERROR_TENSOR_MEMORY_LEAK": Fault(
        Status.RUNTIME_ERROR, "leak", "a block ended without freeing the tensor memory it had allocated"
    ),
}  # fmt: skip
_LAUNCH = {
    "CUDA_ERROR_INVALID_IMAGE": "the driver cannot load the compiled kernel",
    "CUDA_ERROR_NO_BINARY_FOR_GPU": "the kernel was compiled for another GPU than this one",
    "CUDA_ERROR_NOT_FOUND": "the compiled module does not contain a kernel of the plan",
    "CUDA_ERROR_OUT_OF_MEMORY": (
        "the device has no memory left for the kernel's scratch, its global variables or its stack"
    ),
}
_ASSERTION = re.compile(r"(?:^|\n)(?:\S+?:)?(\d+): .*?Assertion `(.*?)` failed")


def judge_error(name: str, call: str, text: str, log: str = "") -> Fault | None:
    """Return the verdict on a candidate whose run ended in a driver error; None if the machine must be the cause.

    Args:
        name, call, text: the CUresult's name, the function that returned it, the driver's description.
        log: output of the device, which contains a failed assertion.
    """
    if name in _LAUNCH:
        return Fault(Status.LAUNCH_ERROR, "", f"{_LAUNCH[name]} ({call}: {text})")
    found = _FAULTS.get(name)
    if found is None:
        return None
    assertion = _ASSERTION.search(log)
    if found.kind == "assert" and assertion:
        return found._replace(message=f"line {assertion[1]}: assertion failed: {assertion[2]}")
    return found._replace(message=f"{found.message} ({name})")


def make_timeout(limit_s: float) -> Fault:
    """Return the verdict on a kernel that was still running at its time limit."""
    return Fault(
        Status.TIMEOUT, "timeout",
        f"the kernel was still running after {limit_s:g} s and was stopped: an endless loop, a barrier that not all "
        "threads reach, or blocks that wait for blocks which are not on the device",
    )  # fmt: skip
