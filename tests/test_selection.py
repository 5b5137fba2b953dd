"""The selection of the tests of a run: the quick ones, or the one that is named."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import TESTS, files_naming
from tests.part import LIMIT, part

GRID = """
import pytest

@pytest.mark.few({parts})
@pytest.mark.parametrize("letter", "abcd")
def test_letters_are_letters(letter):
    pass

@pytest.mark.slow
def test_a_long_story():
    pass
"""
BROKEN = "raise RuntimeError('this file was imported')"


def run(folder: Path, parts: str, *arguments: str, broken: bool = False) -> tuple[int, str]:
    """The exit code and the output of pytest in a folder with our conftest, a grid, and possibly a
    file that fails to import.
    """
    shutil.copy(TESTS / "conftest.py", folder)
    (folder / "test_grid.py").write_text(GRID.format(parts=parts))
    if broken:
        (folder / "test_other.py").write_text(BROKEN)
    (folder / "pytest.ini").write_text(
        "[pytest]\nmarkers =\n slow: x\n few: x\naddopts = -v -n 2 -m 'not slow'\n"
    )
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *arguments]
    env = os.environ | {"PYTHONPATH": str(TESTS.parent)}
    done = subprocess.run(
        command, cwd=folder, env=env, capture_output=True, text=True, timeout=100, check=False
    )
    return done.returncode, done.stdout + done.stderr


def test_a_plain_run_has_the_chosen_cases_of_a_grid(tmp_path: Path) -> None:
    code, said = run(tmp_path, "'[b]', '[d]'", "-n0")
    assert code == 0, said
    assert "2 passed, 3 deselected" in said
    assert "[b] PASSED" in said
    assert "[d] PASSED" in said


def test_a_choice_that_matches_no_case_is_an_error(tmp_path: Path) -> None:
    code, said = run(tmp_path, "'[b]', '[e]'", "-n0")
    assert code == pytest.ExitCode.USAGE_ERROR
    assert "test_letters_are_letters[[e]" in said


def test_one_test_by_name_runs_here_also_if_it_is_slow_and_no_other_file_is_imported(
    tmp_path: Path,
) -> None:
    code, said = run(tmp_path, "'[b]'", "-k", "long_story", broken=True)
    assert code == 0, said
    assert "1 passed" in said
    assert "workers" not in said


def test_a_word_that_is_in_no_test_s_name_leaves_every_file_in() -> None:
    assert (
        files_naming("journeys")
        == files_naming("one and not other")
        == files_naming("")
        == frozenset()
    )
    assert files_naming("_".join(("LeNet", "learns", "the"))) == {TESTS / "nets" / "test_solver.py"}


def test_each_slow_test_is_in_one_part_with_all_cases_of_its_grid(tmp_path: Path) -> None:
    grid, story = "test_letters_are_letters[a]", "test_a_long_story"
    said = [run(tmp_path, "'[b]'", "-n0", "-m", "slow", f"--part={n}/2")[1] for n in range(2)]
    for name, others in ((grid, "[c] PASSED"), (story, "")):
        (found,) = [text for text in said if f"{name} PASSED" in text]
        assert others in found


def test_a_machine_with_its_usual_speed_runs_all_slow_tests_and_a_slow_one_a_part() -> None:
    assert part(400, "abc") == (0, 1)
    assert part(1178, "3") == (0, 3)
    assert part(1178, "5") == (2, 3)
    assert part(3 * LIMIT, "")[1] == 35
