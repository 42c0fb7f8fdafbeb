"""What is printed of a measured run: every room once, all of them at the end."""

from tests.coverage_by_room import table


def file(lines, covered, branches, taken):
    return {
        "summary": {
            "num_statements": lines, "covered_lines": covered, "num_branches": branches, "covered_branches": taken,
        }
    }  # fmt: skip


def test_rooms_are_added_up_and_all_of_them_at_the_end():
    files = {
        "cutegen_core/cli.py": file(4, 4, 0, 0),
        "cutegen_core/judge/reference.py": file(10, 9, 6, 3),
        "cutegen_core/judge/gpu/judging.py": file(10, 6, 2, 0),
        "pages/components/session/rail.py": file(6, 3, 4, 1),
        "pages/home.py": file(2, 2, 0, 0),
    }
    assert [line.split() for line in table({"files": files}).splitlines()] == [
        ["room", "lines", "run", "branches", "taken"],
        ["cutegen_core", "4", "100.0", "%", "0", "-"],
        ["cutegen_core/judge", "20", "75.0", "%", "8", "37.5", "%"],
        ["pages", "8", "62.5", "%", "4", "25.0", "%"],
        ["all", "32", "75.0", "%", "12", "33.3", "%"],
    ]
