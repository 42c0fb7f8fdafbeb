"""Further workloads from an answer: read as data, each error with its line."""

import pytest

from cutegen_core.problems import library, suite
from cutegen_core.records.errors import ProblemError, UsageError
from cutegen_core.records.problem import Values, WorkloadRole

PROBLEM = library.load("silu_and_mul")


def read(text: str):
    made = suite.with_suite(PROBLEM, text)
    names = suite.added_workloads(made, PROBLEM)
    return [w for w in made.workloads if w.name in names]


@pytest.mark.parametrize(
    "text",
    [
        'WORKLOADS = {"a": {"role": "emulator", "tokens": 3, "dim": 5, "values": "wide"}}',
        'Words.\n```python\nWORKLOADS: D = {"a": {"role": "emulator", "tokens": 3, "dim": 5, "values": "wide"}}\n```',
        '```json\n{"a": {"role": "emulator", "tokens": 3, "dim": 5, "values": "wide"}}\n```\nThat is all {really}.',
        '```\n{"old": 1}\n```\nNo:\n```\n{"a": {"role": "emulator", "tokens": 3, "dim": 5, "values": "wide"},}\n```',
    ],
)
def test_a_literal_is_found_in_any_answer(text: str) -> None:
    (found,) = read(text)
    assert (found.name, found.role, found.values) == ("a", WorkloadRole.EMULATOR, Values.WIDE)
    assert found.sizes == {"tokens": 3, "dim": 5}


def test_the_suite_stands_behind_the_problems_own_tests_and_before_what_is_timed() -> None:
    made = suite.with_suite(PROBLEM, 'WORKLOADS = {"a": {"role": "correctness", "tokens": 3, "dim": 5}}')
    timed = PROBLEM.with_role(WorkloadRole.BENCHMARK)
    assert made.workloads[-len(timed) :] == timed
    assert made.workloads[-len(timed) - 1].name == "a"
    assert made.key != PROBLEM.key
    assert made.existing == PROBLEM.existing


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("no data", "answer: it holds no WORKLOADS"),
        ('\n\nWORKLOADS = {"a": {"role": "emulator",\n "tokens": }}', "answer:4: not a Python literal: "),
        ('\n{"a": {"role": "emulator", "rows": 3}}', "answer:2: workload 'a' sets 'rows', which is no size"),
        ('{"a": {"role": "emulator", "tokens": -3}}', "answer:1: workload 'a' sets tokens = -3: a size is at least 1"),
        (
            '{"a": {"role": "emulator", "tokens": "3"}}',
            "answer:1: workload 'a' sets tokens = '3', but the file has 4096",
        ),
        ('{"a": {"role": "emulator", "values": "nice"}}', "answer:1: workload 'a': 'nice' is not a valid Values"),
        ('{"a": {"role": "emulator"},\n "a": {"role": "emulator"}}', "answer:2: two workloads are called 'a'"),
        ('{"a": {"role": "emulator"}, "b": {"role": "benchmark"}}', "the timed workloads stay the problem's own"),
        (
            '{"a": {"role": "emulator", "tolerance": {"out": {"atol": 1, "rtol": 1}}}}',
            "workload 'a': the tolerance stays the problem's own",
        ),
        ('{"tile": {"role": "emulator"}}', "the problem has a workload 'tile': give yours another name"),
        ("{" + ",".join(f'"w{n}": {{"role": "emulator"}}' for n in range(25)) + "}", "25 workloads, and at most 24"),
        ('{"a": {"role": "emulator", "tokens": __import__("os").getpid()}}', "must be a plain literal"),
        ("{" * 3000, "answer: it holds no WORKLOADS"),
        ("{" * 3000 + "}" * 3000, "answer"),
        ("x" * (1 << 17), "longer than 64 KiB"),
    ],
)
def test_what_is_no_suite_says_what_and_where(text: str, said: str) -> None:
    with pytest.raises(ProblemError) as refused:
        read(text)
    assert said in str(refused.value)


def test_a_kernel_file_is_a_problem_where_one_beside_it_names_it(tmp_path) -> None:
    kernel = tmp_path / "mine.cu"
    kernel.write_text(PROBLEM.existing)
    with pytest.raises(UsageError, match=r"mine\.py next to it does not exist"):
        library.load(str(kernel))
    (tmp_path / "mine.py").write_text(PROBLEM.source.replace('EXISTING = "silu_and_mul.cu"\n', ""))
    with pytest.raises(UsageError, match=r"mine\.py next to it has no EXISTING"):
        library.load(str(kernel))
    (tmp_path / "other.cu").write_text(PROBLEM.existing)
    (tmp_path / "mine.py").write_text(PROBLEM.source.replace("silu_and_mul.cu", "other.cu"))
    with pytest.raises(UsageError, match=r"mine\.py next to it names other\.cu"):
        library.load(str(kernel))
    (tmp_path / "mine.py").write_text(PROBLEM.source.replace("silu_and_mul.cu", "mine.cu"))
    assert library.load(str(kernel)).existing == PROBLEM.existing
