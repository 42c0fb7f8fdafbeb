"""A result file says which source it measured, and how busy the machine was."""

import subprocess

from benchmarks.conditions import conditions, source_state


def git(folder, *arguments):
    who = ("-c", "user.name=someone", "-c", "user.email=someone@example.org")
    return subprocess.run(["git", "-C", folder, *who, *arguments], check=True, capture_output=True, text=True).stdout


def test_the_commit_and_whether_files_differ_from_it(tmp_path):
    assert source_state(tmp_path) is None
    git(tmp_path, "init")
    (tmp_path / "a.py").write_text("a = 1\n")
    git(tmp_path, "add", "a.py")
    git(tmp_path, "commit", "-m", "first")
    commit = git(tmp_path, "rev-parse", "HEAD").strip()
    assert source_state(tmp_path) == {"commit": commit, "changed": False}
    results = tmp_path / "benchmarks" / "results"
    results.mkdir(parents=True)
    (results / "compile.json").write_text("{}")
    assert source_state(tmp_path) == {"commit": commit, "changed": False}
    (tmp_path / "a.py").write_text("a = 2\n")
    assert source_state(tmp_path) == {"commit": commit, "changed": True}


def test_every_result_says_so():
    found = conditions()
    assert len(found["load_before"]) == 3
    assert set(found["source"] or {"commit", "changed"}) == {"commit", "changed"}
