"""References drawn at random: the playbook refuses one by name, or all its kernels are right."""

from pathlib import Path

import pytest

from cutegen_core.propose.playbook import NotInPlaybook
from tests.propose.playbook.drawn import draw
from tests.propose.playbook.right import assert_right, variants_of
from tests.shared_tools import SharedTools

FEW, MANY = 4, 120


@pytest.mark.parametrize(
    "seed", [*range(FEW), *(pytest.param(k, marks=pytest.mark.thorough) for k in range(FEW, MANY))]
)
def test_a_reference_drawn_at_random_is_refused_by_name_or_right(
    seed: int, shared: SharedTools, tmp_path: Path
) -> None:
    case = draw(seed)
    try:
        variants = variants_of(case, shared, tmp_path)
    except NotInPlaybook as refused:
        assert "is not in the playbook" in str(refused)
        return
    assert_right(case, variants if seed >= FEW else variants[-1:], case.workloads, shared, tmp_path)
