"""The start of a device. A device that is missing, too old, too small or lost gives one line and
the right exit code."""

from __future__ import annotations

import importlib.util
import re
import subprocess
from pathlib import Path

import pytest

from roles.commands.common import device_of
from tests.fake_cuda.processes import on_fake_cuda, script
from tests.gpu.test_training import placed
from tests.helpers.support import configure, environment, events, run_directory, runtime_command

TURNS = """
import threading, time
from ops import get_backend
import cupy
starting = threading.Thread(target=get_backend, args=("cupy",))
starting.start()
turns = 0
while starting.is_alive():
    turns += 1
    time.sleep(0.01)
print(turns)
"""


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_other_threads_run_on_while_the_driver_starts(stand_in: Path) -> None:
    done = script(TURNS, on_fake_cuda(stand_in, start_seconds=1))
    assert int(done.stdout) > 10, done.stderr  # only one call holds the interpreter's lock


def run(command: str, cluster: Path, env: dict[str, str]) -> tuple[int, str]:
    """Run the command. Returns its exit code and the lines on stderr about the end."""
    done = subprocess.run(
        runtime_command(command, cluster.name),
        cwd=cluster.parent, env=env, capture_output=True, text=True, timeout=100, check=False,
    )  # fmt: skip
    assert "Traceback" not in done.stderr, done.stderr
    return done.returncode, done.stderr.strip()


def on_device(folder: Path, devices: str = '{ "*" = "cuda:0" }', **options: object) -> Path:
    return placed(
        configure(folder, "replicas", workers=2, **({"iterations": 30} | options)), devices
    )


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_a_driver_that_takes_five_seconds_to_start_does_not_count_as_silence(
    stand_in: Path, tmp_path: Path
) -> None:
    cluster = on_device(tmp_path, iterations=3)
    code, said = run("up", cluster, on_fake_cuda(stand_in, start_seconds=5))
    assert code == 0, said
    assert events(run_directory(cluster), "finished")[-1]["iterations"] == 3


def test_without_cupy_check_names_the_package_to_install(tmp_path: Path) -> None:
    if importlib.util.find_spec("cupy") is not None:
        pytest.skip("cupy is here")
    code, said = run("check", on_device(tmp_path), environment())
    assert code == 2
    assert said == (
        "cluster.toml:3: train.devices: found cuda:0, but here cupy is not installed: "
        "install the extra 'gpu' or "
        "cupy-cuda13x[ctk]"
    )


def test_a_run_on_gpus_is_planned_on_a_machine_without_gpus(tmp_path: Path) -> None:
    code, said = run("plan", on_device(tmp_path), environment())
    assert code == 0, said


CHECKED = {
    "no driver": ({}, "there is no NVIDIA driver (libcuda.so.1 cannot be loaded): install one"),
    "a driver too old": (
        {"driver": 12040},
        ("the driver is too old: it is for CUDA 12.4, this cupy needs 13.0: update"),
    ),
}


@pytest.mark.slow
@pytest.mark.timeout(400)
@pytest.mark.parametrize("case", CHECKED)
def test_check_refuses_devices_known_to_be_unusable_with_exit_code_2(
    case: str, stand_in: Path, tmp_path: Path
) -> None:
    settings, told = CHECKED[case]
    env = on_fake_cuda(stand_in, **settings)
    if case == "no driver":
        del env["LD_LIBRARY_PATH"]
    code, said = run("check", on_device(tmp_path), env)
    assert (
        code == 2 and (f"cluster.toml:3: train.devices: found cuda:0, but here {told}") in said
    ), said
    assert said.count("\n") == 0


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_a_driver_for_a_later_cuda_than_cupys_is_taken(stand_in: Path, tmp_path: Path) -> None:
    code, said = run("up", on_device(tmp_path, iterations=3), on_fake_cuda(stand_in, driver=14020))
    assert code == 0, said


LAUNCHED = {
    "no device": (
        {"devices": 0},
        "cuda:0",
        16,
        ("the driver knows of none, or CUDA_VISIBLE_DEVICES hides them all"),
    ),
    "a number too high": (
        {"devices": 1},
        "cuda:3",
        16,
        ("found device 3, expected 0 to 0: this machine has 1"),
    ),
    "no memory for a process": (
        {"memory_gb": 0.0005},
        "cuda:0",
        16,
        "device 0 cannot be used: its memory does not suffice",
    ),
    "no memory for cuBLAS": (
        {"memory_gb": 0.0015},
        "cuda:0",
        16,
        (
            "cuBLAS does not start (CUBLASError: CUBLAS_STATUS_ALLOC_FAILED); often the device's "
            "memory does not suffice"
        ),
    ),
    "no memory for the net": (
        {"memory_gb": 0.004},
        "cuda:0",
        16,
        "does not get the memory that it needs to start: cuda:0 has no room for ",
    ),
}


@pytest.mark.slow
@pytest.mark.timeout(400)
@pytest.mark.parametrize("case", LAUNCHED)
def test_a_fault_found_when_a_device_is_taken_ends_with_exit_code_3(
    case: str, stand_in: Path, tmp_path: Path
) -> None:
    settings, device, batch, told = LAUNCHED[case]
    cluster = on_device(tmp_path, f'{{ "*" = "{device}" }}', batch=batch)
    code, said = run("up", cluster, on_fake_cuda(stand_in, **settings))
    assert code == 3, said
    assert told in said and said.startswith("process replica-") and said.count("\n") == 0, said


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_memory_that_runs_out_in_a_pass_ends_the_run_with_what_to_change(
    stand_in: Path, tmp_path: Path
) -> None:
    cluster = on_device(tmp_path, batch=128)
    code, said = run("up", cluster, on_fake_cuda(stand_in, memory_gb=0.02))
    assert code == 4, said
    expected = r"OutOfDeviceMemory: cuda:0 has no room for \d+ bytes more; .* train\.batch"
    assert re.search(expected, said), said


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_a_device_that_is_lost_ends_the_run_with_exit_code_4_and_the_name_of_its_actor(
    stand_in: Path, tmp_path: Path
) -> None:
    cluster = on_device(tmp_path, '{ "replica-1" = "cuda:0" }', iterations=1000)
    code, said = run("up", cluster, on_fake_cuda(stand_in, vanish_after=1500))
    assert code == 4, said
    assert (
        said.startswith("replica-1 (process replica-1 on ")
        and "cudaErrorDevicesUnavailable" in said
    ), said


PLANTED = """
import cupy
from roles import ROLES, Options, plan
cupy.zeros(1)  # in the nursery, before it forks the role processes
"""


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_a_program_that_uses_cuda_before_the_fork_ends_with_that_as_its_cause(
    stand_in: Path, tmp_path: Path
) -> None:
    (tmp_path / "planted.py").write_text(PLANTED)
    cluster = on_device(tmp_path)
    cluster.write_text('program = "planted"\n' + cluster.read_text())
    code, said = run("up", cluster, on_fake_cuda(stand_in))
    assert code == 3, said
    assert "nothing may touch the GPU before the fork" in said, said


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_time_names_the_device_that_it_times(stand_in: Path, tmp_path: Path) -> None:
    cluster = on_device(tmp_path, '{ "replica-*" = "cuda:1" }')
    env = on_fake_cuda(stand_in, devices=2)
    words = [*runtime_command("time", cluster.name), "--iterations", "1"]
    for more, told in (((), "on cuda:1"), (("--device", "cpu"), "on cpu")):
        done = subprocess.run(
            [*words, *more],
            cwd=tmp_path,
            env=env,
            capture_output=True,
            text=True,
            timeout=100,
            check=False,
        )
        assert done.returncode == 0 and told in done.stdout.splitlines()[0], (
            done.stdout + done.stderr
        )


@pytest.mark.parametrize(
    ("devices", "expected"),
    [
        ({}, "cpu"),
        ({"*": "cuda:1"}, "cuda:1"),
        ({"sing*": "cuda:2", "*": "cpu"}, "cuda:2"),
        ({"conv-*": "cuda:0", "fc*": "cuda:1"}, "cuda:0"),
        ({"*": "emulated:profile.json"}, "emulated"),
    ],
)
def test_a_command_without_a_topology_takes_the_device_of_single_or_the_first_named(
    devices, expected
) -> None:
    assert device_of(devices) == expected
