"""Find where a kernel stores its results so that they lie in memory as a view of them is to lie."""

from __future__ import annotations

from dataclasses import replace

from cutegen_core.propose.playbook.values import ZERO, DotProductAttention, Load, Move, Reshape, Value, reshaped


def arranged(value: Value, store: Load) -> tuple[DotProductAttention, Load] | None:
    """Return the attention that `value` is a view of, and where its results go so that `store` has `value`.

    None: it is a view of something else, or one that repeats or drops elements or puts dimensions together that do not
    lie together in `store`.
    """
    match value:
        case DotProductAttention():
            return value, store
        case Move() if _moves_all(value):
            strides = tuple(ZERO if s is None else store.strides[s] for s in value.sources)
            return arranged(value.operand, replace(store, dims=value.operand.dims, strides=strides))
        case Reshape():
            apart = reshaped(store, value.operand.dims)
            return arranged(value.operand, apart) if isinstance(apart, Load) else None
    return None


def _moves_all(value: Move) -> bool:
    """Return whether every dimension longer than 1 is another one's."""
    used = [s for s in value.sources if s is not None]
    lost = [d for d, s in zip(value.operand.dims, value.sources, strict=True) if s is None]
    added = [d for k, d in enumerate(value.dims) if k not in used]
    return len(used) == len(set(used)) and all(d.single for d in (*lost, *added))
