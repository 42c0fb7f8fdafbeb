"""Numbers in words."""

from __future__ import annotations

import pytest

from cutegen_core.records.wording import counted, listed, percent, times


@pytest.mark.parametrize(
    ("fraction", "words"),
    [(0.006, "0.6 %"), (0.0123, "1.2 %"), (0.1, "10 %"), (0.995, "100 %"), (1.0, "100 %"), (0.0, "0 %")],
)
def test_a_share_is_never_a_power_of_ten(fraction: float, words: str) -> None:
    assert percent(fraction) == words


def test_how_many_times_too_much_says_no_more_than_it_means() -> None:
    assert (times(3.14159), times(812.0), times(4.3e28)) == ("3.14x", "812x", "over a million times")


def test_names_with_commas_are_separated_by_semicolons() -> None:
    assert listed(["one", "ragged"]) == "one, ragged"
    assert listed(name for name in ("one", "ragged, huge values")) == "one; ragged, huge values"
    assert listed([]) == ""


def test_a_count_has_the_plural_of_its_thing():
    assert [counted(1, "launch"), counted(2, "launch"), counted(2_000, "step")] == [
        "1 launch", "2 launches", "2,000 steps",
    ]  # fmt: skip
