"""Go past checks of values, as `assert x.min() >= 0`, where tensors have no values.

A check is a decision on a tensor of which one answer raises an error: at once, by a `raise` or `assert` of the file or
of `torch.distributions`. It is taken as passed: inputs at which a reference raises cannot be judged anyway. Where both
answers go on, it is a branch, which nobody can follow without values.
"""

from __future__ import annotations

import dis
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from pathlib import Path
from types import TracebackType
from typing import TypeVar

import torch
import torch.distributions
from torch._subclasses.fake_tensor import DataDependentOutputException, FakeTensor

from cutegen_core.judge.reference_process.loading.live import code_name
from cutegen_core.judge.reference_process.modes.each_call import EachCall
from cutegen_core.records.errors import ProblemError

_MOST = 16
"""Checks of one forward that are gone past: each takes two runs of it on fake tensors."""
_DISTRIBUTIONS = str(Path(torch.distributions.__file__).parent)

T = TypeVar("T")


def past_checks(forward: Callable[[], T], origin: str) -> T:
    """Return what a run of a file's forward on fake tensors returns; past its checks, where it has values to check.

    Raises:
        Exception: what the run raises, where its decisions are more than checks.
    """
    try:
        return forward()
    except Exception as error:
        answers = _answers(forward, origin) if isinstance(_cause(error), DataDependentOutputException) else ()
        if not answers:
            raise
    with _WithAnswers(answers):
        return forward()


def _answers(forward: Callable[[], object], origin: str) -> Sequence[bool]:
    """Return the answers at which no check raises, in the order in which a forward asks; none if it is not checks alone
    that keep it from its end."""
    answers: list[bool] = []
    end = _end_with(answers, forward, origin)
    while end is _End.ASKS and len(answers) < _MOST:
        ends = {answer: _end_with([*answers, answer], forward, origin) for answer in (True, False)}
        going_on = [answer for answer, found in ends.items() if found is not _End.RAISES]
        if len(going_on) != 1:
            break
        answers += going_on
        end = ends[going_on[0]]
    return () if end is _End.ASKS else answers


class _End(Enum):
    """How a forward ends that has some answers."""

    ASKS = "it asks for one more"
    RAISES = "the file raises an error before that"
    OTHER = "it returns, or fails otherwise, as the run that counts does"


def _end_with(answers: Sequence[bool], forward: Callable[[], object], origin: str) -> _End:
    try:
        with _WithAnswers(answers):
            forward()
    except _AsksError:
        return _End.ASKS
    except Exception as error:  # noqa: BLE001 - whatever a file raises
        return _End.RAISES if _is_raised_by(_cause(error), origin) else _End.OTHER
    return _End.OTHER


def _cause(error: BaseException) -> BaseException:
    return error.__cause__ if isinstance(error, ProblemError) and error.__cause__ else error


def _is_raised_by(error: BaseException, origin: str) -> bool:
    """Return whether a `raise` or `assert` of the file, or of a distribution, raised an error."""
    last = error.__traceback__
    while last and last.tb_next:
        last = last.tb_next
    return last is not None and _raises_there(last, origin)


def _raises_there(last: TracebackType, origin: str) -> bool:
    code = last.tb_frame.f_code
    of_file = code.co_filename == code_name(origin) or code.co_filename.startswith(_DISTRIBUTIONS)
    return of_file and dis.opname[code.co_code[last.tb_lasti]] == "RAISE_VARARGS"


class _AsksError(BaseException):
    """A forward asks for one more answer; no `except Exception` of a file stops it."""


class _WithAnswers(EachCall):
    """Answers whether a tensor without values is true."""

    def __init__(self, answers: Sequence[bool]) -> None:
        super().__init__()
        self._left = list(answers)

    def call(self, func: Callable[..., object], args: tuple[object, ...], kwargs: Mapping[str, object]) -> object:
        if func is not torch.Tensor.__bool__ or not (isinstance(args[0], FakeTensor) and args[0].constant is None):
            return func(*args, **kwargs)
        if not self._left:
            raise _AsksError
        return self._left.pop(0)
