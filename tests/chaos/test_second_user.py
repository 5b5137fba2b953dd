"""A second user of the same machine: it can neither end nor stall nor read a run, whatever door it tries.

The run trains over TCP while another user, without rights, tries each door ten times; the numbers it ends with are
those of an undisturbed run.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from textwrap import indent

import pytest

from tests.chaos.test_links import running, undisturbed
from tests.support import ROOT, configure, events, run_directory

NOBODY = 65534
TRIES = 10
TCP = '[links]\ntransport = "tcp"\n'
# Everything is imported first: another user may not be able to read this one's Python.
PREAMBLE = f"""
import encodings.idna, os, socket, sys, time; sys.path.insert(0, {str(ROOT)!r})
from pathlib import Path
import zmq
from runtime.messages import wire
from runtime.messages.message import Envelope, WindDown
*ports, name, folder, runs, pages = sys.argv[1:]
pages = [int(page) for page in pages.split()]
os.setgroups([]); os.setgid({NOBODY}); os.setuid({NOBODY})
"""

# Each prints what it got out of the run; nothing, if all is well.
FORGED = """
context, dealers = zmq.Context(), []
for user, secret in ((None, None), (b"convoy", b"a wrong secret")):
    dealer = context.socket(zmq.DEALER)
    dealer.setsockopt(zmq.LINGER, 0)
    dealer.setsockopt(zmq.ROUTING_ID, name.encode())
    if user:
        dealer.setsockopt(zmq.PLAIN_USERNAME, user)
        dealer.setsockopt(zmq.PLAIN_PASSWORD, secret)
    dealer.connect(f"tcp://127.0.0.1:{port}")
    said = Envelope(WindDown(reason="forged"), 1 << 40, "supervisor", 1, "coordinator")
    dealer.send_multipart(wire.encode(said))
    dealers.append(dealer)
time.sleep(0.5)  # for the handshake
for dealer in dealers:
    if dealer.poll(0):
        print("answered", dealer.recv_multipart())
    dealer.close()
context.term()
"""
GARBAGE = """
for size in (10, 1000, 1 << 20, 30 << 20):
    with socket.create_connection(("127.0.0.1", int(port))) as door:
        door.settimeout(1)
        heard = b""
        try:
            door.sendall(b"\\xff" + os.urandom(size))
            while said := door.recv(1 << 16):
                heard += said
        except OSError:
            pass
        if len(heard) > 64:  # ZeroMQ greets whoever comes with so many bytes
            print("said", heard)
"""
IDLE = """
doors = [socket.create_connection(("127.0.0.1", int(port))) for _ in range(200)]
time.sleep(0.3)
"""
METRICS = """
for page in pages:
    for path in ("metrics", "sd", ""):
        with socket.create_connection(("127.0.0.1", page)) as door:
            try:
                door.sendall(f"GET /{path} HTTP/1.1\\r\\n\\r\\n".encode())
                said = door.recv(1 << 16)
            except OSError:  # too many connections, of the last try: closed at once
                continue
            if said and not said.startswith(b"HTTP/1.1 403 "):
                print("read", said[:40])
doors = [socket.create_connection(("127.0.0.1", page)) for page in pages for _ in range(50)]
time.sleep(0.3)
"""
FILES = """
for path in (Path(folder), Path(runs)):
    for each in (path, *(path / name for name in ("plan.json", "secret", "events.jsonl", "supervisor.control"))):
        try:
            print("read", os.listdir(each) if each == path else each.read_bytes()[:10])
        except OSError:
            pass
"""
UNIX = """
door = socket.socket(socket.AF_UNIX)
try:
    door.connect(f"{folder}/supervisor.control")
    print("connected")
except OSError:
    pass
"""
ATTACKS = {"forged": FORGED, "garbage": GARBAGE, "idle": IDLE, "metrics": METRICS, "files": FILES, "unix": UNIX}


def as_nobody(attack: str, *arguments: str) -> str:
    """What an attack gets that another user tries so many times, on one port after the other."""
    tries = f"for number in range({TRIES}):\n    port = ports[number % len(ports)]\n{indent(attack, '    ')}"
    done = subprocess.run(
        [sys.executable, "-c", PREAMBLE + tries, *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def listening(pids: list[int]) -> list[int]:
    """TCP ports on which these processes listen: any user may see them."""
    inodes = {
        str(entry.readlink()).removeprefix("socket:[").rstrip("]")
        for pid in pids
        for entry in Path(f"/proc/{pid}/fd").iterdir()
        if str(entry.readlink()).startswith("socket:")
    }
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return sorted({int(row[1].rpartition(":")[2], 16) for row in rows if row[3] == "0A" and row[9] in inodes})


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that every user may enter."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        yield folder


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another user")
@pytest.mark.slow
def test_another_user_cannot_end_stall_or_read_a_run(tmp_path: Path, open_folder: Path) -> None:
    cluster = configure(open_folder / "run", "sync", workers=2, iterations=1_000_000, more=TCP)
    with running(cluster) as run:
        (sockets,) = Path(tempfile.gettempdir()).glob(f"convoy-sockets-{run.process.pid}-*")
        pages = {entry["metrics_port"] for entry in events(run_directory(cluster), "process")}
        ports = [port for port in listening([run.pids["coordinator"], run.pids["conv_model"]]) if port not in pages]
        assert len(ports) == 4  # two lanes each
        for name, attack in ATTACKS.items():
            places = str(sockets), str(run_directory(cluster)), " ".join(map(str, pages))
            said = as_nobody(attack, *map(str, ports), "conv-0-0/1.7", *places)
            assert (name, said) == (name, "")
            run.goes_on(1)
        code, errors = run.stop()
        assert (code, errors) == (130, "")
        losses = run.losses()
    calm = undisturbed(tmp_path / "calm", len(losses))
    assert [number for number, pair in enumerate(zip(losses, calm, strict=True)) if pair[0] != pair[1]] == []
    assert events(run_directory(cluster), "finished")
