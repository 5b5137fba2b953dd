"""The world of a trial: its folders, its clocks, the places of its processes, and leftovers."""

from __future__ import annotations

import json
import os
import platform
import shlex
import shutil
import signal
import struct
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from benchmarks.chaos.paced import PACED, brought
from benchmarks.helpers.report import ROOT
from benchmarks.helpers.survivor import living
from benchmarks.operators.draw import Place, Start
from benchmarks.operators.truth import LOST, MOST_SECONDS, Answer

MARK = "CONVOY_OPERATORS"  # in the environment of a trial's processes: trial, owner
NO_HOME = "/sys"  # where not even root can create a file
GONE_SECONDS = 6.0
KERNELS = "convoy-kernels-"  # a cache that stays, in TMPDIR if HOME takes no files
CLUSTER = """
[run]
name = "{name}"
directory = "../runs"
[recovery]
restarts = 1000
window_seconds = 100000.0
backoff_seconds = {backoff}
[checkpoint]
seconds = 2.0
keep = 2
[train]
solver = "solver.prototxt"
batch = 12
kernels = "numpy"
[train.data]
train = {{ format = "synthetic", shape = [1, 28, 28], size = 96 }}
[train.strategy]
preset = "replicas"
workers = {workers}
"""
PACE = 0.2  # seconds of a pass


class Refused(Exception):
    """This machine does not allow something; the text names it."""


def clock_library(folder: Path) -> Path:
    """Build the library that moves clocks. Raises Refused if it cannot be built."""
    library = folder / "clock.so"
    source = Path(__file__).with_name("clock.c")
    if (compiler := shutil.which("cc") or shutil.which("gcc")) is None:
        raise Refused("no C compiler: clocks are not stepped, and no host is far")
    done = subprocess.run(
        [compiler, "-shared", "-fPIC", "-O1", "-o", library, source, "-ldl"],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise Refused(f"clocks are not stepped, and no host is far: {done.stderr.strip()[:200]}")
    return library


def namespaces() -> None:
    """Raises Refused if this user may not have mount, PID and UTS namespaces."""
    words = ["unshare", "-m", "-u", "-p", "-f", "--mount-proc", "true"]
    if (
        shutil.which("unshare") is None
        or subprocess.run(words, capture_output=True, check=False).returncode
    ):
        raise Refused("no namespaces here: everything is typed on one host")


class World:
    """The folder of one trial, and the way to start processes in it. `tree`: the tree whose code
    they run. `clock`: the library that moves clocks, None if there is none."""

    def __init__(self, folder: Path, clock: Path | None, tree: Path = ROOT) -> None:
        self.folder = folder
        self._library = clock
        self._tree = tree
        self.mark = uuid.uuid4().hex
        self.runs = folder / "runs"
        self.tmp = folder / "tmp"
        self._clock = 0
        for path in (self.runs, self.tmp, folder / "home", folder / "home-far"):
            path.mkdir(parents=True)

    def made(self, start: Start) -> Path:
        """Make the folder where an `up` of this name is typed."""
        folder = self.folder / start.name
        folder.mkdir()
        brought(folder, PACE)
        points = folder / "site" / "paced-1.0.dist-info" / "entry_points.txt"
        points.write_text(
            points.read_text().replace(
                "benchmarks.chaos.paced:Paced", "benchmarks.operators.layer:Held"
            )
        )
        (folder / "solver.prototxt").write_text(PACED)
        text = CLUSTER.format(name=start.name, backoff=start.backoff, workers=start.workers)
        (folder / "cluster.toml").write_text(text)
        return folder

    # -- the clocks

    def step(self, seconds: int) -> None:
        """Move the wall clocks of all hosts by so many seconds."""
        self._clock += seconds
        for path in self.folder.glob("clock.*"):
            self._write_clock(path)

    def now(self) -> float:
        """The time of this host's wall clock."""
        return time.time() + (self._clock if self._library else 0)

    def _write_clock(self, path: Path) -> None:
        skew = int(path.suffix[1:])
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT, 0o600)  # in place: it is mapped
        os.pwrite(descriptor, struct.pack("=q", self._clock + skew), 0)
        os.close(descriptor)

    # -- processes

    def words(self, words: Sequence[str], place: Place) -> list[str]:
        """The command line that runs `words` at a place."""
        ways = [
            ("-m", place.private_tmp or place.pids or place.far),
            ("-u", bool(place.host)),
            ("-p", place.pids),
        ]
        said = [flag for flag, wanted in ways if wanted]
        if place.pids:
            said += ["-f", "--mount-proc", "--kill-child"]
        script = []
        if place.host:
            script.append(f"echo {place.host} > /proc/sys/kernel/hostname")
        if place.private_tmp:
            script.append(f'mount -t tmpfs none {shlex.quote(str(self.tmp))}; mkdir -p "$TMPDIR"')
        if place.far:
            boot = self.folder / f"boot.{place.host}"
            boot.write_text(f"00000000-0000-4000-8000-{place.host}\n")
            script.append(f"mount --bind {shlex.quote(str(boot))} /proc/sys/kernel/random/boot_id")
        if place.descriptors:
            script.append(f"ulimit -n {place.descriptors}")
        begun = ["sh", "-ec", "; ".join([*script, 'exec "$@"']), "sh"] if script else []
        return [*(["unshare", *said] if said else []), *begun, *words]

    def environment(
        self, place: Place, whose: str, cwd: Path, tmp: Path | None = None
    ) -> dict[str, str]:
        """The environment of a process at a place."""
        tmp = tmp or self.tmp
        tmp.mkdir(exist_ok=True)
        found = {
            key: value
            for key, value in os.environ.items()
            if not key.startswith(("CONVOY_", "PYTEST"))
        }
        site = [str(folder) for folder in sorted(self.folder.glob("*/site"))][:1]
        found |= {
            "PYTHONPATH": os.pathsep.join([*site, str(self._tree)]),
            MARK: f"{self.mark} {whose}",
            "OPENBLAS_NUM_THREADS": "1",
            "CONVOY_THREADS": "1",
            "TMPDIR": str(tmp),
            "PYTHONDONTWRITEBYTECODE": "1",
            "HOME": str(self.folder / ("home-far" if place.far else "home"))
            if place.home
            else NO_HOME,
        }
        if place.zone:
            found["TZ"] = place.zone
        if self._library is not None:
            clock = self.folder / f"clock.{place.skew}"
            if not clock.exists():
                self._write_clock(clock)
            found |= {"LD_PRELOAD": str(self._library), "CONVOY_CLOCK": str(clock)}
            if place.far:
                found["CONVOY_OWN_LOCKS"] = "1"
        return found

    def command(
        self, words: Sequence[str], place: Place, cwd: Path, limit: float = MOST_SECONDS
    ) -> Answer:
        """Type a command and wait until it ends. A command that takes longer than `limit` is
        killed, and has no exit code."""
        since = time.monotonic()
        with subprocess.Popen(
            self.words([sys.executable, "-m", "runtime", *words], place), cwd=cwd,
            env=self.environment(place, "command", cwd), stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        ) as process:  # fmt: skip
            try:
                out, err = process.communicate(timeout=limit)
            except subprocess.TimeoutExpired:
                process.kill()
                out, err = process.communicate()
                return Answer(tuple(words), None, out, err, time.monotonic() - since)
        return Answer(tuple(words), process.returncode, out, err, time.monotonic() - since)

    def lose(self) -> str:
        """Write a run of another host, with a lock that is no longer renewed. Returns the name of
        its run directory."""
        directory = self.runs / "20260101-000000-lost"
        directory.mkdir()
        said = {
            "id": "0f",
            "name": "lost",
            "began": "2026-01-01T00:00:00.000000Z",
            "continues": "",
            "up": "10ff",
        }
        (directory / "run.json").write_text(json.dumps(said))
        (directory / "events.jsonl").touch()
        lock = {
            "up": "10ff",
            "host": LOST,
            "boot": "b",
            "pid": 7,
            "run": directory.name,
            "state": "running",
        }
        text = json.dumps({**lock, "renewed": self.now() - 20_000})
        (self.runs / ".up-10ff.lock").write_text(text.ljust(2047) + "\n")
        return directory.name

    def find(self) -> None:
        """Remove that run and its lock, as a user does when the host is known to be gone."""
        (self.runs / ".up-10ff.lock").unlink(missing_ok=True)
        shutil.rmtree(self.runs / "20260101-000000-lost", ignore_errors=True)

    # -- leftovers

    def pids(self, whose: str = "") -> list[int]:
        """The living processes of this trial."""
        wanted = f"{MARK}={self.mark} {whose}".encode()
        found = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdecimal():
                with suppress(OSError):
                    values = (entry / "environ").read_bytes().split(b"\0")
                    if any(value.startswith(wanted) for value in values) and living(
                        int(entry.name)
                    ):
                        found.append(int(entry.name))
        return sorted(found)

    def left(self, killed: Mapping[str, int], alone: int) -> Iterator[str]:
        """Leftovers when everything has ended. `killed`: how often the `up` of each name was
        killed; it may leave files that only the next `up` removes. `alone`: how many of these took
        all processes of their PID namespace with them, so that no process could remove their
        sockets."""
        until = time.monotonic() + GONE_SECONDS
        while (pids := self.pids()) and time.monotonic() < until:
            time.sleep(0.05)
        for pid in pids:
            with suppress(OSError):
                words = (
                    Path(f"/proc/{pid}/cmdline")
                    .read_bytes()
                    .replace(b"\0", b" ")
                    .decode(errors="replace")
                )
                yield f"process {pid} is left: {words[:200]}"
        temporary = self._temporary()
        if len(temporary) > alone or any(
            not path.name.startswith("convoy-sockets-1-") for path in temporary
        ):
            yield from (
                (f"temporary file is left: {path.relative_to(self.folder)}") for path in temporary
            )
        locks = sorted(path.name for path in self.runs.glob(".*"))
        if len(locks) > sum(killed.values()) or any(not name.endswith(".lock") for name in locks):
            yield f"left next to the runs: {locks}, after {dict(killed)} were killed"
        for run in self.runs.glob("[!.]*"):
            if not (run / "config.toml").exists() and not killed:
                yield f"an empty run directory is left: {run.name}"
            yield from (
                f"an incomplete file is left: {path}" for path in run.glob("*.tmp*") if not killed
            )

    def _temporary(self) -> list[Path]:
        # every TMPDIR
        ours = {self.tmp / path.parent.name for path in self.folder.glob("*/cluster.toml")}
        found = [
            path for folder in (self.tmp, *ours) if folder.is_dir() for path in folder.iterdir()
        ]
        found = [path for path in found if path not in ours and not path.name.startswith(KERNELS)]
        until = time.monotonic() + GONE_SECONDS
        while (found := [path for path in found if path.exists()]) and time.monotonic() < until:
            time.sleep(0.05)  # the nursery of an `up` that was killed removes them
        return found

    def end(self) -> None:
        """Kill all processes of the trial and remove its folder."""
        for _ in range(3):
            for pid in self.pids():
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.05)
        shutil.rmtree(self.folder, ignore_errors=True)


def host() -> str:
    """The name of this machine."""
    return platform.node()
