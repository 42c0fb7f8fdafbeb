"""A `torch.library` operator as one Python module: custom_op, fake registration, in-place arguments, autograd."""

from __future__ import annotations

import ast
import re

from cutegen_core.judge import problem_source
from cutegen_core.records.problem import Problem, TensorSpec
from cutegen_core.share.exports.host_cpp import number_type
from cutegen_core.share.exports.library.facts import LibraryFacts
from cutegen_core.share.exports.modelnew import cpp_source, cuda_source, plan_function, raw_string
from cutegen_core.share.exports.own_names import digest
from cutegen_core.share.exports.rendering import one_line, render
from cutegen_core.share.exports.translate import HELPERS_PYTHON


def operator_module(facts: LibraryFacts, name: str = "") -> str:
    """Return the module's text.

    Args:
        name: of the operator; the problem's if not given.

    Raises:
        UsageError: the shape of an output does not follow from the inputs' shapes.
    """
    bundle, made = facts.bundle, facts.made_outputs()
    inputs, numbers = bundle.signature.inputs, bundle.scalars()
    written = [facts.in_place[o.name] for o in bundle.signature.outputs if o.name in facts.in_place]
    shapes = [(output.name, _tuple(facts.output_shape(output))) for output in made]
    imports, backward = backward_formula(facts.bundle.problem)
    name = name or bundle.name
    return render(
        "operator.py.jinja",
        title=one_line(bundle.problem.title),
        idea=one_line(bundle.kernel.idea),
        origin=bundle.origin,
        name=name,
        digest=digest(cuda_source(bundle), cpp_source(bundle), plan_function(bundle), *imports, backward, repr(shapes)),
        functions=repr([f"launch_{i}" for i in range(len(bundle.kernel.kernel_names()))]),
        cuda_source=raw_string(cuda_source(bundle)),
        cpp_source=raw_string(cpp_source(bundle)),
        helpers=HELPERS_PYTHON.strip("\n"),
        plan=plan_function(bundle),
        imports=imports,
        inputs=_listed(inputs),
        outputs=_listed(bundle.signature.outputs),
        in_place=repr(dict(facts.in_place)),
        named=sorted({n for _, text in shapes for n in re.findall(r"(\w+)\.shape", text)}),
        shapes=shapes,
        mutated=repr(tuple(written)),
        mutated_any=bool(written),
        parameters=", ".join(
            (*(f"{t.name}: torch.Tensor" for t in inputs), *(f"{n}: {_kind(v)}" for n, v in numbers.items()))
        ),
        parameter_list=", ".join((*(t.name for t in inputs), *numbers)),
        tensor_list=", ".join(t.name for t in inputs),
        tensor_names=[t.name for t in inputs],
        number_names=list(numbers),
        returns="None" if not made else "torch.Tensor" if len(made) == 1 else _pair(len(made)),
        made=len(made),
        in_place_text=f"; writes {', '.join(written)} in place." if written else ".",
        backward=backward,
        has_backward=bool(backward),
    )


def backward_formula(problem: Problem) -> tuple[list[str], str]:
    """Return the `backward` function of a problem's file, and the imports of the file; empty without one."""
    tree = problem_source.parse(problem.source, problem.origin)
    found = next((s for s in tree.body if isinstance(s, ast.FunctionDef) and s.name == "backward"), None)
    if found is None:
        return [], ""
    imports = [ast.unparse(s) for s in tree.body if isinstance(s, ast.Import | ast.ImportFrom)]
    return [i for i in imports if i != "import torch"], ast.get_source_segment(problem.source, found) or ""


def _pair(count: int) -> str:
    return f"tuple[{', '.join(['torch.Tensor'] * count)}]"


def _kind(value: float) -> str:
    return "float" if number_type(value) == "double" else "int"


def _listed(specs: tuple[TensorSpec, ...]) -> str:
    return f"[{', '.join(f'({spec.name!r}, torch.{spec.dtype})' for spec in specs)}]"


def _tuple(extents: tuple[str, ...]) -> str:
    return f"({', '.join(extents)}{',' if len(extents) == 1 else ''})"
