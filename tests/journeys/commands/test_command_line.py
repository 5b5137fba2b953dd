"""The command line collects the commands of the runtime, of the built-in program, and of a user's
program."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from roles.commands import COMMANDS as TRAINING
from runtime.cli.main import COMMANDS, main
from tests.helpers.support import ROOT

COUNTER = """
COMMANDS = {"count": "counting.cli:count", "convert": "counting.cli:convert", "up": "counting.cli:count"}
ROLES = {}

def plan(config, options):
    raise NotImplementedError
"""
CLI = '''
def count(word: str, *, times: int = 1) -> int:
    """Count a word.

    Longer than that.
    """
    print(word * times)
    return times

def convert() -> int:
    """Convert nothing."""
    return 5
'''


@pytest.fixture
def counting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a program with its own commands, named by cluster.toml."""
    for name in ("counting", "counting.cli"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.chdir(tmp_path)
    (tmp_path / "counting").mkdir()
    (tmp_path / "counting" / "__init__.py").write_text(COUNTER)
    (tmp_path / "counting" / "cli.py").write_text(CLI)
    (tmp_path / "cluster.toml").write_text('program = "counting"\n')
    return tmp_path


def commands(listing: str) -> list[str]:
    """The names in the table of commands."""
    return [
        line.split()[1]
        for line in listing.splitlines()
        if line.startswith("│ ") and line[2].isalpha()
    ]


@pytest.mark.parametrize("arguments", [[], ["--help"], ["-h"]])
def test_the_help_lists_every_command_with_its_first_sentence(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 0
    listing = capsys.readouterr().out
    assert commands(listing) == sorted([*COMMANDS, *TRAINING])
    assert "│ time         Time every layer of the net, forward and backward, and the " in listing
    assert "│ convert      Convert data sets, weights and snapshots to other formats. " in listing


def test_a_program_brings_its_own_commands(
    counting: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["count", "one", "--times", "3"]) == 3
    assert capsys.readouterr().out == "oneoneone\n"
    assert main([]) == 0
    listing = capsys.readouterr().out
    assert commands(listing) == sorted([*COMMANDS, *TRAINING, "count"])
    assert "│ count        Count a word. " in listing


def test_its_commands_override_the_built_in_programs_but_not_the_runtimes(
    counting: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["convert"]) == 5
    assert main(["up", "nowhere.toml"]) == 2
    assert capsys.readouterr().err == "nowhere.toml: no such file\n"
    assert main([]) == 0
    assert (
        "│ up           Start the roles, train, and show the events of the run. "
    ) in capsys.readouterr().out


@pytest.mark.parametrize("file", [["other.toml"], ["--file=other.toml"]])
def test_the_program_is_taken_from_the_configuration_on_the_command_line(
    counting: Path, capsys: pytest.CaptureFixture[str], file: list[str]
) -> None:
    (counting / "cluster.toml").rename(counting / "other.toml")
    assert main(["count"]) == 2
    assert 'Unknown command "count"' in capsys.readouterr().err
    assert main(["count", *file]) in (1, 2)
    assert 'Unknown command "count"' not in capsys.readouterr().err


def test_a_program_that_cannot_be_imported_is_reported_unless_another_has_the_command(
    counting: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (counting / "cluster.toml").write_text('program = "countin"\n')
    told = "program: no module named 'countin' on Python's path or next to the file\n"
    assert main(["count", "one"]) == 2
    assert capsys.readouterr().err == told
    assert main(["convert", "no.caffemodel", "a.safetensors"]) == 2
    assert capsys.readouterr().err.startswith("no.caffemodel: no such file")
    assert main(["--help"]) == 0


def test_a_command_that_cannot_be_imported_is_reported_with_its_place(
    counting: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (counting / "counting" / "cli.py").write_text("import missing_module\n")
    assert main(["count", "one"]) == 2
    told = "ModuleNotFoundError: No module named 'missing_module'"
    assert capsys.readouterr().err == (
        f"command 'count' (counting.cli:count) cannot be imported: {told}\n"
    )


def test_a_misspelt_command_is_reported_with_the_nearest(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["tiem"]) == 2
    assert 'Did you mean "time"?' in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "command"),
    [
        (["compare"], "python -m runtime compare"),
        (["up", "--st", "train.batch=3"], "python -m runtime up"),
        (["upp"], "python -m runtime"),
    ],
)
def test_a_mistake_in_the_arguments_is_followed_by_the_command_that_describes_them(
    words: list[str], command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words) == 2
    assert capsys.readouterr().err.endswith(f"\nsee `{command} --help`\n")


def test_up_imports_neither_other_commands_nor_modules_needed_after_the_nursery() -> None:
    code = (
        "import sys; from runtime.cluster.launchers import Nursery; from runtime.cli.main "
        "import main\n"
        "def start(): print(*sorted(sys.modules)); raise SystemExit(0)\n"
        "Nursery.start = start; main(['up', 'cluster.toml'])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    imported = done.stdout.split()
    assert "runtime.cli.up" in imported
    others = [
        "runtime.cli.check",
        "runtime.cli.plan",
        "runtime.runs.run",
        "runtime.recovery.up_runs",
    ]
    assert [name for name in others if name in imported] == []


def test_the_nursery_of_up_has_the_program_before_anything_is_planned() -> None:
    code = (
        "import sys; from runtime.cluster.launchers import Nursery; from runtime.cli.main "
        "import main\n"
        "def prepare(self, *told): print(*told, *sorted(sys.modules)); raise SystemExit(0)\n"
        "Nursery.prepare = prepare; main(['up', 'cluster.toml'])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    program, folder, *imported = done.stdout.split()
    assert (program, Path(folder)) == ("roles", ROOT)
    assert "roles" in imported
    assert not any(name.startswith("roles.presets.omnivore") for name in imported)


@pytest.mark.parametrize(("command", "begun"), [("up", "expect"), ("join", "begin")])
def test_the_nursery_is_started_before_the_modules_that_read_the_command_line_are_imported(
    command: str, begun: str
) -> None:
    code = (
        f"import sys; sys.argv[1:] = ['{command}']; import runtime.__main__ as main\n"
        "from runtime.cluster import nursery_start\n"
        f"def begin(): print(*sorted(sys.modules)); raise SystemExit(0)\n"
        f"nursery_start.{begun} = begin; main.command()"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    imported = done.stdout.split()
    assert "runtime.cluster.nursery_start" in imported
    assert [
        name
        for name in ("asyncio", "cyclopts", "numpy", "zmq", "runtime.cli.main")
        if name in imported
    ] == []


def test_a_nursery_that_an_agent_begins_in_vain_is_ended() -> None:
    code = (
        "import sys; sys.argv[1:] = ['join', '--nonsense']; import runtime.__main__ as main\n"
        "from runtime.cluster import nursery_start; begin, kept = nursery_start.begin, []\n"
        "def kept_too(): begin(); kept.extend(nursery_start._begun)\n"
        "nursery_start.begin = kept_too; "
        "print(main.command(), [born.process.returncode for born in kept])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout == "2 [-9]\n"


def test_ps_of_a_missing_folder_reports_that(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["ps", str(tmp_path)]) == 0
    assert capsys.readouterr().out == f"no live run in {tmp_path}\n"
    assert main(["ps", str(tmp_path / "runz")]) == 2
    assert capsys.readouterr().err == (
        f"ps {tmp_path}/runz: found no folder of that name, expected the folder of run "
        "directories\n"
    )
