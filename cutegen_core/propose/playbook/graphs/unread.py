"""Find what a call says that its rule did not look at: a rule that ignores an operand may write something else."""

from __future__ import annotations

from collections.abc import Mapping

from cutegen_core.propose.playbook.call import OperationCall, not_in_playbook
from cutegen_core.records import operations as ops
from cutegen_core.records.graph import Operand, Ref

_IN_RESULT = ("dtype", "layout", "device", "pin_memory", "memory_format", "output_size", "out_int32")
"""Keywords of which the result's shape and dtype tell, or that change no number."""
_SIZES_FIRST = (
    "expand", "expand_as", "broadcast_to", "new_empty", "new_full", "new_ones", "new_zeros", "one_hot", "view",
    "reshape", "type_as", "upsample_nearest1d", "upsample_nearest2d", "upsample_nearest3d", "upsample_linear1d",
    "upsample_bilinear2d", "upsample_bicubic2d", "upsample_trilinear3d", "_upsample_nearest_exact1d",
    "_upsample_nearest_exact2d", "_upsample_nearest_exact3d",
)  # fmt: skip
_WITHOUT_EFFECT: Mapping[str, tuple[int, ...]] = {
    **dict.fromkeys(_SIZES_FIRST, (1,)),
    "to": (1, 2, 3, 4),  # a dtype, a device, another tensor: what it comes to is the result's dtype
    "narrow": (3,), "linspace": (2,), "eye": (0, 1), "flatten": (1, 2), "unflatten": (2,),
    "softmax": (2,), "log_softmax": (2,),
    "transpose": (1, 2),  # of less than two dimensions
    "dropout": (1,), "alpha_dropout": (1,), "feature_dropout": (1,), "feature_alpha_dropout": (1,),
    "avg_pool1d": (5,), "avg_pool2d": (5,), "avg_pool3d": (5,),  # padding that is not there counts neither way
    "cdist": (3,),  # how a distance is computed
    "batch_norm": (3, 4, 6, 8), "instance_norm": (3, 4, 6, 8),  # what training neither reads nor returns
}  # fmt: skip
"""Operations -> positions of operands that a rule need not read, since the result is the same without."""


def refuse_unread(call: OperationCall) -> None:
    """Raise NotInPlaybook if the rule read too little of its call to have written all of it."""
    without = (*_WITHOUT_EFFECT.get(ops.name(call.node), ()), *_IN_RESULT)
    given: list[tuple[int | str, Operand]] = [*enumerate(call.node.args), *call.node.kwargs.items()]
    for at, operand in given:
        if operand is not None and at not in call.read and at not in without:
            named = at if isinstance(at, str) else f"operand {at}"
            said = f"the tensor '{operand.node}'" if isinstance(operand, Ref) else repr(operand)
            raise not_in_playbook(f"'{call.node.op}' with {named} = {said}")
