"""Strangers at the encrypted links of a run: eight kinds of attack, one after the other, on all
ports of two of its processes.

No message of theirs is delivered, and each attempt is counted. The run goes on and learns the same
as undisturbed. `tests/contracts/test_encrypted_links.py` has the quick cases. The release figure:
CONVOY_STRANGERS=100 tries of each kind.
"""

from __future__ import annotations

import os
import re
import resource
import socket
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest

from benchmarks.helpers.machines import Machine, machines
from benchmarks.helpers.strangers import STRANGERS, Door, doors_of
from runtime.machine.descriptors import DESCRIPTORS
from runtime.machine.namespaces import enter
from tests.chaos.test_links import Running, running, undisturbed
from tests.helpers.far_machines import or_skip
from tests.helpers.support import configure, events, get, run_directory

TRIES = int(os.environ.get("CONVOY_STRANGERS", "20"))
AT_ONCE = 20
ATTACKED = ("coordinator", "conv-0-1")
MACHINE = (
    '[[machine]]\nname = "m{number}"\nnamespace = "{namespace}"\naddress = '
    '"{address}"\nthreads = 1\n'
)


@pytest.fixture(scope="module")
def two() -> Iterator[list[Machine]]:
    """Two machines with cables of 1 Gbit/s."""
    with or_skip(machines(2, 10**9)) as made:
        yield made


def doors(run: Running, made: list[Machine], sockets: Path) -> list[Door]:
    """Both lanes of the attacked processes, for a stranger that claims to be the model server."""
    pages = {
        entry["process"]: entry["metrics_port"]
        for entry in events(run_directory(run.cluster), "process")
    }
    peer = "conv_model", run.pids["conv_model"]
    found = []
    for machine, name in zip(made, ATTACKED, strict=True):
        found += doors_of(machine.address, run.pids[name], pages[name], sockets, name, peer)
    assert len(found) == 4
    return found


def rejected(run: Running, made: list[Machine]) -> float:
    """The number of messages and strangers that the attacked processes rejected, from their metrics
    pages.
    """
    ports = {
        entry["process"]: entry["metrics_port"]
        for entry in events(run_directory(run.cluster), "process")
    }

    def page(machine: Machine, name: str) -> str:
        enter(machine.namespace)  # moves only this thread into the namespace
        return get(f"http://127.0.0.1:{ports[name]}/metrics")

    total = 0.0
    for machine, name in zip(made, ATTACKED, strict=True):
        with ThreadPoolExecutor(1) as inside:
            said = inside.submit(page, machine, name).result()
        counted = re.findall(
            (r'^convoy_messages_rejected_total\{[^}]*reason="refused"[^}]*\} ' r"(\S+)"),
            said,
            re.MULTILINE,
        )
        total += sum(map(float, counted))
    return total


@pytest.mark.slow
@pytest.mark.timeout(120 + 6 * TRIES)
def test_strangers_of_eight_kinds_get_nothing_and_change_nothing(
    tmp_path: Path, two: list[Machine]
) -> None:
    more = "".join(
        MACHINE.format(number=number, **vars(machine)) for number, machine in enumerate(two)
    )
    more += '[[process]]\nname = "conv-0-1"\nmachine = "m1"\nactors = ["conv-0-1"]\n'
    with running(
        configure(tmp_path / "run", "sync", workers=2, iterations=1_000_000, paced=True, more=more)
    ) as run:
        (sockets,) = Path(tempfile.gettempdir()).glob(f"convoy-sockets-{run.process.pid}-*")
        tried = doors(run, two, sockets)
        most = resource.prlimit(run.process.pid, resource.RLIMIT_NOFILE)
        # for strangers that hold connections to `up` open
        assert most[0] == min(most[1], DESCRIPTORS)
        for name, stranger in STRANGERS.items():
            before = rejected(run, two)
            with ThreadPoolExecutor(AT_ONCE) as several:
                answered = list(several.map(stranger, (tried * TRIES)[:TRIES]))
            assert (name, answered) == (name, [False] * TRIES)
            run.goes_on(1)
            told = name in (
                "wrong_server_key",
                "unknown_key",
                "null",
                "plain",
                "garbage",
                "no_key",
                "replayed",
            )
            assert (name, rejected(run, two) > before) == (name, told)
        held: list[socket.socket] = [each for door in tried for each in door.held]
        assert len(held) == TRIES
        for each in held:  # a stranger that stays silent is dropped after 5 s
            each.settimeout(10)
            with suppress(ConnectionError):
                while each.recv(1 << 16):
                    pass
            each.close()
        run.goes_on(1)
        code, errors = run.stop()
        assert (code, errors) == (130, "")
        losses = run.losses()
    assert losses == undisturbed(tmp_path / "calm", len(losses))
