"""Faults that keep one of three machines out of a run: one line that names the machine, exit 3, and
no process left on other machines.

A program in place of ssh simulates the faults of a network. Where it lets the command pass, the
agent runs on this host.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path

import pytest

from tests.helpers.far_machines import folders, program
from tests.helpers.support import configure, environment, events, run_directory, runtime_command
from tests.journeys.clusters.test_sameness import digits

TALKING = """
from runtime import Actor, ActorSpec, Topology

class Waiting(Actor):
    pass

ROLES = {"waiting": Waiting}

def plan(config, options):
    return Topology(__name__, tuple(ActorSpec(name, "waiting") for name in "abc"), (("a", "b"), ("a", "c")), "a")
"""
CLUSTER = """
program = "talking"
[launcher]
kind = "ssh"
address = "{address}"
[[machine]]
name = "m0"
address = "192.0.2.1"
{well}
[[machine]]
name = "m1"
address = "192.0.2.2"
{ill}
[[machine]]
name = "m2"
address = "192.0.2.3"
{well}
[[process]]
name = "p0"
machine = "m0"
actors = ["a"]
[[process]]
name = "p1"
machine = "m1"
actors = ["b"]
[[process]]
name = "p2"
machine = "m2"
actors = ["c"]
"""
LET_THROUGH = 'for last; do :; done; exec sh -c "$last"'
SETTINGS = 'python = "{python}"\nenvironment = {{ PYTHONPATH = "{path}" }}\n'


def run(
    folder: Path, ssh: str, *settings: str, bad: str = sys.executable, address: str = "127.0.0.1"
) -> subprocess.CompletedProcess[str]:
    """Run `up` on three machines, of which m0 and m2 are healthy. On m1, `ssh` is the script for
    ssh and `bad` is the Python."""
    (folder / "talking.py").write_text(TALKING)
    path = f"{folder}:{environment()['PYTHONPATH']}"
    well, ill = (SETTINGS.format(python=python, path=path) for python in (sys.executable, bad))
    (folder / "cluster.toml").write_text(CLUSTER.format(address=address, well=well, ill=ill))
    return up(folder, ssh, *settings)


def up(folder: Path, ssh: str, *settings: str) -> subprocess.CompletedProcess[str]:
    """Run `up` on the files of the folder. Only for m1 is ssh replaced by this script."""
    program(
        folder / "bin" / "ssh",
        (
            f'(echo "$*"; env) >> {folder}/shown\ncase "$*" in *" m1 "*) ;; *) {LET_THROUGH};; '
            f"esac\n{ssh}"
        ),
    )
    (folder / "shown").touch()
    return subprocess.run(
        runtime_command("up", *(word for setting in settings for word in ("--set", setting))),
        cwd=folder,
        env={**environment(), "PATH": f"{folder / 'bin'}:{os.environ['PATH']}", "LC_ALL": "C"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def said(done: subprocess.CompletedProcess[str], folder: Path) -> str:
    """The one line of a run that could not be launched. Checks that no process of the run is
    left."""
    assert done.returncode == 3, (done.returncode, done.stdout, done.stderr)
    (line,) = done.stderr.splitlines()
    agents = subprocess.run(
        ["pgrep", "-f", f"PYTHONPATH={folder}"], capture_output=True, text=True, check=False
    )
    assert agents.stdout == ""
    assert folders() == []
    written = [
        path.read_text(errors="replace") for path in (folder / "runs").rglob("*") if path.is_file()
    ]
    assert not re.search(
        "[0-9a-f]{64}",
        "".join([done.stdout, done.stderr, (folder / "shown").read_text(), *written]),
    )
    return line


@pytest.mark.slow
@pytest.mark.parametrize(
    ("script", "expected"),
    [
        pytest.param(
            'echo "a banner" >&2; echo "root@m1: Permission denied (publickey)." >&2; exit 255',
            "machine 'm1': ssh m1: root@m1: Permission denied (publickey).",
            id="refuses",
        ),
        pytest.param(
            "exit 1", ("machine 'm1': ssh m1 exited with status 1 and printed nothing"), id="silent"
        ),
    ],
)
def test_the_last_line_of_ssh_is_reported(tmp_path: Path, script: str, expected: str) -> None:
    assert said(run(tmp_path, script), tmp_path).startswith(expected)


@pytest.mark.slow
def test_a_silent_ssh_is_reported_when_time_is_up(tmp_path: Path) -> None:
    line = said(run(tmp_path, "exec sleep 100", "launcher.start_seconds=10"), tmp_path)
    assert line == (
        "machine 'm1' was not ready within 10 s: ssh m1 does not answer (launcher.start_seconds)"
    )


@pytest.mark.slow
def test_a_missing_python_is_reported(tmp_path: Path) -> None:
    line = said(run(tmp_path, LET_THROUGH, bad="python9"), tmp_path)
    assert line == "machine 'm1': ssh m1: env: 'python9': No such file or directory"


@pytest.mark.slow
def test_a_package_that_the_machine_lacks_is_reported(tmp_path: Path) -> None:
    bare = program(tmp_path / "bin" / "bare", f'exec {sys.executable} -I -S "$@"')
    line = said(run(tmp_path, LET_THROUGH, bad=str(bare)), tmp_path)
    assert line == f"machine 'm1': ssh m1: {Path(sys.executable)}: No module named runtime"


@pytest.mark.slow
def test_another_version_on_the_machine_is_reported_with_both(tmp_path: Path) -> None:
    (tmp_path / "old.py").write_text(
        "import sys\nfrom runtime.cluster.machines import machine_facts\nfrom "
        "runtime.__main__ import command\n"
        "machine_facts.versions = lambda: {'convoy-runtime': '0.0.1'}\nsys.argv[1:3] = "
        "[]\nsys.exit(command())\n"
    )
    old = program(tmp_path / "bin" / "old", f'exec {sys.executable} {tmp_path}/old.py "$@"')
    line = said(run(tmp_path, LET_THROUGH, bad=str(old)), tmp_path)
    expected = (
        f"machine 'm1': it has convoy-runtime 0.0.1, this host {version('convoy-runtime')}: "
        "install the same version"
    )
    assert line.startswith(expected)


@pytest.mark.slow
def test_a_key_of_another_run_is_refused_and_reported(tmp_path: Path) -> None:
    wrong = " ".join(["ab" * 32] * 3) + " 6"
    script = f'for last; do :; done; echo "{wrong}" | sh -c "$last"'
    line = said(run(tmp_path, script), tmp_path)
    assert line.startswith(
        "machine 'm1': ssh m1: machine 'm1': the connection to `up` broke, or it refused this key"
    )


@pytest.mark.slow
def test_an_address_where_up_does_not_listen_is_reported(tmp_path: Path) -> None:
    script = 'for last; do :; done; exec sh -c "$(echo "$last" | sed s/127.0.0.1/127.0.0.2/)"'
    line = said(run(tmp_path, script), tmp_path)
    assert line.startswith("machine 'm1': ssh m1: `up` cannot be reached at 127.0.0.2:")
    assert "refused: no process listens there" in line


@pytest.mark.slow
def test_a_machine_without_a_route_to_up_is_reported(tmp_path: Path) -> None:
    if subprocess.run(["unshare", "-n", "true"], capture_output=True, check=False).returncode != 0:
        pytest.skip("no network without routes can be made here")
    script = 'for last; do :; done; exec unshare -n sh -c "$last"'
    line = said(run(tmp_path, script), tmp_path)
    assert line.startswith("machine 'm1': ssh m1: `up` cannot be reached at 127.0.0.1:")
    assert line.endswith(": Network is unreachable")


@pytest.mark.slow
def test_other_data_on_the_machine_are_reported_before_the_run_begins(tmp_path: Path) -> None:
    here = tmp_path / "here"  # the folder where `up` is typed; `up` looks at its own data too
    digits(here)
    settings = SETTINGS.format(python=sys.executable, path=f"{here}:{environment()['PYTHONPATH']}")
    machines = "".join(
        (
            f'[[machine]]\nname = "m{number}"\naddress = "auto"\nthreads = 1\ndata = '
            f'"{tmp_path}/{number}"\n{settings}'
        )
        for number in range(3)
    )
    for number in range(3):
        digits(tmp_path / str(number), change=number == 1)
    more = f'{machines}[launcher]\nkind = "ssh"\naddress = "127.0.0.1"\n'
    cluster = configure(here, "sync", workers=3, iterations=2, more=more)
    idx = '{ format = "idx", images = "images", labels = "labels" }'
    cluster.write_text(cluster.read_text().replace('{ format = "digits", split = "train" }', idx))
    line = said(up(here, LET_THROUGH), here)
    assert (
        line.startswith("machine 'm1' (host ")
        and ("has data of TRAIN 100 samples (1, 28, 28), checksum ") in line
    )
    assert line.endswith("give every machine the same data and files")
    assert events(run_directory(cluster), "began") == []


@contextmanager
def small_disk(folder: Path) -> Iterator[Path]:
    """A disk without room for a plan."""
    folder.mkdir()
    made = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=4k", "none", folder], capture_output=True, check=False
    )
    if made.returncode != 0:
        pytest.skip("no file system can be made here")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", folder], check=True, timeout=20)


@pytest.mark.slow
def test_a_full_disk_of_the_machine_is_reported(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk") as disk:
        script = f'for last; do :; done; TMPDIR={disk} exec sh -c "$last"'
        line = said(run(tmp_path, script), tmp_path)
    assert (
        line.startswith("machine 'm1': ")
        and str(disk) in line
        and line.endswith("No space left on device")
    )
