"""A rule that leaves something of its call unread may have written something else."""

from __future__ import annotations

import pytest

from cutegen_core.propose.playbook import NotInPlaybook
from cutegen_core.propose.playbook.call import OperationCall
from cutegen_core.propose.playbook.graphs.unread import refuse_unread
from cutegen_core.records.graph import Node, Operand


def call(op: str, *args: Operand, **kwargs: Operand) -> OperationCall:
    return OperationCall(Node("y", op, args, kwargs, "float32", (4,)), {})


@pytest.mark.parametrize(
    ("made", "named"),
    [
        (call("aten.round", 1.5, decimals=2), "'aten.round' with decimals = 2"),
        (call("aten.scatter", 1.0, 2.0), "'aten.scatter' with operand 1 = 2.0"),
    ],
)
def test_what_nobody_read_is_refused(made: OperationCall, named: str) -> None:
    made.operand(0)
    with pytest.raises(NotInPlaybook, match=named):
        refuse_unread(made)


def test_what_was_read_or_changes_no_number_is_not_refused() -> None:
    made = call("aten.sum", 1.0, (0,), None, dtype="float32")
    assert (made.operand(0), made.operand(1)) == (1.0, (0,))
    refuse_unread(made)
    sized = call("aten.expand", 1.0, (4,))
    sized.operand(0)
    refuse_unread(sized)
