"""A Solution of flashinfer-bench: destination-passing CUDA sources with a torch binding, as one JSON document.

Fields as its public schema names them: name, definition, author, description, spec (language, target_hardware,
entry_point, dependencies, destination_passing_style, binding) and sources (path, content).
"""

from __future__ import annotations

import json

from cutegen_core.share.exports.bundle import Bundle
from cutegen_core.share.exports.own_names import digest
from cutegen_core.share.exports.rendering import one_line
from cutegen_core.share.exports.torch_binding import binding, kernel_header, kernel_source

_HARDWARE = {
    "sm_80": "NVIDIA_A100", "sm_86": "NVIDIA_RTX3090", "sm_89": "NVIDIA_RTX4090", "sm_90a": "NVIDIA_H100",
    "sm_100a": "NVIDIA_B200", "sm_120a": "NVIDIA_RTX5090",
}  # fmt: skip


def solution(bundle: Bundle) -> str:
    """Return the Solution; its `definition` is the problem's name."""
    bundle.require_constant_numbers("a Solution")
    idea = one_line(bundle.kernel.idea)
    needs = (
        "Needs CUTLASS's include folder on CPATH and, for instructions of one architecture, TORCH_CUDA_ARCH_LIST. "
        f"run({', '.join(t.name for t in bundle.signature.tensors)}), outputs last."
    )
    sources = [
        {"path": "bindings.cpp", "content": binding(bundle)},
        {"path": f"{bundle.name}.cu", "content": kernel_source(bundle)},
        {"path": f"{bundle.name}.h", "content": kernel_header(bundle)},
    ]
    solution = {
        "name": f"{bundle.name}_cutegen_{digest(*(source['content'] for source in sources))}",
        "definition": bundle.name,
        "author": "cutegen-workbench",
        "description": f"{idea}. {needs} Exported by {bundle.origin}."
        if idea
        else f"{needs} Exported by {bundle.origin}.",
        "spec": {
            "language": "cuda",
            "target_hardware": [_HARDWARE.get(bundle.arch, bundle.arch)],
            "entry_point": "bindings.cpp::run",
            "dependencies": ["cutlass"],
            "destination_passing_style": True,
            "binding": "torch",
        },
        "sources": sources,
    }
    return json.dumps(solution, indent=2) + "\n"
