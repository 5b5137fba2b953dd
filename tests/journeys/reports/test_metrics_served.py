"""The metrics of a live run: Prometheus finds every process and accepts every page."""

from __future__ import annotations

import json
import re
import shutil
import signal
import socket
import subprocess
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from runtime.serving.http_server import CONNECTIONS, WAITING
from tests.helpers.support import (
    ROOT,
    configure,
    environment,
    events,
    get,
    in_the_middle,
    run_directory,
    runtime_command,
)

PROMISED = {
    "convoy_images_total",
    "convoy_iterations_total",
    "convoy_phase_duration_seconds",
    "convoy_exposed_seconds",
    "convoy_queue_bytes",
    "convoy_gradient_staleness_updates",
    "convoy_loss",
    "convoy_accuracy_ratio",
    "convoy_messages_sent_total",
    "convoy_message_bytes_received_total",
    "convoy_wait_seconds_total",
    "convoy_loop_lag_seconds",
    "convoy_inbox_messages",
    "convoy_inbox_seconds_total",
    "convoy_handler_seconds_total",
    "convoy_compute_seconds_total",
    "convoy_process_cpu_seconds_total",
    "convoy_build_info",
    "convoy_run_state",
    "convoy_worker_group_info",
    "convoy_eta_seconds",
}


@pytest.fixture
def pages(tmp_path: Path):
    """Process name -> its metrics page, taken in the middle of a run."""
    cluster = configure(
        tmp_path, "sync", workers=3, iterations=100_000, batch=8, test=True, paced=True
    )
    with in_the_middle(cluster, "--set", "metrics.port=0") as (process, said):
        url = re.findall(r"http://\S+/sd", said)[0]
        listed = json.loads(get(url))
        found = {
            entry["labels"]["process"]: get(f"http://{entry['targets'][0]}/metrics")
            for entry in listed
        }
        found["up"] = get(url.replace("/sd", "/metrics"))
    assert process.returncode == 130
    return found


def test_the_list_names_every_process_and_promtool_accepts_every_page(
    pages: dict[str, str],
) -> None:
    workers = {f"conv-0-{rank}" for rank in range(3)}
    assert set(pages) == {"coordinator", "conv_model", "fc_server", "reducer-0", *workers, "up"}
    promised = {
        name
        for page in pages.values()
        for name in PROMISED
        if re.search(rf"^{name}", page, re.MULTILINE)
    }
    assert promised == PROMISED
    documented = (ROOT / "docs" / "metrics.md").read_text()
    for page in pages.values():
        names = re.findall(r"^# TYPE (\S+)", page, re.MULTILINE)
        assert all(name.startswith("convoy_") for name in names)
        assert [name for name in names if f"`{name}`" not in documented] == []
    if shutil.which("promtool") is None:
        pytest.skip(
            "promtool (Debian's package prometheus) is not installed: pages are not checked by it"
        )
    for name, page in pages.items():
        done = subprocess.run(
            ["promtool", "check", "metrics"],
            input=page,
            capture_output=True,
            text=True,
            check=False,
        )
        assert (done.returncode, done.stdout + done.stderr) == (0, ""), name


@pytest.mark.slow
def test_a_crowd_of_idle_connections_to_a_role_leaves_it_training_and_its_page_readable(
    tmp_path: Path,
) -> None:
    cluster = configure(tmp_path, "single", iterations=1_000_000, paced=True)
    with (
        subprocess.Popen(
            runtime_command("up", cluster.name),
            cwd=tmp_path,
            env=environment(),
            stdout=subprocess.PIPE,
            text=True,
        ) as process,
        ExitStack() as idle,
    ):
        idle.callback(process.kill)  # has no effect on a process that has ended
        assert process.stdout is not None
        for line in process.stdout:
            if line.startswith("progress"):
                break
        entries = events(run_directory(cluster), "process")
        port, pid = next((entry["metrics_port"], entry["pid"]) for entry in entries)
        # the first reader opens the socket that asks the kernel for owners
        get(f"http://127.0.0.1:{port}/metrics")
        open_before = len(list(Path(f"/proc/{pid}/fd").iterdir()))
        peers = [
            idle.enter_context(socket.create_connection(("127.0.0.1", port), timeout=60))
            for _ in range(4 * WAITING)
        ]
        assert len(list(Path(f"/proc/{pid}/fd").iterdir())) <= open_before + CONNECTIONS + WAITING
        for peer in peers:
            with suppress(ConnectionResetError):
                assert peer.recv(1) == b""
        done = re.search(
            r"^convoy_iterations_total.* (\S+)$",
            get(f"http://127.0.0.1:{port}/metrics"),
            re.MULTILINE,
        )
        assert done is not None
        for line in process.stdout:
            if (
                line.startswith("progress")
                and int(line.split()[2].partition("/")[0]) > float(done[1]) + 10
            ):
                break
        process.send_signal(signal.SIGINT)
        process.stdout.read()
    assert process.returncode == 130
