"""The meaning of cluster.toml with launcher.kind = "slurm", and the script that `up --sbatch`
writes; no Slurm is needed.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from runtime.cluster.launchers.slurm import _absent
from runtime.config.file import load
from runtime.config.recorded import dump
from runtime.config.slurm_environment import CORES, JOB, LISTS, asked, cores, told
from runtime.config.unused import unused
from runtime.errors import ConfigError
from tests.helpers.support import configure, environment, runtime_command

SLURM = "[launcher]\nkind = 'slurm'\n"


@pytest.fixture(autouse=True)
def no_job(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (JOB, CORES, *LISTS):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def job(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {JOB: "17", CORES: "4(x2),8", LISTS[0]: "n[1-2],m"}.items():
        monkeypatch.setenv(name, value)


def written(folder: Path, text: str) -> Path:
    (folder / "cluster.toml").write_text(text)
    return folder / "cluster.toml"


@pytest.mark.usefixtures("job")
def test_without_a_machine_the_nodes_of_the_job_are_the_machines_with_its_cores(
    tmp_path: Path,
) -> None:
    config = load(written(tmp_path, SLURM))
    shown = [
        (machine.name, machine.host, machine.address, machine.cores) for machine in config.machine
    ]
    assert shown == [("n1", "n1", "auto", 4), ("n2", "n2", "auto", 4), ("m", "m", "auto", 8)]
    assert load(written(tmp_path, dump(config))) == config
    assert (told(config), list(unused(config))) == ([], [])


@pytest.mark.usefixtures("job")
def test_a_named_machine_is_a_node_unless_it_has_an_address(tmp_path: Path) -> None:
    text = "[[machine]]\nname = 'n2'\n[[machine]]\nname = 'm'\ncores = 3\n"
    text += "[[machine]]\nname = 'mine'\naddress = '127.0.0.1'\n"
    config = load(written(tmp_path, SLURM + text))
    shown = [(machine.host, machine.address, machine.cores) for machine in config.machine]
    assert shown == [("n2", "auto", 4), ("m", "auto", 3), (None, "127.0.0.1", None)]
    assert asked(config) == (2, ("n2", "m"))


@pytest.mark.parametrize("machines", ["", "[[machine]]\nhosts = '$SLURM_NODELIST'\n"])
def test_outside_a_job_placeholder_nodes_are_used_with_a_warning(
    tmp_path: Path, machines: str
) -> None:
    config = load(written(tmp_path, f"{SLURM}nodes = 2\n{machines}"))
    assert [machine.name for machine in config.machine] == ["node1", "node2"]
    assert told(config) == [
        ("not in a job of Slurm: node[1-2] stands for the nodes of a job (launcher.nodes)")
    ]
    assert asked(config) == (2, ())


def test_a_number_of_nodes_without_effect_is_reported(tmp_path: Path) -> None:
    config = load(written(tmp_path, f"{SLURM}nodes = 2\n[[machine]]\nname = 'n1'\n"))
    assert [line.partition(": ")[2] for line in unused(config)] == [
        "launcher.nodes: has no effect without machines of a Slurm job, or if all of them are named"
    ]


def test_cores_are_read_as_slurm_writes_them() -> None:
    assert cores("4(x2),8") == [4, 4, 8]


@pytest.mark.usefixtures("job")
@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ("many", "SLURM_JOB_CPUS_PER_NODE is 'many', expected numbers such as '4(x2),8'"),
        ("4", "SLURM_JOB_CPUS_PER_NODE is '4', expected a number for each of n[1-2],m"),
    ],
)
def test_cores_that_cannot_be_read_are_an_error_of_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: str, expected: str
) -> None:
    monkeypatch.setenv(CORES, said)
    with pytest.raises(ConfigError) as raised:
        load(written(tmp_path, SLURM))
    assert str(raised.value).endswith(f"cluster.toml:2: launcher.kind: {expected}")


def test_a_node_that_the_job_does_not_have_is_named() -> None:
    assert _absent(("n1", "n7"), {JOB: "17", LISTS[0]: "n[1-2]"}) == (
        "machine 'n7' is not a node of job 17, which has n[1-2]"
    )
    assert _absent(("n1",), {JOB: "17", LISTS[0]: "n[1-2]"}) == ""


def up(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = runtime_command("up", "cluster.toml", *words)
    return subprocess.run(
        command, cwd=folder, env=environment(), capture_output=True, text=True, check=False
    )


def test_outside_a_job_up_prints_one_line_with_the_command_to_type(tmp_path: Path) -> None:
    configure(tmp_path, "sync", workers=2, more=f"{SLURM}nodes = 2\n")
    done = up(tmp_path)
    assert (done.returncode, done.stderr.count("\n")) == (3, 1)
    text = (
        "launcher.kind is 'slurm', but this is not a job (SLURM_JOB_ID is not set): type "
        "`salloc --nodes=2 --exclusive"
    )
    assert done.stderr.startswith(text)


def test_a_script_asks_for_the_nodes_and_is_not_written_over_another(tmp_path: Path) -> None:
    machines = "[[machine]]\nhosts = 'a[1-2]'\ncores = 4\n"
    configure(tmp_path, "sync", workers=2, more=SLURM + machines)
    shown = up(tmp_path, "--set", "train.seed=2", "--sbatch", "-")
    assert (shown.returncode, shown.stderr) == (0, "")
    lines = [
        line.removeprefix("#SBATCH ")
        for line in shown.stdout.splitlines()
        if line.startswith("#SBATCH")
    ]
    assert lines == [
        "--job-name=lenet",
        "--nodes=2",
        "--nodelist=a1,a2",
        "--cpus-per-task=4",
        "--ntasks-per-node=1",
        "--output=%x-%j.out",
        "--signal=B:TERM@60",
    ]
    assert shown.stdout.endswith(f"-u -m runtime up {tmp_path}/cluster.toml --set train.seed=2\n")
    assert subprocess.run(["sh", "-n"], input=shown.stdout, text=True, check=True).returncode == 0
    (tmp_path / "job.sh").write_text("edited")
    refused = up(tmp_path, "--sbatch", "job.sh")
    assert (refused.returncode, refused.stderr) == (
        2,
        ("job.sh: exists already: remove it, or name another file\n"),
    )
    assert (tmp_path / "job.sh").read_text() == "edited"
