"""The chaos benchmark: it reports a harm that did not happen, that no message named, or that took
too long."""

from __future__ import annotations

import json
import mmap
import os
import random
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from benchmarks.chaos import chaos
from benchmarks.chaos import kills as chaos_kills
from benchmarks.chaos import machines as chaos_machines
from benchmarks.chaos import soak as chaos_soak
from benchmarks.chaos.paced import NET, Paced
from benchmarks.chaos.processes import kill
from benchmarks.chaos.soak import Sample
from benchmarks.chaos.trials import HEADERS, Absent, Harm, Trials, spread
from benchmarks.helpers import resets
from benchmarks.helpers.cables import Way, delayed
from benchmarks.helpers.machines import Machine, machines
from benchmarks.helpers.report import Record
from benchmarks.helpers.survivor import Gone, Survivor
from nets import load_net
from nets.layers import Run, Setup, Values, make_layer
from ops import get_backend
from tests.helpers.far_machines import or_skip, program


def trials(folder: Path) -> Trials:
    record = Record("of a test")
    record.table("harm", *HEADERS)
    return Trials(record, folder, "1")


def told(folder: Path, harm: Harm) -> Record:
    part = trials(folder)
    part.told(harm, named=3.0, back=10.0)
    return part.record


def test_a_harm_that_happened_and_was_named_in_time_passes(tmp_path: Path) -> None:
    record = told(tmp_path, Harm("a", done=2, happened=2, named=[0.1, 0.2], back=[1.0, 2.0]))
    assert record.status == "running"
    assert record.tables[0].rows == [["a", 2, 2, 0, 0.1, 0.2, 0.2, 1.0, 2.0, 2.0]]


@pytest.mark.parametrize(
    ("harm", "why"),
    [
        (Harm("a", done=2, happened=1), "done 2 times, but it happened 1 times"),
        (Harm("a", done=1, happened=1, named=[3.1]), "named after 3.1 s, expected 3 s at most"),
        (
            Harm("a", done=1, happened=1, back=[11.0]),
            ("went on after 11.0 s (p95), expected 10 s at most"),
        ),
        (Harm("a", done=1, happened=1, failures=["a: nobody named it"]), "nobody named it"),
    ],
)
def test_a_harm_that_did_not_happen_or_took_too_long_fails(
    tmp_path: Path, harm: Harm, why: str
) -> None:
    record = told(tmp_path, harm)
    assert record.status == "failed" and any(why in note for note in record.notes)


def test_a_trial_that_goes_wrong_is_counted_and_the_next_is_tried(tmp_path: Path) -> None:
    harm = Harm("a")
    part = trials(tmp_path)
    for error in (Gone("silent"), AssertionError("named as another"), None):
        with part.counted(harm):
            if error is not None:
                raise error
            harm.happened += 1
    assert (harm.done, harm.happened, harm.failures) == (3, 1, ["a: silent", "a: named as another"])


def test_percentiles_are_times_that_were_seen() -> None:
    assert spread([float(number) for number in range(100, 0, -1)]) == [50.0, 95.0, 100.0]
    assert spread([2.0]) == [2.0, 2.0, 2.0] and spread([]) == []
    assert Harm("a").row[4:] == ["-"] * 6


def test_killing_a_process_that_had_already_died_does_not_count_as_a_harm() -> None:
    harm = Harm("a")
    kill(2**22 + 1, harm)  # no process has this number
    assert harm.happened == 0


def test_a_part_that_cannot_run_here_is_skipped_with_a_reason_and_a_broken_part_fails(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def with_error(error: Exception) -> Callable[[Trials, int], None]:
        def do(part: Trials, times: int) -> None:
            raise error

        return do

    parts = {
        "clock": chaos.Part("The clock", with_error(Absent("no library")), (1, 1, 1)),
        "links": chaos.Part("Links", with_error(ValueError("of the test")), (1, 1, 1)),
    }
    monkeypatch.setattr(chaos, "PARTS", parts)
    assert chaos.main(["--only", "clock,links", "--results", str(tmp_path)]) == 1
    (as_json,) = tmp_path.glob("chaos-pr-*.json")
    found = json.loads(as_json.read_text())["parts"]
    assert (found["clock"]["status"], found["clock"]["notes"]) == (
        "skipped",
        ["skipped: no library"],
    )
    assert (found["links"]["status"], found["links"]["notes"]) == (
        "failed",
        ["ValueError: of the test"],
    )
    with pytest.raises(SystemExit):
        chaos.main(["--only", "nothing"])
    assert "there is no part nothing" in capsys.readouterr().err


def test_without_a_mount_the_disk_is_left_out(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv(
        "PATH", str(program(tmp_path / "bin" / "mount", "echo not here >&2; exit 1").parent)
    )
    with (
        pytest.raises(Absent, match="no disk can be mounted: not here"),
        chaos_machines.small_disk(tmp_path / "disk"),
    ):
        pass


def test_messages_of_a_run_are_awaited_in_order_and_its_end_is_reported(tmp_path: Path) -> None:
    (tmp_path / "cluster.toml").write_text('program = "absent_program"\n')
    run = Survivor(tmp_path / "cluster.toml")
    try:
        with pytest.raises(Gone, match="absent_program"):
            run.until("progress ")
        assert run.end()[0] == 2
    finally:
        run.stop()


def test_trials_of_several_presets_are_counted_together_and_by_killed_process(
    tmp_path: Path,
) -> None:
    conv = Harm("a conv", done=2, happened=2, named=[0.1, 0.2], back=[1.0, 2.0])
    server = Harm("a", done=1, happened=0)
    part = trials(tmp_path)
    found = {
        "sync": chaos_kills.Found(
            Harm.of("sync", (conv, server)), {"conv": conv, "server": server}, [(5.0, 1.0)]
        ),
        "async": chaos_kills.Found(conv, {"conv": conv}),
    }
    chaos_kills.told(part, found)
    presets, kinds, again = part.record.tables
    assert [row[:4] for row in presets.rows] == [
        ["sync", 3, 2, 0],
        ["a conv", 2, 2, 0],
        ["all of these", 5, 4, 0],
    ]
    assert [row[:3] for row in kinds.rows] == [
        ["SIGKILL of conv", 4, 4],
        ["SIGKILL of server", 1, 0],
    ]
    assert again.rows == [["sync", 1, 5.0, 5.0, 5.0, 1.0, 1.0, 1.0], ["async", 0, *"------"]]
    assert part.record.status == "failed"


# -- cables and connections


ECHO = """
import socket
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as here:
    here.bind(("0.0.0.0", 7777))
    print("listens", flush=True)
    while True:
        here.sendto(*here.recvfrom(64))
"""
ENDS_BY_RESET = """
import socket, sys
with socket.create_connection(("127.0.0.1", int(sys.argv[1]))) as there:
    try:
        print(there.recv(1))
    except ConnectionResetError:
        print("reset", flush=True)
        sys.stdin.read()  # lives on, so that the test can ask for the counts of its network
"""


@pytest.fixture
def echoing() -> Iterator[Machine]:
    """A machine that echoes each byte sent to its port 7777."""
    with or_skip(machines(1, 10**9)) as (machine,):
        command = ["ip", "netns", "exec", machine.namespace, sys.executable, "-c", ECHO]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            try:
                assert process.stdout.readline() == "listens\n"
                yield machine
            finally:
                process.kill()


def devices(machine: Machine) -> str:
    shown = subprocess.run(
        ["ip", "-n", machine.namespace, "-o", "link", "show"],
        capture_output=True,
        text=True,
        check=True,
    )
    return ", ".join(line.split(":")[1].strip() for line in shown.stdout.splitlines())


def test_a_cable_delays_each_frame_in_both_directions_and_leaves_the_machine_as_it_was(
    echoing: Machine,
) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as here:
        here.settimeout(10)

        def echoed() -> float:
            since = time.monotonic()
            here.sendto(b"here", (echoing.address, 7777))
            assert here.recv(64) == b"here"
            return time.monotonic() - since

        echoed()
        before = devices(echoing)
        with or_skip(delayed(echoing, 0.05, 0.07)) as relay:
            assert min(echoed() for _ in range(4)) >= 0.1
            assert min(relay.passed) >= 3  # a frame is counted only after it has arrived
        assert devices(echoing) == before
        echoed()


def test_frames_leave_in_the_order_in_which_they_came_whatever_their_delays() -> None:
    (gives, source), (target, takes) = (
        socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET) for _ in range(2)
    )
    with gives, source, target, takes:
        source.setblocking(False)
        way = Way(source.fileno(), target.fileno(), 0.0, 0.01, random.Random(1))
        for number in range(8):
            gives.send(bytes([number]))
        way.take()
        while way.give() is not None:
            pass
        assert [takes.recv(64) for _ in range(8)] == [bytes([number]) for number in range(8)]


def test_a_connection_that_is_reset_ends_by_a_reset_at_its_peer() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        command = [sys.executable, "-c", ENDS_BY_RESET, str(server.getsockname()[1])]
        with subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as peer:
            accepted, address = server.accept()
            with accepted:
                (connection,) = (
                    one for one in resets.connections(os.getpid()) if one.there == address
                )
                assert connection.descriptor == accepted.fileno()
                before = resets.resets(peer.pid)
                resets.reset(connection)
                assert resets.was_reset(peer.pid, connection, before)
                assert peer.communicate(timeout=20)[0] == "reset\n"
                with pytest.raises(OSError, match="not connected"):
                    resets.reset(connection)


# -- iterations trained again after a death


class Runs:
    """The journals of runs that followed one another."""

    def __init__(self, folder: Path, *journals: list[dict[str, object]]) -> None:
        self.directories = [folder / str(number) for number in range(len(journals))]
        for directory, journal in zip(self.directories, journals, strict=True):
            directory.mkdir()
            (directory / "events.jsonl").write_text(
                "".join(json.dumps(event) + "\n" for event in journal)
            )


def ended(iteration: int, second: float) -> dict[str, object]:
    return {"event": "progress", "iteration": iteration, "unix_seconds": second}


DIED = [
    ended(1, 1.0),
    ended(2, 2.0),
    {"event": "checkpoint", "iteration": 2},
    ended(3, 3.0),
    ended(4, 4.5),
]


def test_iterations_trained_since_the_newest_checkpoint_are_counted_as_lost(tmp_path: Path) -> None:
    runs = Runs(tmp_path, DIED, [{"event": "resumed", "iteration": 2}, ended(3, 9.0)])
    assert chaos_kills._again(runs) == (2.0, 1.5)  # type: ignore[arg-type]


def test_a_run_that_resumes_from_a_checkpoint_older_than_the_newest_whole_one_fails(
    tmp_path: Path,
) -> None:
    with pytest.raises(AssertionError, match="resumed from iteration 0, but 2 was saved"):
        chaos_kills._again(Runs(tmp_path, DIED, [ended(1, 9.0)]))  # type: ignore[arg-type]


# -- growth


def grown(megabytes: float, descriptors: float, minutes: int = 30) -> list[Sample]:
    return [
        Sample(
            at,
            {"up": (80.0 + megabytes * at / 60, 60.0, int(50 + descriptors * at / 60), 4)},
            19,
            1,
        )
        for at in range(1, minutes + 1)
    ]


def soaked(folder: Path, samples: list[Sample], seconds: Callable[[int], float]) -> Record:
    part = trials(folder)
    paces = [(at / 2, seconds(at)) for at in range(60)]
    chaos_soak.told(part, samples, paces, 30)
    return part.record


def test_a_soak_in_which_nothing_grows_passes(tmp_path: Path) -> None:
    record = soaked(tmp_path, grown(0.9, 0.0), lambda at: 0.8)
    assert record.status == "running"
    assert record.tables[1].rows[0][3] == pytest.approx(0.9)
    assert [row[2] for row in record.tables[2].rows] == pytest.approx([1.25] * 3)


def test_the_slope_of_a_line_is_found_whatever_its_dips() -> None:
    line = [(float(x), 5.0 + 2.0 * x) for x in range(20)]
    dips = [(x, y - 40.0 if 6 <= x < 9 else y) for x, y in line]
    assert chaos_soak.slope(line) == chaos_soak.slope(dips) == 2.0
    assert chaos_soak.slope(line[:1]) == 0.0


@pytest.mark.parametrize(
    ("samples", "seconds", "why"),
    [
        (grown(1.2, 0.0), lambda at: 0.8, "up: 1.20 MB more in an hour, expected 1 at most"),
        (grown(0.0, 60.0), lambda at: 0.8, "up: 60.00 descriptors more in an hour"),
        (
            grown(0.0, 0.0),
            lambda at: 0.8 if at < 40 else 0.83,
            ("96.4% as fast at the end as in the beginning"),
        ),
    ],
)
def test_a_quantity_that_grows_or_a_run_that_slows_down_fails_a_soak(
    tmp_path: Path, samples: list[Sample], seconds: Callable[[int], float], why: str
) -> None:
    record = soaked(tmp_path, samples, seconds)
    assert record.status == "failed" and any(why in note for note in record.notes)


def test_measurements_of_a_process_are_the_figures_of_the_system() -> None:
    before = chaos_soak.measured(os.getpid())
    # straight from the operating system: numpy might reuse memory of this process
    held = mmap.mmap(-1, 32 << 20)
    for at in range(0, len(held), mmap.PAGESIZE):
        held[at] = 1
    with Path(__file__).open() as file:
        after = chaos_soak.measured(os.getpid())
        assert after[2] == before[2] + 1, file.name
    held.close()
    assert after[0] - before[0] == pytest.approx(32, abs=4.0)


def test_the_layer_that_lets_time_pass_changes_nothing(
    tmp_path: Path, install: Callable[..., None]
) -> None:
    install({"convoy.layers": {"Paced": "benchmarks.chaos.paced:Paced"}})
    (tmp_path / "paced.prototxt").write_text(NET.format(seconds=0.0, slow=""))
    spec = load_net(tmp_path / "paced.prototxt")
    layer = make_layer(
        next(one for one in spec.layers if one.proto.name == "pace"), get_backend(), np.float32
    )
    assert isinstance(layer, Paced)
    x = np.random.default_rng(1).standard_normal((4, 3), np.float32)
    run = Run("TRAIN", 1, 3, 0, 4, 4)
    layer.setup([x.shape], Setup("TRAIN", None, None))
    (y,) = layer.forward([x], (), run)
    ((dx,), _) = layer.backward([x], Values([x], [y], ()), run, [True], None)
    assert (y == x).all() and (dx == x).all()
