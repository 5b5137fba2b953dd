"""A second run of failed tests, alone: the tests that it accepts, and the runs that stay
rejected.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import TESTS

# A test that fails as long as its folder has no file of its name, which is once.
ONCE = """
import pathlib, pytest, re

def fails_once(name):
    mark = pathlib.Path(__file__).with_name("ran-" + name)
    if not mark.exists():
        mark.touch()
        raise ValueError("a first time of " + name)
"""
UNSTEADY = ONCE + "\ndef test_unsteady(): fails_once('it')\n\ndef test_steady(): pass\n"
FAILS = "def test_wrong(): assert 1 == 2\n"
INI = """[pytest]
addopts = -q -p no:cacheprovider -p no:asyncio -p no:hypothesispytest --strict-markers -n 0 -m 'not slow'
markers =
    slow: x
timeout = 60
"""
HEADING = "Unsteady tests, which failed and then passed alone"


def chance(folder: Path, *runs: str, **files: str) -> tuple[int, str]:
    """The exit code and the output of the module, for runs of pytest with these arguments in a
    folder with these test files.
    """
    for name, text in files.items():
        (folder / f"{name}.py").write_text(text, "utf-8")
    (folder / "pytest.ini").write_text(INI)
    commands = [
        (f"true && {shlex.quote(sys.executable)} -m pytest {arguments}")
        for arguments in runs or ("",)
    ]
    words = [sys.executable, "-m", "tests.second_chance", *commands]
    env = os.environ | {"PYTHONPATH": str(TESTS.parent)}
    done = subprocess.run(
        words,
        cwd=folder,
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=100,
        check=False,
    )
    return done.returncode, done.stdout


# names of cases; "a" and "b" do not fail
ODD = [
    ["a", "a b", "[a]", "it's", '"'],
    ["b", "é", "$HOME", "::", "b::"],
    ["a", "a/b", "\\", "`id`", "\n"],
]


def test_a_test_that_fails_once_is_accepted_and_listed_with_its_first_failure(
    tmp_path: Path,
) -> None:
    code, said = chance(tmp_path, test_a=UNSTEADY)
    assert code == 0, said
    _, _, listed = said.partition("\n1 passed in ")  # the end of the second run's output
    assert f"{HEADING}: 1 (5 are accepted at most).\nunsteady: test_a.py::test_unsteady\n" in listed
    assert "ValueError: a first time of it" in listed
    assert "test_steady" not in listed


def test_a_run_without_failures_prints_nothing_more(tmp_path: Path) -> None:
    code, said = chance(tmp_path, test_a="def test_fine(): pass\n")
    assert code == 0, said
    assert said.splitlines()[-1].startswith("1 passed in ")


def test_a_test_that_always_fails_is_rejected_and_an_unsteady_one_is_still_listed(
    tmp_path: Path,
) -> None:
    code, said = chance(tmp_path, test_a=UNSTEADY, test_b=FAILS)
    assert code == 1, said
    assert "Did not pass in the second run either:\n  test_b.py::test_wrong\n" in said
    assert f"{HEADING}: 1 " in said
    assert "unsteady: test_b" not in said


def test_a_test_that_is_skipped_the_second_time_has_not_passed(tmp_path: Path) -> None:
    skips = ONCE + "\ndef test_it():\n    fails_once('it')\n    pytest.skip('now')\n"
    code, said = chance(tmp_path, test_a=skips)
    assert code == 1, said
    assert "Did not pass in the second run either:\n  test_a.py::test_it\n" in said
    assert HEADING not in said


def test_at_most_five_unsteady_tests_are_accepted(tmp_path: Path) -> None:
    many = ONCE + "\n@pytest.mark.parametrize('n', range({}))\ndef test_it(n): fails_once(str(n))\n"
    (tmp_path / "five").mkdir()
    code, said = chance(tmp_path / "five", test_a=many.format(5))
    assert code == 0, said
    assert f"{HEADING}: 5 " in said
    code, said = chance(tmp_path, "test_a.py", test_a=many.format(6))
    assert code == 1, said
    assert said.splitlines()[-1] == "No second run: 6 tests failed, and 5 may be unsteady at most."


def test_the_unsteady_tests_of_all_commands_are_counted_together(tmp_path: Path) -> None:
    three = ONCE + (
        "\n@pytest.mark.parametrize('n', range(3))\ndef test_it(n): fails_once(__name__ + str(n))\n"
    )
    code, said = chance(tmp_path, "test_a.py", "test_b.py", test_a=three, test_b=three)
    assert code == 1, said
    assert "No second run: 3 tests failed, and 2 may be unsteady at most.\n" in said
    assert f"{HEADING}: 3 " in said


def test_a_command_after_one_that_is_rejected_does_not_run(tmp_path: Path) -> None:
    code, said = chance(
        tmp_path,
        "test_b.py",
        "test_c.py",
        test_b=FAILS,
        test_c=ONCE + "\ndef test_c(): fails_once('c')",
    )
    assert code == 1, said
    assert not (tmp_path / "ran-c").exists()


@pytest.mark.parametrize("words", ODD)
def test_the_second_run_has_exactly_the_failed_cases_slow_ones_included(
    tmp_path: Path, words: list[str]
) -> None:
    grid = f"\n@pytest.mark.slow\n@pytest.mark.parametrize('word', {words!r})\n"
    text = (
        "def test_of(word):\n    if word not in ('a', 'b'):\n        "
        f"fails_once(str({words!r}.index(word)))\n"
    )
    code, said = chance(tmp_path, "-m slow", test_a=ONCE + grid + text)
    assert code == 0, said
    once = [word for word in words if word not in ("a", "b")]
    assert f"\n{len(once)} passed in " in said
    assert said.count("\nunsteady: test_a.py::test_of[") == len(once)


def test_failures_of_set_up_and_tear_down_get_a_second_run_too(tmp_path: Path) -> None:
    up = "\n@pytest.fixture\ndef up(): fails_once('up')\n\ndef test_up(up): pass\n"
    down = (
        "\n@pytest.fixture\ndef down():\n    yield\n    fails_once('down')\n\ndef "
        "test_down(down): pass\n"
    )
    code, said = chance(tmp_path, test_a=ONCE + up + down)
    assert code == 0, said
    assert "unsteady: test_a.py::test_up\n" in said
    assert "unsteady: test_a.py::test_down\n" in said


def test_a_tear_down_that_fails_again_is_a_failure_although_the_test_passed(tmp_path: Path) -> None:
    fixture = (
        "import pytest\n\n@pytest.fixture\ndef down():\n    yield\n    raise "
        "ValueError\n\ndef test_down(down): pass\n"
    )
    code, said = chance(tmp_path, test_a=fixture)
    assert code == 1, said
    assert HEADING not in said


def test_unsteady_tests_of_worker_processes_run_again_without_workers(tmp_path: Path) -> None:
    text = ONCE + (
        "\ndef test_it(request):\n    fails_once('it')\n    assert not "
        "hasattr(request.config, 'workerinput')\n"
    )
    code, said = chance(tmp_path, "-n 2", test_a=text, test_b="def test_fine(): pass\n")
    assert code == 0, said
    assert "unsteady: test_a.py::test_it\n" in said


TIMES_OUT = UNSTEADY + (
    "\nimport time\n\n@pytest.mark.timeout(0.2{})\ndef test_slow(): time.sleep(50)\n"
)
KEEPS_TIME_OUT = TIMES_OUT.format("").replace(
    "def test_slow(): time.sleep(50)",
    (
        "def test_slow():\n    try:\n        time.sleep(50)\n    except BaseException:\n        "
        "pass\n    raise ValueError"
    ),
)
NEVER = {
    "a test that times out": ("", TIMES_OUT.format(""), "test_a.py::test_slow timed out"),
    "a time-out that a library keeps": ("", KEEPS_TIME_OUT, "test_a.py::test_slow timed out"),
    "a time-out that ends the process": (
        "",
        TIMES_OUT.format(", method='thread'"),
        "pytest did not get to its end",
    ),
    "a time-out in a worker": ("-n 1", TIMES_OUT.format(""), "test_a.py::test_slow timed out"),
    "a worker that crashes": (
        "-n 1",
        UNSTEADY + ("\nimport os\n\ndef test_it(): os._exit(1)\n"),
        "crashed",
    ),
    "a file with a syntax error": ("", "def test_it(:\n", "test_a.py could not be collected"),
    "a syntax error in a worker": ("-n 1", "def test_it(:\n", "test_a.py could not be collected"),
    "an interrupt": (
        "",
        ("def test_it(): raise KeyboardInterrupt\n"),
        "interrupted: KeyboardInterrupt",
    ),
    "an exit": (
        "",
        ("import pytest\ndef test_it(): pytest.exit('enough', returncode=1)\n"),
        "interrupted: .*enough",
    ),
    "no tests": ("", "", "pytest ended with exit code 5 and 0 failed tests"),
    "tests left out after a failure": (
        "-x",
        UNSTEADY,
        ("stopped before the last test: stopping after 1 failures"),
    ),
    "an unknown option": ("--not-an-option", UNSTEADY, "pytest did not get to its end"),
}


@pytest.mark.few("[a test", "[a time-out that a library keeps", "[a worker", "[a file", "[no tests")
@pytest.mark.parametrize("case", NEVER)
def test_such_a_run_is_never_accepted_and_gets_no_second_run(tmp_path: Path, case: str) -> None:
    arguments, text, reason = NEVER[case]
    code, said = chance(tmp_path, arguments, test_a=text)
    assert code != 0, said
    assert "once more" not in said
    assert HEADING not in said
    last = said.splitlines()[-1]
    assert last.startswith("No second run: "), said
    assert re.search(reason, last), said


@pytest.mark.few("[-n 0]")
@pytest.mark.parametrize("workers", ["-n 0", "-n 1"])
def test_an_internal_error_of_pytest_is_never_accepted(tmp_path: Path, workers: str) -> None:
    hook = "def pytest_runtest_logstart(nodeid):\n    assert 'test_steady' not in nodeid\n"
    code, said = chance(tmp_path, workers, test_a=UNSTEADY, conftest=hook)
    assert code != 0, said
    assert "No second run: internal error of pytest: " in said
