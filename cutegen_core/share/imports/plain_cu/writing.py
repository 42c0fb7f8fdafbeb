"""Write the imported kernel file: the launch plan as TOML, then the device code.

What could not be read is a hole: a name, `HOLE_1`, that no plan resolves, with the original text in a comment beside
it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from cutegen_core.records.problem import Signature
from cutegen_core.share.imports.plain_cu.host_walk import HostWalk
from cutegen_core.share.imports.plain_cu.launches import RawLaunch
from cutegen_core.share.imports.plain_cu.matching import BufferUse, Matching, itemsize
from cutegen_core.share.imports.plain_cu.source import CudaFunction
from cutegen_core.share.imports.plain_cu.values import C_NAMES, ONE, HostBuffer, Number, Triple, TypeOf, Unread, Value

HOST_MARK = "// cutegen-host "
"""Begins the line that says which host function a kernel file was imported from, as JSON."""

_TORCH_TYPES = {"at::Half": "__half", "c10::Half": "__half", "at::BFloat16": "__nv_bfloat16",
                "c10::BFloat16": "__nv_bfloat16", "at::Float8_e4m3fn": "__nv_fp8_e4m3",
                "c10::Float8_e4m3fn": "__nv_fp8_e4m3", "at::Float8_e5m2": "__nv_fp8_e5m2",
                "c10::Float8_e5m2": "__nv_fp8_e5m2"}  # fmt: skip
_HEADERS = {"cuda_fp16.h": r"\b(?:__half2?|half2?)\b", "cuda_bf16.h": r"\b__nv_bfloat162?\b",
            "cuda_fp8.h": r"\b__nv_fp8_e\dm\d\b"}  # fmt: skip


class Hole(NamedTuple):
    """A part of the plan that must be completed by hand.

    Attributes:
        name: stands for it in the plan.
        place: what it is: "grid", "argument n", ...
        text: the original.
        line: of the original file, 0 if unknown.
    """

    name: str
    place: str
    text: str
    line: int


class PlanWriter:
    """Writes the plan of the launches of one host function."""

    def __init__(self, found: HostWalk, matching: Matching, signature: Signature) -> None:
        self.found, self.matching, self.signature = found, matching, signature
        self.holes: list[Hole] = []
        self.dtypes = {spec.name: spec.dtype for spec in signature.tensors}
        self.dtypes |= {host: use.dtype for host, use in matching.scratch.items()}

    def toml(self, idea: str) -> str:
        parts = [f"idea = {json.dumps(idea, ensure_ascii=False)}\n"]
        parts += [self._scratch(host, use) for host, use in self.matching.scratch.items()]
        parts += [_helper(f"cutegen_copy_{self.dtypes[o]}", o, [i, o]) for i, o in self.matching.copies.items()]
        parts += [_helper(f"cutegen_clear_{self.dtypes[o]}", o, [o]) for o in self.matching.cleared]
        parts += [self._launch(launch) for launch in self.found.launches]
        return "\n".join(parts)

    def helpers(self) -> str:
        """Return the kernels that copy and clear outputs before the imported ones run."""
        copied = sorted({self.dtypes[output] for output in self.matching.copies.values()})
        cleared = sorted({self.dtypes[output] for output in self.matching.cleared})
        return "".join((*map(_copy_kernel, copied), *map(_clear_kernel, cleared)))

    def _scratch(self, host: str, use: BufferUse) -> str:
        assert use.buffer.shape is not None
        extents = [self._resolved(extent.text) for extent in use.buffer.shape]
        if use.buffer.in_bytes:
            extents = [f"({extents[0]}) // {itemsize(use.dtype)}"]
        zero = '\ninit  = "zero"' if use.buffer.zero or host in self.found.zeroed else ""
        listed = ", ".join(json.dumps(extent) for extent in extents)
        return f'[[scratch]]\nname  = "{host}"\ndtype = "{use.dtype}"\nshape = [{listed}]{zero}\n'

    def _launch(self, launch: RawLaunch) -> str:
        lines = [f"[[launch]]  # line {launch.line}"]
        lines += self._value("kernel", f'"{self._kernel(launch)}"')
        lines += self._list("grid", launch.grid)
        lines += self._list("block", launch.block)
        if launch.cluster:
            lines += self._list("cluster", Triple(*launch.cluster))
        if not (isinstance(launch.smem, Number) and launch.smem.value == 0):
            lines += self._value("smem", json.dumps(self._number("smem", launch.smem)))
        if launch.cooperative:
            lines.append("cooperative = true")
        if launch.when:
            said = [self._condition(condition) for condition in launch.when]
            text = said[0] if len(said) == 1 else " and ".join(f"({one})" for one in said)
            lines += self._value("when", json.dumps(text))
        lines += self._value("args", f"[{', '.join(json.dumps(a) for a in self._arguments(launch))}]")
        return "\n".join(lines) + "\n"

    def _value(self, key: str, text: str) -> list[str]:
        """Write a key with a comment for every hole in its value."""
        inside = [hole for hole in self.holes if re.search(rf"\b{hole.name}\b", text)]
        comment = "".join(f"  # {h.name}: {_comment(h.text)}" + (f" (line {h.line})" if h.line else "") for h in inside)
        return [f"{key:6} = {text}{comment}"]

    def _list(self, key: str, value: Value) -> list[str]:
        values = [value.x, value.y, value.z] if isinstance(value, Triple) else [value]
        while len(values) > 1 and values[-1] == ONE:
            values.pop()
        texts = [self._number(key, one) for one in values]
        return self._value(key, f"[{', '.join(json.dumps(text) for text in texts)}]")

    def _number(self, place: str, value: Value) -> str:
        if isinstance(value, Number):
            return self._resolved(value.text)
        return self.hole(place, value)

    def _condition(self, value: Number | Unread) -> str:
        return self._number("when", value)

    def hole(self, place: str, value: Value | None, text: str = "") -> str:
        line = value.line if isinstance(value, Unread) else 0
        text = text or (value.text if isinstance(value, Unread) else "")
        same = next((h for h in self.holes if text and (h.text, h.line) == (text, line)), None)
        if same:
            return same.name
        self.holes.append(Hole(f"HOLE_{len(self.holes) + 1}", place, text, line))
        return self.holes[-1].name

    def _resolved(self, text: str) -> str:
        """Put the problem's names for the host's; a name that was not found becomes a hole."""

        def tensor(match: re.Match[str]) -> str:
            name = self.matching.tensors.get(match[1])
            return name or self.hole("tensor", None, match[1])

        def number(match: re.Match[str]) -> str:
            found = self.matching.numbers.get(match[1])
            if found is None:
                return self.hole("number", None, match[1])
            return found if re.fullmatch(r"[\w.\[\]-]+", found) else f"({found})"

        text = re.sub(r"‹#(\w+)›", number, text)
        text = re.sub(r"‹!(\w+)›", lambda found: self.hole("number", self.found.unknown[found[1]]), text)
        return re.sub(r"‹([^›]+)›", tensor, text)

    def _arguments(self, launch: RawLaunch) -> Iterator[str]:
        parameters = launch.kernel.parameters
        for index, value in enumerate(launch.args):
            place = f"argument {parameters[index].name}" if index < len(parameters) else f"argument {index + 1}"
            if isinstance(value, HostBuffer):
                found = self.matching.tensors.get(value.name)
                yield found or self.hole(place, None, value.name)
            elif isinstance(value, Number):
                yield self._resolved(value.text)
            else:
                yield self.hole(place, value)

    def _kernel(self, launch: RawLaunch) -> str:
        kernel = launch.kernel
        if not kernel.template:
            return kernel.qualified
        given = list(launch.template)
        texts = []
        for index, parameter in enumerate(kernel.template):
            if index < len(given):
                texts.append(self._template(parameter.name, given[index]))
            elif deduced := self._deduced(launch, parameter.name):
                texts.append(deduced)
            elif parameter.default:
                break
            else:
                texts.append(self.hole(f"template argument {parameter.name}", None, parameter.name))
        return f"{kernel.qualified}<{', '.join(texts)}>" if texts else f"{kernel.qualified}<>"

    def _template(self, name: str, given: Number | str | TypeOf | Unread) -> str:
        if isinstance(given, TypeOf):
            dtype = self.dtypes.get(self.matching.tensors.get(given.buffer, ""), "")
            return C_NAMES[dtype] if dtype else self.hole(f"template argument {name}", None, "scalar_t")
        if isinstance(given, Number):
            if given.value is not None:
                return given.text
            return self.hole(f"template argument {name}", None, self._resolved(given.text))
        if isinstance(given, Unread):
            return self.hole(f"template argument {name}", given)
        if given == "scalar_t":
            return C_NAMES[self.signature.tensors[0].dtype]
        return _TORCH_TYPES.get(given, given)

    def _deduced(self, launch: RawLaunch, name: str) -> str:
        """Return the type of the tensor that is passed where the parameter's type is `T*`."""
        for parameter, value in zip(launch.kernel.parameters, launch.args, strict=False):
            bare = parameter.type.replace("const", "").replace("*", "").strip()
            if parameter.is_pointer and bare == name and isinstance(value, HostBuffer):
                dtype = self.dtypes.get(self.matching.tensors.get(value.name, ""), "")
                return C_NAMES.get(dtype, "")
        return ""


def device_code(found: HostWalk, helpers: str, kernels: str) -> str:
    """Return the device code of the file, with the types of torch written as CUDA's."""
    text = found.source.device_text()
    for torch_type, own in _TORCH_TYPES.items():
        text = text.replace(torch_type, own)
    text = re.sub(r"[ \t]+$", "", text, flags=re.MULTILINE)
    text = re.sub(r"\n{3,}", "\n\n", text).strip("\n")
    code = f"{text}{kernels}{helpers}"
    wanted = [h for h, used in _HEADERS.items() if re.search(used, code) and f"<{h}>" not in text]
    return "".join(f"#include <{header}>\n" for header in wanted) + helpers + text + "\n"


def host_line(found: HostWalk, matching: Matching) -> str:
    """Return the line that says which host function the kernel was imported from; "" if there was none."""
    entry = found.entry
    if entry is None or entry.name == "main":
        return ""
    facts = {
        "file": found.source.name, "function": entry.name, "scope": entry.scope, "head": entry.head,
        "parameters": [[p.type, p.name, p.default] for p in entry.parameters],
        "tensors": _of(entry, matching.tensors), "numbers": _of(entry, matching.numbers),
        "copies": matching.copies, "returned": [matching.tensors.get(name, "") for name in found.returned],
    }  # fmt: skip
    return HOST_MARK + json.dumps(facts, ensure_ascii=False).replace("*/", "* /") + "\n"


def _of(entry: CudaFunction, names: Mapping[str, str]) -> Mapping[str, str]:
    own = {parameter.name for parameter in entry.parameters}
    return {host: name for host, name in names.items() if host in own}


def _comment(text: str) -> str:
    return " ".join(text.split()).replace("*/", "* /").replace("/*", "/ *")


def _helper(kernel: str, output: str, args: Sequence[str]) -> str:
    listed = ", ".join(f'"{a}"' for a in (*args, f"{output}.numel"))
    return (
        f'[[launch]]\nkernel = "{kernel}"\ngrid   = ["min(ceil_div({output}.numel, 256), 1024)"]\nblock  = ["256"]\n'
        f"args   = [{listed}]\n"
    )


_LOOP = "  for (long long i = blockIdx.x * 256LL + threadIdx.x; i < n; i += gridDim.x * 256LL)"


def _copy_kernel(dtype: str) -> str:
    name = C_NAMES[dtype]
    return (
        "// The imported kernel works in place; here inputs are never written, so the output begins as a copy.\n"
        f"__global__ void cutegen_copy_{dtype}({name} const* from, {name}* to, long long n) {{\n"
        f"{_LOOP} to[i] = from[i];\n}}\n\n"
    )


def _clear_kernel(dtype: str) -> str:
    name = C_NAMES[dtype]
    return (
        "// The host code fills this output with zeros first.\n"
        f"__global__ void cutegen_clear_{dtype}({name}* to, long long n) {{\n{_LOOP} to[i] = {name}(0);\n}}\n\n"
    )
