"""Draw references at random: programs of a few lines, over everything the playbook has families for.

Shapes are tuples of code ("R", "(R + 1)", "(R * C)"), so that one program is right for all sizes of a problem. Values
stay near one, so that rounding cannot grow; what is compared is never nearly equal by construction.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import prod
from random import Random
from typing import NamedTuple

from cutegen_core.records.problem import Problem
from tests.propose.playbook.drawn_forms import FORMS
from tests.propose.playbook.right import problem

POINTWISE = (
    "torch.tanh({0})", "torch.sigmoid({0})", "F.relu({0})", "F.gelu({0})", "F.silu({0})", "torch.sin({0})", "{0}.abs()",
    "-{0}", "{0} * 0.5", "{0} + 1", "1 - {0}", "torch.exp(-{0}.abs())", "torch.sqrt({0}.abs() + 0.5)",
    "{0}.clamp(-1, 0.7)", "torch.log1p({0}.abs())", "F.leaky_relu({0}, 0.1)", "F.softplus({0})",
    "{0} / (1 + {0}.abs())", "{0} ** 2 / 4",
)  # fmt: skip
BINARY = (
    "{0} + {1}", "{0} - {1}", "{0} * {1}", "torch.maximum({0}, {1})", "{0} / (1 + {1}.abs())",
    "torch.where({0} > {1}, {0}, {1} * 0.5)", "{0}.masked_fill({1} > 0.3, -0.4)", "torch.lerp({0}, {1}, 0.3)",
    "torch.minimum({0}, {1})", "torch.addcmul({0}, {0}, {1}, value=0.5)", "torch.atan2({0}, {1}.abs() + 1)",
)  # fmt: skip
REDUCTIONS = ("mean", "amax", "amin", "logsumexp", "norm", "sum", "var", "std")
ROWWISE = (
    "F.softmax({0}, {1})", "F.log_softmax({0}, {1}) / 4", "{0}.cumsum({1}) / 4", "F.normalize({0}, dim={1}, eps=1e-3)",
    "{0}.cummax({1})[0]", "{0}.flip({1}).cumsum({1}).flip({1}) / 4", "F.softmin({0}, {1})",
)  # fmt: skip
LOSSES = ("F.mse_loss({0}, {1})", "F.smooth_l1_loss({0}, {1})", "F.l1_loss({0}, {1}, reduction='sum') / 64")


@dataclass(frozen=True)
class Range:
    """The sizes and lengths that programs are drawn from.

    Attributes:
        sizes, awkward: of the benchmark and of the other workload, by the names that shapes use.
        steps: the fewest and the most of a program.
        dtypes: of its inputs.
        more: it draws from the forms of `drawn_forms`, too.
        loops: some moves are repeated, each time from what the last one made.
    """

    sizes: Mapping[str, Sequence[int]]
    awkward: Mapping[str, Sequence[int]]
    steps: tuple[int, int]
    dtypes: Sequence[str] = ("float32",) * 8 + ("float16", "bfloat16")
    more: bool = False
    loops: bool = False


SMALL = Range(
    {"N": (3, 6, 8), "R": (8, 10, 12, 16), "C": (16, 20, 24, 32)},
    {"N": (1, 2, 5), "R": (6, 7, 9), "C": (12, 13, 15, 33)},
    (2, 6),
)
WIDE = replace(SMALL, dtypes=(*SMALL.dtypes, "float64"), more=True)
"""Of the same sizes, with whole numbers, doubles, writes to parts, scattered sums and much else."""
LONG = Range(
    {"N": (1, 2, 3), "R": (6, 8), "C": (20000, 40000, 70000, 131072, 300000)},
    {"N": (1, 2, 5), "R": (7, 9), "C": (20001, 39999, 70002, 131071, 262143)},
    (1, 4),
)
"""Rows that clusters and teams of blocks share: for a GPU."""
LOOPS = replace(SMALL, steps=(1, 3), loops=True)
RANGES: Mapping[str, Range] = {
    "small": SMALL, "wide": WIDE, "long": LONG, "long-wide": replace(LONG, more=True), "loops": LOOPS,
}  # fmt: skip
_SHAPES = (("R", "C"), ("N", "R", "C"), ("N", "R", "C"), ("C",), ("N", "4", "R", "C"), ("C", "R"), ("N", "C", "R"))
_MOST_ELEMENTS = 6_000_000
"""Of a tensor: a program with a larger one is drawn again."""


class Term(NamedTuple):
    """A tensor of floats in a program: its name, and its extents as code."""

    name: str
    dims: tuple[str, ...]


@dataclass
class Program:
    """A program that is being drawn.

    Attributes:
        dtype: of all inputs that are no positions.
        inputs: name -> the code that draws it.
        lines: of the body of `forward`.
    """

    chance: Random
    dtype: str = "float32"
    inputs: dict[str, str] = field(default_factory=dict)
    lines: list[str] = field(default_factory=list)
    terms: list[Term] = field(default_factory=list)

    def input(self, dims: Sequence[str]) -> Term:
        """Add an input of this shape."""
        name = f"x{len(self.inputs)}"
        more = "" if self.dtype == "float32" else f", dtype=torch.{self.dtype}"
        self.inputs[name] = f"torch.randn([{', '.join(dims)}]{more})"
        self.terms.append(Term(name, tuple(dims)))
        return self.terms[-1]

    def places(self, dims: Sequence[str], below: str) -> str:
        """Add an input of whole numbers from 0 to below `below`; return its name."""
        name = f"x{len(self.inputs)}"
        self.inputs[name] = f"torch.randint(0, {below}, [{', '.join(dims)}])"
        return name

    def whole(self, dims: Sequence[str]) -> str:
        """Add an input of whole numbers from -9 to 9; return its name."""
        name = f"x{len(self.inputs)}"
        dtype = self.chance.choice(("int64", "int64", "int32", "int16", "int8"))
        self.inputs[name] = f"torch.randint(-9, 10, [{', '.join(dims)}]).to(torch.{dtype})"
        return name

    def line(self, code: str, dims: Sequence[str]) -> Term:
        """Add a line that computes a tensor of this shape."""
        name = f"t{len(self.lines)}"
        self.lines.append(f"{name} = {code}")
        self.terms.append(Term(name, tuple(dims)))
        return self.terms[-1]

    def most_elements(self, sizes: Mapping[str, int]) -> int:
        """Return the elements of the largest tensor at these sizes."""
        return max(prod(eval(dim, dict(sizes)) for dim in term.dims) for term in self.terms)

    def beside(self, term: Term) -> Term:
        """Return an operand that broadcasts with `term`: one that is there already, or an input of its own."""
        fitting = [other for other in self.terms if other != term and _fits(other.dims, term.dims)]
        if fitting and self.chance.random() < 0.7:
            return self.chance.choice(fitting)
        dims = [dim if self.chance.random() < 0.7 else "1" for dim in term.dims]
        return self.input(dims[self.chance.choice((0, 0, 0, min(1, len(dims) - 1))) :] if dims else dims)


def _fits(dims: tuple[str, ...], into: tuple[str, ...]) -> bool:
    """Tell whether a shape broadcasts to another."""
    return len(dims) <= len(into) and all(a in (b, "1") for a, b in zip(dims[::-1], into[::-1], strict=False))


def draw(seed: int, of: Range = SMALL) -> Problem:
    """Return the problem of this number."""
    chance = Random(seed)
    while True:
        program = Program(chance, chance.choice(of.dtypes))
        program.input(chance.choice(_SHAPES))
        for _ in range(chance.randint(*of.steps)):
            move = _form if of.more and chance.random() < 0.6 else chance.choice(_MOVES)
            move = _loop if of.loops and chance.random() < 0.5 else move
            move(program, chance.choice(program.terms[-2:]))
        sizes, awkward = ({n: chance.choice(v) for n, v in some.items()} for some in (of.sizes, of.awkward))
        returned = [program.terms[-1], *chance.sample(program.terms, chance.choice((0, 0, 1)))]
        names = list(dict.fromkeys(term.name for term in returned if term.name not in program.inputs))
        if max(map(program.most_elements, (sizes, awkward))) <= _MOST_ELEMENTS:
            return problem(", ".join(names), sizes, awkward, lines=program.lines, **program.inputs)


def _pointwise(program: Program, term: Term) -> None:
    program.line(program.chance.choice(POINTWISE).format(term.name), term.dims)


def _binary(program: Program, term: Term) -> None:
    other = program.beside(term)
    program.line(program.chance.choice(BINARY).format(term.name, other.name), term.dims)


def _reduce(program: Program, term: Term) -> None:
    if not term.dims:
        return _pointwise(program, term)
    count = program.chance.choice((1, 1, 1, 2, len(term.dims)))
    where = sorted(program.chance.sample(range(len(term.dims)), min(count, len(term.dims))))
    keep = program.chance.random() < 0.5
    kind = program.chance.choice(REDUCTIONS)
    more = ", correction=0" if kind in ("var", "std") else ""
    axes = [axis - len(term.dims) if program.chance.random() < 0.5 else axis for axis in where]
    dims = [("1" if k in where else dim) for k, dim in enumerate(term.dims) if keep or k not in where]
    start = f"torch.linalg.vector_norm({term.name}, " if kind == "norm" else f"{term.name}.{kind}("
    code = f"{start}dim={tuple(axes)}{more}, keepdim={keep})"
    made = program.line(code + (" / 8" if kind == "sum" else ""), dims)
    if program.chance.random() < 0.6:
        back = made.name if keep else _with_ones(made.name, where)
        code = program.chance.choice(
            ("{0} - {1}", "{0} * {1}", "{0} / (1 + {1}.abs())", "torch.where({0} > {1}, {0}, 0)")
        )
        program.line(code.format(term.name, back), term.dims)
    return None


def _with_ones(name: str, where: Sequence[int]) -> str:
    return name + "".join(f".unsqueeze({k})" for k in where)


def _rowwise(program: Program, term: Term) -> None:
    if not term.dims:
        return _pointwise(program, term)
    axis = program.chance.randrange(len(term.dims))
    program.line(program.chance.choice(ROWWISE).format(term.name, axis), term.dims)
    return None


def _norm(program: Program, term: Term) -> None:
    if not term.dims:
        return _pointwise(program, term)
    taken = program.chance.randint(1, min(2, len(term.dims)))
    shape = f"({', '.join(term.dims[-taken:])},)"
    weight = f", {program.input(term.dims[-taken:]).name}" if program.chance.random() < 0.5 else ""
    program.line(
        f"F.{program.chance.choice(('layer_norm', 'rms_norm'))}({term.name}, {shape}{weight}, eps=0.01)", term.dims
    )
    return None


def _view(program: Program, term: Term) -> None:
    rank, name, chance = len(term.dims), term.name, program.chance
    if rank < 2:
        program.line(
            f"{name}.unsqueeze({chance.randint(0, rank)})" if rank == 0 else f"{name}[None]", ("1", *term.dims)
        )
        return
    way = chance.choice(("transpose", "permute", "flatten", "unsqueeze", "expand"))
    if way == "transpose":
        a, b = chance.sample(range(rank), 2)
        dims = list(term.dims)
        dims[a], dims[b] = dims[b], dims[a]
        program.line(f"{name}.transpose({a}, {b})", dims)
    elif way == "permute":
        order = chance.sample(range(rank), rank)
        program.line(f"{name}.permute({', '.join(map(str, order))})", [term.dims[k] for k in order])
    elif way == "flatten":
        k = chance.randrange(rank - 1)
        dims = [*term.dims[:k], f"({term.dims[k]} * {term.dims[k + 1]})", *term.dims[k + 2 :]]
        program.line(f"{name}.reshape({', '.join(dims)})", dims)
    elif way == "unsqueeze":
        k = chance.randint(0, rank)
        program.line(f"{name}.unsqueeze({k})", [*term.dims[:k], "1", *term.dims[k:]])
    else:
        program.line(f"{name}.expand(2, {', '.join(['-1'] * rank)})", ["2", *term.dims])


def _part(program: Program, term: Term) -> None:
    """Take a part of a tensor, or put it between others, along one dimension."""
    long = [k for k, dim in enumerate(term.dims) if dim in ("R", "C")]
    if not long:
        return _pointwise(program, term)
    k, chance = program.chance.choice(long), program.chance
    dim, before = term.dims[k], ":, " * k
    forms = {
        f"{{0}}[{before}1:]": f"({dim} - 1)",
        f"{{0}}[{before}:-2]": f"({dim} - 2)",
        f"{{0}}[{before}2:-1]": f"({dim} - 3)",
        f"{{0}}[{before}::2]": f"(({dim} + 1) // 2)",
        f"{{0}}[{before}1::3]": f"(({dim} + 1) // 3)",
        f"{{0}}.flip({k})": dim,
        f"torch.roll({{0}}, 3, {k})": dim,
        f"torch.cat(({{0}}, {{0}} * 2), {k})": f"(2 * {dim})",
        f"torch.cat(({{0}}[{before}3:], {{0}}.neg()), {k})": f"(2 * {dim} - 3)",
        f"{{0}}.narrow({k}, 1, 4)": "4",
        f"torch.diff({{0}}, dim={k})": f"({dim} - 1)",
        f"{{0}}.repeat_interleave(2, {k})": f"(2 * {dim})",
        f"{{0}}.unfold({k}, 4, 2).mean(-1)": f"(({dim} - 4) // 2 + 1)",
        f"{{0}}.index_select({k}, torch.tensor([2, 0, 3], device={{0}}.device))": "3",
        f"F.pad({{0}}, {(0, 0) * (len(term.dims) - 1 - k) + (2, 1)})": f"({dim} + 3)",
        f"{{0}}.chunk(2, {k})[0]": f"(({dim} + 1) // 2)",
        f"torch.stack(({{0}}, {{0}}.sin()), {k}).amax({k})": dim,
    }
    code = chance.choice(list(forms))
    program.line(code.format(term.name), [*term.dims[:k], forms[code], *term.dims[k + 1 :]])
    return None


def _halves(program: Program, term: Term) -> None:
    """Take both halves of a dimension of even length, or make two dimensions of it; else a triangle."""
    even = [k for k, dim in enumerate(term.dims) if dim.startswith("(2 * ") and dim[5:-1] in ("R", "C")]
    if not even:
        if len(term.dims) < 2:
            return _binary(program, term)
        triangle = program.chance.choice(("tril", "triu"))
        program.line(f"torch.{triangle}({term.name}, {program.chance.choice((-1, 0, 2))})", term.dims)
        return None
    k, way = program.chance.choice(even), program.chance.randrange(3)
    half = term.dims[k][5:-1]
    if way == 0:
        program.line(f"{term.name}.unflatten({k}, (2, {half}))", [*term.dims[:k], "2", half, *term.dims[k + 1 :]])
    elif way == 1:
        program.line(f"F.glu({term.name}, {k})", [*term.dims[:k], half, *term.dims[k + 1 :]])
    else:
        parts = f"{term.name}.chunk(2, {k})"
        program.line(f"{parts}[0].tanh() + {parts}[1].flip({k})", [*term.dims[:k], half, *term.dims[k + 1 :]])
    return None


def _masked(program: Program, term: Term) -> None:
    """Compute rows of which a mask leaves out a part, or outer sums."""
    if not term.dims:
        return _binary(program, term)
    other, chance = program.beside(term), program.chance
    axis = chance.randrange(len(term.dims))
    if chance.random() < 0.3 and len(term.dims) < 4:
        vector = program.input(("5",))
        program.line(f"({term.name}[..., None] * {vector.name}).sin().mean({axis})", _outer(term.dims, axis))
        return None
    forms = (
        "F.softmax({0}.masked_fill({1} > 1, float('-inf')), {2})", "({0} * ({1} > 0)).sum({2}, keepdim=True) / 8 + {0}",
        "torch.where({1} > 0.5, {0}, float('-inf')).amax({2}, keepdim=True).clamp(-9, 9) - {0}",
        "({0} - {1}).abs().cumsum({2}) / 8", "torch.logaddexp({0}, {1}) - {0}.logsumexp({2}, keepdim=True)",
    )  # fmt: skip
    program.line(chance.choice(forms).format(term.name, other.name, axis), term.dims)
    return None


def _outer(dims: tuple[str, ...], axis: int) -> tuple[str, ...]:
    """Return the extents of what has one more dimension of five, without one of the others."""
    return (*dims[:axis], *dims[axis + 1 :], "5")


def _product(program: Program, term: Term) -> None:
    if len(term.dims) < 2:
        return _pointwise(program, term)
    *batch, m, k = term.dims
    form, chance = program.chance.randrange(6), program.chance
    if form == 0:
        other = program.input((k, chance.choice(("R", "C", "7"))))
        program.line(f"({term.name} @ {other.name}) / 4", (*batch, m, other.dims[-1]))
    elif form == 1:
        other = program.input((chance.choice(("R", "C", "5")), k))
        bias = program.input(other.dims[:1])
        program.line(f"F.linear({term.name}, {other.name}, {bias.name}) / 4", (*batch, m, other.dims[0]))
    elif form == 2:
        program.line(f"({term.name} @ {term.name}.transpose(-1, -2)) / 16", (*batch, m, m))
    elif form == 3:
        other = program.input((k, "R"))
        program.line(f"torch.einsum('...mk,kn->...nm', {term.name}, {other.name}) / 4", (*batch, "R", m))
    elif form == 4:
        other = program.input((k,))
        program.line(f"{term.name} @ {other.name} / 4", (*batch, m))
    else:
        other = program.input((*batch, k, "R"))
        program.line(f"torch.matmul({term.name}.tanh(), {other.name}) / 4", (*batch, m, "R"))
    return None


def _loss(program: Program, term: Term) -> None:
    other = program.input(term.dims)
    program.line(program.chance.choice(LOSSES).format(term.name, other.name), ())


def _window(program: Program, term: Term) -> None:
    """Convolve or pool an image of three or four dimensions."""
    if len(term.dims) not in (3, 4) or not {"R", "C"} >= set(term.dims[2:]):
        return _norm(program, term)
    (n, channels, *places), chance = term.dims, program.chance
    d = len(places)
    if chance.random() < 0.5:
        kind = chance.choice(("avg_pool", "max_pool"))
        program.line(
            f"F.{kind}{d}d({term.name}, 3, stride=2, padding=1)",
            (n, channels, *(f"(({p} - 1) // 2 + 1)" for p in places)),
        )
    else:
        weight, padding = program.input(("6", channels, *["3"] * d)), chance.choice((0, 1))
        made = places if padding else [f"({p} - 2)" for p in places]
        program.line(f"F.conv{d}d({term.name}, {weight.name}, padding={padding}) / 8", (n, "6", *made))
    return None


def _taken(program: Program, term: Term) -> None:
    """Read elements where whole numbers say, or say where an element is."""
    if not term.dims or term.dims[-1] not in ("R", "C"):
        return _pointwise(program, term)
    *rows, last = term.dims
    way, name = program.chance.randrange(6), term.name
    if way == 0:
        places = program.places((*rows, "4"), last)
        program.line(f"torch.gather({name}, {len(rows)}, {places})", (*rows, "4"))
    elif way == 1:
        places = program.places(("5",), last)
        program.line(f"{name}[..., {places}]", (*rows, "5"))
    elif way == 2:
        program.line(f"{name}.argmax(-1).to({name}.dtype) / 16", rows)
    elif way == 3:
        program.line(f"{name}.topk(3, -1)[0]", (*rows, "3"))
    elif way == 4 and len(rows) == 1:
        places = program.places(rows, last)
        program.line(f"F.cross_entropy({name}, {places})", ())
    else:
        table, places = program.input(("9", last)), program.places(rows, "9")
        program.line(f"{name} + F.embedding({places}, {table.name})", term.dims)
    return None


def _attention(program: Program, term: Term) -> None:
    if len(term.dims) != 3 or term.dims[1] not in ("R", "C"):
        return _product(program, term)
    n, _, depth = term.dims
    keys, values = program.input((n, "C", depth)), program.input((n, "C", "R"))
    causal = ", is_causal=True" if term.dims[1] == "C" and program.chance.random() < 0.5 else ""
    program.line(
        f"F.scaled_dot_product_attention({term.name}, {keys.name}, {values.name}{causal})", (n, term.dims[1], "R")
    )
    return None


def _channels(program: Program, term: Term) -> None:
    """Norm, convolve or enlarge what has channels."""
    if len(term.dims) != 4 or term.dims[1] != "4" or not {"R", "C"} >= set(term.dims[2:]):
        return _rowwise(program, term)
    n, _, high, wide = term.dims
    way, name, chance = program.chance.randrange(6), term.name, program.chance
    if way == 0:
        program.line(f"F.group_norm({name}, 2, eps=0.01)", term.dims)
    elif way == 1:
        program.line(f"F.instance_norm({name}, eps=0.01)", term.dims)
    elif way == 2:
        program.line(f"F.batch_norm({name}, None, None, training=True, eps=0.01)", term.dims)
    elif way == 3:
        weight = program.input(("4", "1", "3", "3"))
        program.line(f"F.conv2d({name}, {weight.name}, padding=1, groups=4) / 3", term.dims)
    elif way == 4:
        weight = program.input(("4", "3", "2", "2"))
        dims = (n, "3", f"(2 * {high})", f"(2 * {wide})")
        program.line(f"F.conv_transpose2d({name}, {weight.name}, stride=2) / 2", dims)
    else:
        mode = chance.choice(("nearest", "bilinear"))
        dims = (n, "4", f"(2 * {high})", f"(2 * {wide})")
        program.line(f"F.interpolate({name}, scale_factor=2, mode='{mode}')", dims)
    return None


def _form(program: Program, term: Term) -> None:
    """Compute one of the forms that go with a tensor of so many dimensions."""
    chance, rank = program.chance, len(term.dims)
    forms = [form for form in FORMS if form.least <= rank <= form.most]
    if not forms:
        return _pointwise(program, term)
    form, axis = chance.choice(forms), chance.randrange(rank)
    operands: Mapping[str, Callable[[], str]] = {
        "y": lambda: program.beside(term).name,
        "same": lambda: program.input(term.dims).name,
        "weight": lambda: program.input((term.dims[-1], "7")).name,
        "whole": lambda: program.whole(term.dims),
        "row": lambda: program.places(("5",), term.dims[axis]),
        "places": lambda: program.places(term.dims, term.dims[-1]),
    }
    named = {name: add() for name, add in operands.items() if f"{{{name}}}" in form.code}
    names = {"x": term.name, "k": axis, "dim": term.dims[axis], **named}
    *before, last = form.code.format(**names).split("; ")
    made = f"t{len(program.lines) + len(before)}"
    program.lines += [part.replace("made", made) for part in before]
    program.line(last.replace("made", made), form.dims(term.dims, axis))
    return None


def _loop(program: Program, term: Term) -> None:
    """Repeat some moves that lead from a tensor to one that can be added to it."""
    state, chance = program.line(f"{term.name} / 2", term.dims), program.chance
    lines, terms, inputs = list(program.lines), list(program.terms), dict(program.inputs)
    while (last := program.terms[-1]) is state or not _fits(last.dims, state.dims):
        program.lines, program.terms, program.inputs = list(lines), list(terms), dict(inputs)
        for _ in range(chance.randint(1, 4)):
            chance.choice(_MOVES)(program, program.terms[-1])
    body = [*program.lines[len(lines) :], f"{state.name} = ({state.name} + {last.name}) / 2"]
    program.lines[len(lines) :] = [f"for _ in range({chance.randint(2, 6)}):", *(f"    {line}" for line in body)]
    program.terms.append(state)


_MOVES: Sequence[Callable[[Program, Term], None]] = (
    _pointwise, _pointwise, _binary, _binary, _reduce, _reduce, _reduce, _rowwise, _rowwise, _norm, _view, _view, _view,
    _part, _part, _part, _halves, _halves, _masked, _masked, _product, _loss, _window, _taken, _attention, _channels,
)  # fmt: skip
