"""Runs on other machines, over agents that ssh or a person starts, and the processes and files left
afterwards."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.helpers.machines import Refused, machines
from runtime.compute import service_times
from tests.helpers.far_machines import Far, far_machines, folders, or_skip, program
from tests.helpers.support import (
    configure,
    environment,
    events,
    run_directory,
    runtime_command,
    train,
)

PLACES = '[placement]\nprocesses = "one"\n'
PROCESS = '[[process]]\nname = "p{number}"\nmachine = "m{number}"\nactors = ["{actors}"]\n'
APART = ("conv-0-0", "conv-0-1", "[!c]*", "conv_model", "coordinator")


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Far]:
    with or_skip(far_machines(tmp_path_factory.mktemp("far") / "ssh", 3)) as made:
        yield made


def placed(tables: str, launcher: str, more: str = "") -> str:
    """A machine for each worker, and one for everything else."""
    processes = [
        PROCESS.format(number=number, actors=pattern) for number, pattern in enumerate(APART[:2])
    ]
    rest = '", "'.join(APART[2:])
    return f"{tables}{''.join(processes)}{PROCESS.format(number=2, actors=rest)}{PLACES}{launcher}{more}"


PROGRAM = """
from runtime import Actor, ActorSpec, Envelope, Message, Topology, message

@message
class Ask(Message):
    pass

@message
class Where(Message):
    space: str

class Place(Actor):
    async def on_ask(self, message: Ask, envelope: Envelope) -> None:
        self.log.info("asked")
        await self.reply(envelope, Where(space=__import__("os").readlink("/proc/self/ns/net")))

class Lead(Actor):
    async def run(self):
        (self.run_directory / "found").write_text((await self.ask("there", Ask(), Where)).space)
        self.finish()

ROLES = {"place": Place, "lead": Lead}

def plan(config, options):
    return Topology(__name__, (ActorSpec("lead", "lead"), ActorSpec("there", "place")), (("lead", "there"),), "lead")
"""


def test_two_actors_on_two_machines_talk_and_their_files_and_logs_are_here(
    tmp_path: Path,
) -> None:
    """A program takes the place of ssh, so sshd itself is not tested."""
    try:
        with machines(2, 10**9) as made:
            enter = '*) exec ip netns exec {} sh -c "$last";;'
            cases = [
                (f'*" m{number} "{enter.format(machine.namespace)}')
                for number, machine in enumerate(made)
            ]
            program(
                tmp_path / "bin" / "ssh",
                (f'for last; do :; done; case "$*" in {" ".join(cases)} esac'),
            )
            (tmp_path / "talking.py").write_text(PROGRAM)
            tables = Far(made, tmp_path).tables(more=f'directory = "{tmp_path}"\n')
            places = [
                PROCESS.format(number=n, actors=actor) for n, actor in enumerate(("lead", "there"))
            ]
            cluster = tmp_path / "cluster.toml"
            cluster.write_text(
                f'program = "talking"\n{tables}{"".join(places)}[launcher]\nkind = "ssh"\n'
            )
            done = subprocess.run(
                runtime_command("up"),
                cwd=tmp_path,
                env=Far(made, tmp_path).path(),
                capture_output=True,
                text=True,
            )
            left = Far(made, tmp_path).living()
    except Refused as why:
        pytest.skip(f"no machines here: {why}")
    assert (done.returncode, done.stderr, left, folders()) == (0, "", [], [])
    directory = run_directory(cluster)
    assert (directory / "found").read_text().startswith("net:[")
    assert (directory / "found").read_text() != str(Path("/proc/self/ns/net").readlink())
    assert "asked" in (directory / "logs" / "p1.log").read_text()


@pytest.mark.slow
def test_a_run_over_ssh_has_the_numbers_of_one_machine_and_leaves_nothing(
    tmp_path: Path, three: Far
) -> None:
    reference = train(configure(tmp_path / "single", "single", iterations=5)).losses()
    more = placed(
        three.tables(), '[launcher]\nkind = "ssh"\n', "[run]\nrecord_service_times = true\n"
    )
    cluster = configure(tmp_path / "far", "sync", workers=2, iterations=5, more=more)
    done = subprocess.run(
        runtime_command("up", cluster.name),
        cwd=cluster.parent,
        env=three.path(),
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    directory = run_directory(cluster)
    losses = [event["loss"] for event in events(directory, "progress")]
    assert losses == pytest.approx(reference, rel=1e-4)
    assert sorted(path.name for path in (directory / "logs").iterdir()) == [
        "p0.log",
        "p1.log",
        "p2.log",
    ]
    assert "halting: the run is over" in (directory / "logs" / "p1.log").read_text()
    assert (directory / events(directory, "finished")[0]["checkpoint"]).stat().st_size > 1e6
    assert {
        key.partition("/")[0] for key in service_times.read_table(directory / service_times.FILE)
    } > {
        "conv_compute",
        "fc_server",
    }
    assert (three.living(), folders()) == ([], [])


@pytest.mark.slow
def test_a_run_on_this_host_and_one_where_a_person_types_the_command_has_the_numbers_of_one(
    tmp_path: Path, three: Far
) -> None:
    reference = train(configure(tmp_path / "single", "single", iterations=5)).losses()
    here = (
        three.tables().rpartition("[[machine]]")[0] + '[[machine]]\nname = "m2"\nthreads = 1\n'
    )  # the third machine is this host
    more = placed(here, '[launcher]\nkind = "manual"\nstart_seconds = 60\n')
    cluster = configure(tmp_path / "far", "sync", workers=2, iterations=5, more=more)
    agents: list[subprocess.Popen[str]] = []
    with subprocess.Popen(
        runtime_command("up", cluster.name),
        cwd=cluster.parent,
        env=environment(),
        stdout=subprocess.PIPE,
        text=True,
    ) as up:
        assert up.stdout is not None
        said = iter(up.stdout)
        for line in said:
            named = re.match(r"machine 'm(\d)': type there", line)
            if named:
                command = next(said)
                _ = next(said)
                key = next(said)
                inside = [
                    "ip",
                    "netns",
                    "exec",
                    three.machines[int(named[1])].namespace,
                    "sh",
                    "-c",
                    command,
                ]
                agents.append(
                    subprocess.Popen(
                        inside, stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True
                    )
                )
                pasted = agents[-1].stdin
                assert pasted is not None
                pasted.write(key)
                # end of input, as after a file: only the connection keeps the agent alive
                pasted.close()
                agents[-1].stdin = None
        assert up.wait(60) == 0
    assert [(agent.communicate(timeout=10)[1], agent.returncode) for agent in agents] == [
        ("", 0)
    ] * 2
    losses = [event["loss"] for event in events(run_directory(cluster), "progress")]
    assert losses == pytest.approx(reference, rel=1e-4)
    assert (three.living(), folders()) == ([], [])
