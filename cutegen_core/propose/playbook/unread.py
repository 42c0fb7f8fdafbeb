"""Find what a call says that its rule did not look at: a rule that ignores an operand may write something else."""

from __future__ import annotations

from collections.abc import Mapping

from cutegen_core.propose.playbook.call import OperationCall, not_in_playbook
from cutegen_core.records import operations as ops

_IN_RESULT = frozenset({"dtype", "layout", "device", "pin_memory", "memory_format", "output_size"})
"""Keywords of which the result's shape and dtype tell, or that change no number."""
_SIZES_FIRST = (
    "expand", "expand_as", "broadcast_to", "new_empty", "new_full", "new_ones", "new_zeros", "one_hot", "view",
    "reshape", "to", "upsample_nearest1d", "upsample_nearest2d", "upsample_nearest3d", "upsample_linear1d",
    "upsample_bilinear2d", "upsample_bicubic2d", "upsample_trilinear3d", "_upsample_nearest_exact1d",
    "_upsample_nearest_exact2d", "_upsample_nearest_exact3d",
)  # fmt: skip
_WITHOUT_EFFECT: Mapping[str, tuple[int, ...]] = {
    **dict.fromkeys(_SIZES_FIRST, (1,)),
    **dict.fromkeys(("dropout", "alpha_dropout", "feature_dropout", "feature_alpha_dropout"), (1,)),
    **dict.fromkeys(("narrow",), (3,)), **dict.fromkeys(("unflatten", "softmax", "log_softmax"), (2,)),
    # Padding that is not there counts neither way; how a distance is computed; what training neither reads nor returns.
    **dict.fromkeys(("avg_pool1d", "avg_pool2d", "avg_pool3d"), (5,)), "cdist": (3,),
    **dict.fromkeys(("batch_norm", "instance_norm"), (3, 4, 6, 8)),
    "transpose": (1, 2),  # of less than two dimensions
}  # fmt: skip
"""Operations -> positions of operands that a rule need not read: the result's shape and dtype say the same."""


def refuse_unread(call: OperationCall) -> None:
    """Raise NotInPlaybook if the rule read too little of its call to have written all of it."""
    without = _WITHOUT_EFFECT.get(ops.name(call.node), ())
    given = {**dict(enumerate(call.node.args)), **call.node.kwargs}
    for at, operand in given.items():
        if operand is not None and at not in call.read and at not in without and at not in _IN_RESULT:
            raise not_in_playbook(
                f"'{call.node.op}' with {at if isinstance(at, str) else f'operand {at}'} = {operand!r}"
            )
