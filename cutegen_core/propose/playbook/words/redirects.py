"""Map a person's words to a named variant of the playbook, with other parameters if asked for.

1. A word such as "vectorised" or "shuffle" names a variant; without one the current kernel is the one to change.
2. `BLOCK = 512`, "512 threads", "larger tile", "fewer registers" change declared parameters.
What maps to neither is answered with None: nothing is guessed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from cutegen_core.kernel.expressions import Number
from cutegen_core.kernel.kernel_file import KernelFile, parse
from cutegen_core.propose.playbook.variants import Variant
from cutegen_core.records.errors import KernelFileError

_MOST_LETTERS = 80
_IN_THREE = ("3xTF32 skipping", "3xTF32 split", "3xTF32")
_FASTEST_PRODUCTS = ("warp groups", "tensor cores", *_IN_THREE, "multistage")
_WORDS: tuple[tuple[str, tuple[str, ...]], ...] = (
    (r"\bnaive\b|\bsimpl\w+|\bfrom scratch\b|\bstart over\b", ("naive",)),
    (r"\bwgmma\b|\btma\b|\bpersistent\b", ("warp groups",)),
    (r"\bmma\b|\bldmatrix\b|\btf32\b|\btensor.?cores?\b", ("tensor cores", *_IN_THREE)),
    (r"\bsplit.?k\b|\bstream.?k\b", ("split",)),
    (r"\b(?:skip|leave out)\b.*\b(?:zeros?|tiles?)\b|\btriang\w*", ("skipping",)),
    (
        r"\bprefetch\w*|\bdouble.?buffer\w*|\bpipelin\w*|\bcp.?async\b|\bstages\b",
        ("multistage", "tensor cores", "prefetch"),
    ),
    (r"\bunroll\w*|\bdirect\w*", ("direct",)),
    (r"\bshared memory\b|\bstag\w+|\btiled\b|\btiling\b|\bcoalesc\w*", ("tiled",)),
    (r"\bonline\b|\bflash\w*", ("online",)),
    (r"\bshuffles?\b|\bwarps?\b|\bone block (?:a|per) row\b", ("shuffle",)),
    (r"\bin registers\b|\bregister.resident\b|\bread once\b|\bsingle pass\b|\bregisters variant\b", ("registers",)),
    (r"\bvectori[sz]\w*|\b128.?bit\b|\bfloat4\b|\bwide loads?\b", ("vectorised", "registers")),
    (
        r"\btuned?\b|\btuning\b|\btunable\b|\bfastest\b",
        ("tuned", *_FASTEST_PRODUCTS, "registers"),
    ),
)
_SIZES: tuple[tuple[str, tuple[str, ...], int], ...] = (
    (r"\b(?:larger|bigger|wider) tiles?\b", ("BM", "BN", "BX", "ITEMS"), +1),
    (r"\b(?:smaller|narrower) tiles?\b", ("BM", "BN", "BX", "ITEMS"), -1),
    (r"\bfewer registers\b|\bless registers\b|\bspill\w*", ("ITEMS", "TM", "TN"), -1),
    (r"\bmore registers\b|\bmore (?:work|items|elements) (?:a|per) thread\b", ("ITEMS", "TM", "TN"), +1),
    (r"\b(?:larger|bigger) blocks?\b|\bmore threads\b", ("BLOCK", "BY"), +1),
    (r"\bsmaller blocks?\b|\bfewer threads\b", ("BLOCK", "BY"), -1),
    (r"\bdeeper (?:slices?|tiles?)\b", ("BK",), +1),
)
_STEPS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)


def redirect(text: str, variants: Sequence[Variant], base: str = "") -> Variant | None:
    """Return the variant that these words ask for; None if they name no variant and no parameter of this menu.

    Args:
        base: source of the kernel the person is looking at; parameters are changed in it when it declares them.
    """
    words = text.lower()
    named = _named(words, variants)
    for start in _starts(named, variants, base):
        values = _values(text, parse(start.source))
        if values:
            return _changed(start, values)
    return named


def not_understood(words: str, variants: Sequence[Variant], *more: str) -> str:
    """Return the answer to words that do not map: their beginning, and what a person can say; `more` is what else."""
    said = words if len(words) <= _MOST_LETTERS else f"{words[:_MOST_LETTERS].rstrip()} …"
    return f"the playbook does not know what '{said}' means; {'; or '.join((understood(variants), *more))}"


def understood(variants: Sequence[Variant]) -> str:
    """Return what a person can say, for the answer to words that do not map."""
    names = ", ".join(v.name for v in variants)
    params = sorted({p.name for v in variants for p in parse(v.source).params})
    settings = " / ".join(f"{p} = ..." for p in params)
    return f"say one of {names}; or set {settings}; or '512 threads', 'larger tile', 'fewer registers'"


def _named(words: str, variants: Sequence[Variant]) -> Variant | None:
    menu = {v.name: v for v in variants}
    for name, variant in sorted(menu.items(), key=lambda item: -len(item[0])):
        if re.search(rf"(?<!more )(?<!fewer )(?<!less )\b{name.lower()}\b", words):
            return variant
    for pattern, names in _WORDS:
        if re.search(pattern, words):
            return next((menu[n] for n in names if n in menu), None)
    return None


def _starts(named: Variant | None, variants: Sequence[Variant], base: str) -> list[Variant]:
    """Return the kernels whose parameters could be meant, the likeliest first."""
    if named is not None:
        return [named]
    current = []
    if base:
        try:
            kernel = parse(base)
        except KernelFileError:
            kernel = None
        if kernel is not None:
            same = next((v.name for v in variants if v.idea == kernel.idea), "current kernel")
            current = [Variant(same, kernel.idea, base)]
    return [*current, *reversed(variants)]


def _values(text: str, kernel: KernelFile) -> dict[str, int]:
    """Return the parameter values that the words ask for, in this kernel."""
    defaults = kernel.defaults()
    values = {
        name: int(match[1])
        for name in defaults
        if (match := re.search(rf"\b{name}\b\s*(?:=|:|to|of)?\s*(\d{{1,9}})\b", text, re.IGNORECASE))
    }
    if match := re.search(r"\b(\d{1,9})\s+threads\b", text):
        values |= _threads(int(match[1]), defaults)
    if match := re.search(r"\b(\d{1,9})\s+(?:items|vectors|elements)\b", text):
        values |= {name: int(match[1]) for name in defaults if name.startswith("ITEMS")}
    for pattern, names, direction in _SIZES:
        if re.search(pattern, text.lower()) and not values:
            values = _stepped(kernel, names, direction)
    return values


def _threads(threads: int, defaults: Mapping[str, Number]) -> dict[str, int]:
    if blocks := [name for name in defaults if re.fullmatch(r"BLOCK\d*", name)]:
        return dict.fromkeys(blocks, threads)
    if "BX" in defaults and threads % int(defaults["BX"]) == 0:
        return {"BY": threads // int(defaults["BX"])}
    return {}


def _stepped(kernel: KernelFile, names: Sequence[str], direction: int) -> dict[str, int]:
    """Return the neighbouring value of the first of these parameters that has one; BM and BN move together."""
    found: dict[str, int] = {}
    for parameter in kernel.params:
        stem = parameter.name.rstrip("0123456789")
        family = {"BM": "B", "BN": "B", "TM": "T", "TN": "T"}.get(stem, stem)
        families = {{"BM": "B", "BN": "B", "TM": "T", "TN": "T"}.get(n.rstrip("0123456789"), n) for n in found}
        if stem not in names or (found and family not in families):
            continue
        choices = sorted({int(v) for v in parameter.values} if parameter.tunable else _STEPS)
        beyond = [v for v in choices if (v - parameter.default) * direction > 0]
        if beyond:
            found[parameter.name] = min(beyond) if direction > 0 else max(beyond)
    return found


def _changed(start: Variant, values: Mapping[str, int]) -> Variant:
    source = start.source
    for name, value in values.items():
        source = parse(source).with_param(name, value)
    shown = ", ".join(f"{name} = {value}" for name, value in values.items())
    idea = f"{start.idea.split(' (')[0]} ({shown})"
    return Variant(f"{start.name}, {shown}", idea, parse(source).with_idea(idea))
