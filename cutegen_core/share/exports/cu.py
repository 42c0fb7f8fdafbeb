"""A standalone .cu: the kernel, a host launcher that evaluates the plan, and a main with random inputs."""

from __future__ import annotations

import json
import shlex
from dataclasses import replace
from pathlib import Path

from cutegen_core.records.problem import Signature, TensorRole, TensorSpec
from cutegen_core.share.exports.bundle import Bundle
from cutegen_core.share.exports.host_cpp import C_TYPES, LAUNCH, device_code, header, host_launcher, nvcc_flags
from cutegen_core.share.exports.rendering import one_line, render


def write_cu(bundle: Bundle, path: Path) -> None:
    """Write the file."""
    path.write_text(cu_file(bundle, path.name), encoding="utf-8")


def cu_file(bundle: Bundle, file: str = "") -> str:
    """Return the file's text; its first line is the command that builds it.

    Args:
        file: its name; none: the kernel's.
    """
    name, bundle = bundle.name, replace(bundle, open_numbers=bool(bundle.differing_numbers()))
    flags = " ".join(nvcc_flags(bundle.arch))
    return render(
        "standalone.cu.jinja",
        command=f'nvcc {flags} -I"$CUTLASS_PATH/include" -o {name} {shlex.quote(file or f"{name}.cu")}',
        origin=bundle.origin,
        idea=one_line(bundle.kernel.idea),
        device_code=device_code(bundle),
        header=header(bundle),
        launch=LAUNCH,
        host_launcher=host_launcher(bundle),
        name=name,
        shapes=[_shape(bundle, workload, signature) for workload, signature in bundle.shapes.items()],
    )


def _shape(bundle: Bundle, workload: str, signature: Signature) -> dict[str, object]:
    numbers = bundle.scalars_at(signature).values() if bundle.open_numbers else ()
    return {
        "name": json.dumps(one_line(workload)),
        "tensors": [_tensor(t) for t in signature.tensors],
        "arguments": ", ".join((*(t.name for t in signature.tensors), *map(repr, numbers))),
    }


def _tensor(spec: TensorSpec) -> dict[str, object]:
    return {
        "name": spec.name,
        "type": C_TYPES[spec.dtype],
        "shape": ", ".join(str(extent) for extent in spec.shape),
        "output": spec.role is TensorRole.OUTPUT,
        "floating": "float" in spec.dtype,
        "text": f"{spec.dtype} [{', '.join(str(e) for e in spec.shape)}]",
    }
