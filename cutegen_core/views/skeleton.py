"""Write a kernel file without a body for a problem's tensors: where a person begins who writes the first kernel."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Sequence

from cutegen_core.propose.playbook.values import ELEMENT
from cutegen_core.records.problem import Signature, TensorSpec

_ONE_LINE, _WIDTH = 60, 100
_FILE = """\
/* cutegen
idea = "{name}: one thread per element of {out}"

[let]
n = "{out}.numel"

[params]
BLOCK = {{ default = 256, values = [128, 256, 512] }}

[[launch]]
kernel = "{kernel}<BLOCK>"
grid   = ["ceil_div(n, BLOCK)"]
block  = ["BLOCK"]
args   = [{arguments}]
*/
#include <cute/tensor.hpp>
using namespace cute;

{tensors}
template <int BLOCK>
__global__ __launch_bounds__(BLOCK) void {kernel}({parameters}) {{
  long i = long(blockIdx.x) * BLOCK + threadIdx.x;
  if (i >= n) return;
  // Write {out}[i] here.
}}
"""


def write_skeleton(name: str, signature: Signature) -> str:
    """Return a kernel file that takes all tensors and numbers of the signature and writes nothing yet."""
    kernel = f"{re.sub(r'^[0-9_]+', '', re.sub(r'[^0-9A-Za-z]+', '_', name)).strip('_').lower() or 'fused'}_kernel"
    inputs = [f"{ELEMENT[t.dtype]} const* {t.name}" for t in signature.inputs]
    outputs = [f"{ELEMENT[t.dtype]}* {t.name}" for t in signature.outputs]
    numbers = [f"{_number(value)} {key}" for key, value in signature.scalars.items()]
    arguments = [*(t.name for t in signature.tensors), *signature.scalars, "n"]
    return _FILE.format(
        name=name.replace("\\", "/").replace('"', "'"),
        kernel=kernel,
        out=signature.outputs[0].name,
        arguments=_wrapped([f'"{one}"' for one in arguments]),
        tensors="\n".join(f"// {_shape(tensor)}" for tensor in signature.tensors),
        parameters=_wrapped([*inputs, *outputs, *numbers, "long n"]),
    )


def _wrapped(words: Sequence[str]) -> str:
    """Join with commas, on several lines where one would be too long."""
    line = ", ".join(words)
    if len(line) <= _ONE_LINE:
        return line
    filled = textwrap.wrap(line, _WIDTH, break_long_words=False, break_on_hyphens=False)
    return "\n" + "\n".join(f"    {part}" for part in filled)


def _shape(tensor: TensorSpec) -> str:
    return f"{tensor.name}: {tensor.role} {tensor.dtype} {list(tensor.shape)}, row-major"


def _number(value: float) -> str:
    if isinstance(value, bool):
        return "bool"
    return "float" if isinstance(value, float) else "long"
