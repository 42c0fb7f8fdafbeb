"""Tests of the judge always ask the file's process: no answer of an earlier test or run stands for it."""

import pytest

from cutegen_core.judge import kept_answers

OPERATIONS = kept_answers.OPERATIONS


@pytest.fixture(autouse=True)
def asked_anew(monkeypatch):
    monkeypatch.setattr(kept_answers, "OPERATIONS", frozenset())
