"""`plan` for machines with several GPUs: each worker has one, and arrays are copied between it and
host memory, as Accumulating gradients on CPUs measures it."""

from __future__ import annotations

from pathlib import Path

import pytest

import roles
from roles.base.shapes import Shapes
from runtime.plan.prospects import Prospects, Wanted
from runtime.runs.checking import check

MODEL = 4 * 431_080  # bytes of LeNet's parameters
RATE = 100_000_000
ROWS = 16  # of a worker
KIND = "[machine.box]\nflops = 1e10\nshare = 1.0\n{more}"
COPIES = f"devices = 4\ndevice_bytes_per_second = {RATE}\n"
CLUSTER = """[placement]
kinds = "kinds.toml"
[[machine]]
kind = "box"
[train]
net = "lenet"
solver = "lenet_digits_solver"
batch = {batch}
devices = {{ "{on}" = "{device}" }}
[train.data]
train = {{ format = "blank", shape = {shape}, size = 65536 }}
[train.strategy]
preset = "{preset}"
workers = {workers}
"""


def planned(
    folder: Path,
    preset: str,
    workers: int,
    more: str = COPIES,
    *,
    on: str = "*",
    device: str = "emulated",
    sections: str = "",
) -> Prospects:
    """The prediction for LeNet on one machine whose kind has these further keys. `sections`: of
    cluster.toml."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "kinds.toml").write_text(KIND.format(more=more))
    cluster = folder / "cluster.toml"
    values = {"shape": [1, 28, 28], "batch": ROWS * workers}
    text = CLUSTER.format(**values, on=on, device=device, preset=preset, workers=workers)
    cluster.write_text(sections + text)
    found = check(cluster, starts=False)
    assert isinstance(found.loaded.options, roles.Options)
    return roles.prospects(found.loaded.config, found.loaded.options, found.placement, Wanted())


def seconds(folder: Path, preset: str, workers: int, more: str = COPIES, *, on: str = "*") -> float:
    return planned(folder, preset, workers, more, on=on).of_chosen.seconds


def test_a_replica_copies_its_gradients_to_host_memory_and_their_sum_back(tmp_path: Path) -> None:
    alone = seconds(tmp_path, "single", 1)
    for preset in ("host-accumulate", "replicas", "firecaffe"):
        found = seconds(tmp_path, preset, 4)
        assert found - alone == pytest.approx(2 * MODEL / RATE, rel=0.01), preset


def test_a_server_on_a_gpu_of_a_worker_copies_its_model_in_addition(tmp_path: Path) -> None:
    alone = seconds(tmp_path, "single", 1)
    found = seconds(tmp_path, "parameter-server", 4)
    assert found - alone == pytest.approx(4 * MODEL / RATE, rel=0.01)
    in_host_memory = seconds(tmp_path, "parameter-server", 4, on="conv-*")
    assert in_host_memory - alone == pytest.approx(2 * MODEL / RATE, rel=0.01)


def test_workers_share_gpus_if_there_are_more_of_them(tmp_path: Path) -> None:
    alone = seconds(tmp_path, "single", 1)
    for devices, times in ((4, 1), (2, 2), (1, 4)):
        found = seconds(tmp_path, "replicas", 4, f"devices = {devices}\n")
        assert found == pytest.approx(times * alone, rel=0.01)


def test_copies_whose_rate_is_not_known_take_no_time_and_the_plan_says_so(tmp_path: Path) -> None:
    found = planned(tmp_path, "host-accumulate", 4, "devices = 4\n")
    assert found.of_chosen.seconds == pytest.approx(seconds(tmp_path, "single", 1), rel=0.01)
    assert "copies between a GPU of box and host memory: their rate is not known" in found.notes


def test_actors_on_the_cpu_copy_nothing(tmp_path: Path) -> None:
    alone = seconds(tmp_path, "single", 1)
    assert seconds(tmp_path, "host-accumulate", 4, on="accumulator") == pytest.approx(alone)


@pytest.mark.parametrize("preset", ["replicas", "host-accumulate", "sync", "parameter-server"])
def test_workers_of_one_gpu_copy_nothing_to_host_memory(tmp_path: Path, preset: str) -> None:
    def found(rate: str, sections: str = "") -> float:
        kind = f"devices = 2\n{rate}"
        told = planned(tmp_path, preset, 2, kind, device="cuda:0", sections=sections)
        return told.of_chosen.seconds

    copied = f"device_bytes_per_second = {RATE}\n"
    free = found("")
    assert found(copied) == pytest.approx(free)
    assert found(copied, "[links]\ndevice_memory = false\n") > 1.01 * free


def test_omnivore_copies_activations_and_the_conv_model(tmp_path: Path) -> None:
    """Its conv model is 24 times as small as LeNet's FC phase, which does not travel."""
    free = seconds(tmp_path, "sync", 4, "devices = 4\n")
    found = seconds(tmp_path, "sync", 4)
    assert 0 < found - free < MODEL / RATE


def test_rows_follow_the_devices_that_workers_have(tmp_path: Path) -> None:
    planned(tmp_path, "replicas", 4)
    kinds = "[machine.one]\nflops = 1e10\nshare = 1.0\n[machine.two]\nflops = 1e10\nshare = 1.0\n"
    (tmp_path / "kinds.toml").write_text(f"{kinds}devices = 2\n")
    machines = "".join(
        f'[[machine]]\nname = "{kind}"\nkind = "{kind}"\nhost = "{kind}"\n'
        for kind in ("one", "two")
    )
    cluster = tmp_path / "cluster.toml"
    text = cluster.read_text().replace('[[machine]]\nkind = "box"\n', machines)
    cluster.write_text('[launcher]\nkind = "manual"\n' + text)
    made = check(cluster, starts=False).placement
    shapes = Shapes(made.topology)
    home = {actor: spec.machine for spec in made.processes for actor in spec.actors}
    rows = {name: shapes.rows(name) for members in shapes.groups for name in members}
    found = {kind: {rows[name] for name in rows if home[name] == kind} for kind in ("one", "two")}
    assert found == {"one": {11}, "two": {21}}
