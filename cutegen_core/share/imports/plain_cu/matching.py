"""Find the problem's tensors and numbers behind the arguments of launches: by name, then by type and order.

1. Tensors that the host function returns are the outputs, in order.
2. Names decide next: the host's, then the kernel's, without a prefix that says where memory is.
3. What is left is taken in order: pointers to const are inputs, the others outputs. A pointer that is written and is an
   input by its name is in place: the output that replaces it begins as a copy of it.
4. Memory that the host makes and that is neither becomes scratch.
5. A number of the host function is one of the contract by its name, or a size that fits on every workload.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from cutegen_core.records.problem import ITEMSIZE, Signature, TensorSpec
from cutegen_core.share.imports.plain_cu.host_walk import HostWalk
from cutegen_core.share.imports.plain_cu.launches import RawLaunch
from cutegen_core.share.imports.plain_cu.values import DTYPES, HostBuffer, TypeOf

NUMEL = frozenset("n num numel size count total length len elements num_elements n_elements total_elements".split())  # noqa: SIM905
ROWS = frozenset("rows m nrows n_rows num_rows num_tokens tokens n_tokens batch batch_size b bs".split())  # noqa: SIM905
COLUMNS = frozenset("cols c d ncols n_cols num_cols columns dim hidden hidden_size hidden_dim width n_embd".split())  # noqa: SIM905
_OF_OUTPUT = frozenset(("d",))
"""Gated activations call the width of their output so, half that of their input."""
_SAME = {"input": "x", "in": "x", "inp": "x", "src": "x", "a": "x", "output": "out", "y": "out", "result": "out",
         "res": "out", "dst": "out", "o": "out", "ret": "out", "epsilon": "eps", "variance_epsilon": "eps",
         "w": "weight", "gamma": "weight", "beta": "bias"}  # fmt: skip
_AFFIX = re.compile(r"^(?:d|dev|device|g|p|ptr|gpu)_|_(?:d|dev|device|ptr|data|gpu|tensor|buf|pointer)$")


@dataclass
class BufferUse:
    """A buffer of the host code as kernels take it."""

    buffer: HostBuffer
    parameters: list[str] = field(default_factory=list)
    written: bool = False
    dtype: str = ""


@dataclass
class Matching:
    """The problem's names behind the host's.

    Attributes:
        tensors: host name -> tensor of the problem, or scratch.
        copies: input -> output that begins as its copy.
        cleared: outputs that begin as zeros.
        scratch: buffers that are neither, by host name.
        numbers: host name -> plan expression.
        missing: host names of tensors and numbers that nothing was found for.
        notes: one line for each match, with its reason.
    """

    tensors: dict[str, str] = field(default_factory=dict)
    copies: dict[str, str] = field(default_factory=dict)
    cleared: list[str] = field(default_factory=list)
    scratch: dict[str, BufferUse] = field(default_factory=dict)
    numbers: dict[str, str] = field(default_factory=dict)
    missing: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def plain(name: str) -> str:
    """Return a name without prefixes, endings and case."""
    found = _AFFIX.sub("", _AFFIX.sub("", name.lower()))
    return _SAME.get(found, found)


def match(found: HostWalk, signatures: Sequence[Signature], alias: Mapping[str, str]) -> Matching:
    """Match all buffers and numbers of the launches.

    Args:
        signatures: of every workload; the first gives the names.
        alias: output -> input that it replaces, as the problem says.
    """
    made = Matching()
    uses = _uses(found)
    signature = signatures[0]
    free = {spec.name: spec for spec in signature.tensors}

    def take(host: str, name: str, why: str) -> None:
        made.tensors[host] = name
        made.notes.append(f"{host} is {name}: {why}")
        free.pop(name, None)

    outputs = {spec.name for spec in signature.outputs}
    if len(found.returned) == len(signature.outputs):
        for host, spec in zip(found.returned, signature.outputs, strict=True):
            if host in uses and uses[host].buffer.made:
                take(host, spec.name, "it is returned")
    for host, use in uses.items():
        if host not in made.tensors and (name := _by_name(host, use, free, outputs)):
            take(host, name, "by its name")
    inputs = {host: name for host, name in made.tensors.items() if uses[host].written and name not in outputs}
    for host, name in inputs.items():
        _in_place(made, host, name, signature, free, alias)
    _in_order(found, made, uses, free, outputs, take)
    for host, use in uses.items():
        if host not in made.tensors:
            _leave(made, host, use)
    made.cleared = [
        made.tensors[host]
        for host, use in uses.items()
        if (use.buffer.zero or host in found.zeroed) and made.tensors.get(host) in outputs
    ]
    for name in _numbers(found):
        _match_number(made, name, signatures)
    return made


def _uses(found: HostWalk) -> dict[str, BufferUse]:
    uses: dict[str, BufferUse] = {}
    for launch in found.launches:
        for parameter, value in zip(launch.kernel.parameters, launch.args, strict=False):
            if isinstance(value, HostBuffer):
                buffer = found.buffers.get(value.name, value)
                use = uses.setdefault(value.name, BufferUse(buffer))
                use.parameters.append(parameter.name)
                use.written |= not parameter.is_const
                use.dtype = use.dtype or parameter_dtype(launch, parameter.type)
    return uses


def parameter_dtype(launch: RawLaunch, type_text: str) -> str:
    """Return the dtype that a pointer parameter points to, "" where it follows the tensor's."""
    bare = " ".join(w for w in type_text.replace("*", " ").replace("&", " ").split() if w not in ("const", "volatile"))
    for template, given in zip(launch.kernel.template, launch.template, strict=False):
        if template.name == bare:
            return DTYPES.get(given, "") if isinstance(given, str) else ""
    return DTYPES.get(bare, "")


def _by_name(host: str, use: BufferUse, free: Mapping[str, TensorSpec], outputs: set[str]) -> str:
    for name in (host, *use.parameters):
        if name in free and _fits(use, free[name], outputs):
            return name
    known = {plain(name): name for name in free}
    for name in (host, *use.parameters):
        found = known.get(plain(name))
        if found and _fits(use, free[found], outputs):
            return found
    return ""


def _fits(use: BufferUse, spec: TensorSpec, outputs: set[str]) -> bool:
    return (use.written or spec.name not in outputs) and use.dtype in ("", spec.dtype)


def _in_place(
    made: Matching, host: str, name: str, signature: Signature, free: dict[str, TensorSpec], alias: Mapping[str, str]
) -> None:
    """Give a written input the output that replaces it; without one the match is taken back."""
    stated = [output for output, replaced in alias.items() if replaced == name]
    spec = signature.tensor(name)
    alike = [o.name for o in signature.outputs if o.name in free and (o.dtype, o.shape) == (spec.dtype, spec.shape)]
    output = next((o for o in (*stated, *alike) if o in free), "")
    if output:
        made.tensors[host] = output
        made.copies[name] = output
        made.notes.append(f"{host} is written in place: {output} begins as a copy of {name}")
        free.pop(output, None)


def _in_order(
    found: HostWalk, made: Matching, uses: Mapping[str, BufferUse], free: dict[str, TensorSpec], outputs: set[str],
    take: object,
) -> None:  # fmt: skip
    assert callable(take)
    left = [host for host in uses if host not in made.tensors]
    copied = [host for host in left if host in found.copied_out]
    readers = [host for host in left if not uses[host].written or host in found.copied_in]
    writers = [*copied, *(h for h in left if uses[h].written and h not in copied and h not in readers)]
    given = [h for h in writers if not uses[h].buffer.made or h in copied]
    for host in (*given, *(h for h in writers if h not in given)):
        spec = next((s for s in free.values() if s.name in outputs and uses[host].dtype in ("", s.dtype)), None)
        if spec and not _is_intermediate(found, host):
            take(host, spec.name, "the next output of its type")
    for host in readers:
        spec = next((s for s in free.values() if s.name not in outputs and uses[host].dtype in ("", s.dtype)), None)
        if spec and host not in made.tensors and not _is_intermediate(found, host):
            take(host, spec.name, "the next input of its type")


def _is_intermediate(found: HostWalk, host: str) -> bool:
    """Tell whether one kernel writes it and a later one reads it, and the host neither copies nor is given it."""
    if host in found.copied_in or host in found.copied_out or host in found.returned:
        return False
    buffer = found.buffers.get(host)
    if buffer is None or not buffer.made:
        return False
    written = read = False
    for launch in found.launches:
        for parameter, value in zip(launch.kernel.parameters, launch.args, strict=False):
            if isinstance(value, HostBuffer) and value.name == host:
                read |= parameter.is_const and written
                written |= not parameter.is_const
    return read


def _leave(made: Matching, host: str, use: BufferUse) -> None:
    if use.buffer.made and use.buffer.shape is not None and use.dtype:
        made.scratch[host] = use
        made.tensors[host] = host
        made.notes.append(f"{host} is scratch of {use.dtype}")
    else:
        made.missing.append(host)


# -- numbers -----------------------------------------------------------------------------------------------------------


def _numbers(found: HostWalk) -> Iterator[str]:
    """Yield the host's numbers that launches use, each once."""
    texts = " ".join(str(launch) for launch in found.launches) + str(sorted(found.buffers.items()))
    yield from dict.fromkeys(re.findall(r"‹#(\w+)›", texts))


def _match_number(made: Matching, name: str, signatures: Sequence[Signature]) -> None:
    scalars = signatures[0].scalars
    named = next((s for s in scalars if s == name), None) or next((s for s in scalars if plain(s) == plain(name)), None)
    if named:
        made.numbers[name] = named
        made.notes.append(f"{name} is {named}: by its name")
        return
    text = size_by_name(name, signatures)
    if text:
        made.numbers[name] = text
        made.notes.append(f"{name} is {text}: by its name, please check")
    else:
        made.missing.append(name)


def size_by_name(name: str, signatures: Sequence[Signature]) -> str:
    """Return the expression of a size that is usually called so, or ""."""
    first, out = signatures[0].inputs[0] if signatures[0].inputs else None, signatures[0].outputs[0]
    main = first or out
    word = name.lower().strip("_")
    if word in NUMEL:
        return f"{out.name}.numel"
    if word in COLUMNS:
        return f"{(out if word in _OF_OUTPUT else main).name}.shape[-1]"
    if word in ROWS and main.shape:
        return f"{main.name}.shape[0]" if len(main.shape) == 2 else f"{main.name}.numel // {main.name}.shape[-1]"
    return ""


def sizes_of_problem(sizes: Sequence[Mapping[str, object]], signatures: Sequence[Signature]) -> Mapping[str, str]:
    """Return the sizes that a workload states by name, as expressions that hold on every workload."""
    found: dict[str, str] = {}
    for name in sizes[0] if sizes else ():
        values = [workload.get(name) for workload in sizes]
        for spec in signatures[0].tensors:
            for axis in range(len(spec.shape)):
                extents = [_extent(signature, spec.name, axis) for signature in signatures]
                if name not in found and extents == values:
                    found[name] = f"{spec.name}.shape[{axis}]"
    return found


def _extent(signature: Signature, name: str, axis: int) -> int | None:
    spec = signature.tensor(name)
    return spec.shape[axis] if axis < len(spec.shape) else None


def itemsize(dtype: str) -> int:
    return ITEMSIZE[dtype]


__all__ = ["BufferUse", "Matching", "TypeOf", "match", "plain"]
