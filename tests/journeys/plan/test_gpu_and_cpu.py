"""A GPU and the processors of its machine in one group: `plan` predicts their shares of a batch, and
whether the processors pay (Omnivore, sections 5.1 and C.5)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import roles
from roles.base.shapes import Shapes
from runtime.plan.prospects import Prospects, Wanted
from runtime.runs.checking import Checked, check

FAST = 3.0  # times as fast as the processors is the GPU
KIND = """[machine.box]
flops = 3e10
share = 1.0
{more}"""
CPU = "cpu_flops = 1e10\n"
CLUSTER = """[placement]
kinds = "kinds.toml"
[[machine]]
{kind}
[train]
net = "lenet"
solver = "lenet_digits_solver"
batch = 64
devices = {devices}
[train.data]
train = {{ format = "blank", shape = [1, 28, 28], size = 65536 }}
[train.strategy]
preset = "{preset}"
workers = {workers}
{more}
"""
ONE = '{ "*-0" = "cuda:0" }'
OF_BOX = 'kind = "box"'


def planned(
    folder: Path,
    preset: str = "replicas",
    *,
    cpu: str = CPU,
    devices: str = ONE,
    workers: int = 2,
    kind: str = OF_BOX,
    more: str = "",
) -> Checked:
    (folder / "kinds.toml").write_text(KIND.format(more=cpu))
    cluster = folder / "cluster.toml"
    cluster.write_text(
        CLUSTER.format(kind=kind, devices=devices, preset=preset, workers=workers, more=more)
    )
    return check(cluster, starts=False)


def predicted(found: Checked, wanted: Wanted | None = None) -> Prospects:
    assert isinstance(found.loaded.options, roles.Options)
    config, options = found.loaded.config, found.loaded.options
    return roles.prospects(config, options, found.placement, wanted or Wanted())


def rows(found: Checked) -> list[int]:
    shapes = Shapes(found.placement.topology)
    return [shapes.rows(name) for members in shapes.groups for name in members]


@pytest.mark.parametrize("preset", ["replicas", "host-accumulate", "sync"])
def test_rows_follow_the_flops_of_the_gpu_and_of_the_processors(
    tmp_path: Path, preset: str
) -> None:
    found = planned(tmp_path, preset)
    assert rows(found) == [48, 16]
    assert any(note.endswith("as soon as the run has them: 48, 16") for note in found.notes)


def test_the_iteration_with_both_is_as_much_shorter_as_there_are_more_flops(tmp_path: Path) -> None:
    both = predicted(planned(tmp_path)).of_chosen.seconds
    alone = predicted(planned(tmp_path, "single", workers=1, devices='{ "*" = "cuda:0" }'))
    assert both == pytest.approx(alone.of_chosen.seconds * FAST / (FAST + 1), rel=0.02)


def test_plan_tells_the_rows_and_the_time_of_the_gpu_alone(tmp_path: Path) -> None:
    found = predicted(planned(tmp_path))
    (line,) = found.remarks
    text = "replica-1 on the CPU: rows of a batch: replica-0 48, replica-1 16; an iteration takes "
    assert line.startswith(f"{text}{found.of_chosen.seconds:.4g} s, and ")
    assert line.endswith(" on the GPU alone")


def test_plan_advises_against_processors_that_make_an_iteration_longer(tmp_path: Path) -> None:
    """The GPU copies its gradients for the sum, which takes longer than the processors save."""
    found = predicted(planned(tmp_path, cpu=f"{CPU}device_bytes_per_second = 100000000\n"))
    (line,) = found.remarks
    assert line.startswith("replica-1 on the CPU does not pay: rows of a batch: replica-0 ")
    assert line.endswith("name only workers on GPUs, train.strategy.workers = 1")


def test_with_equal_shares_the_processors_hold_the_gpu_up(tmp_path: Path) -> None:
    found = planned(tmp_path, more='shares = "equal"')
    assert rows(found) == [32, 32]
    (line,) = predicted(found).remarks
    assert "does not pay" in line


def test_two_gpus_and_the_processors_share_a_batch(tmp_path: Path) -> None:
    devices = '{ "*-0" = "cuda:0", "*-1" = "cuda:1" }'
    found = planned(tmp_path, cpu=f"{CPU}devices = 2\n", devices=devices, workers=3)
    assert rows(found) == [27, 27, 10]
    (line,) = predicted(found).remarks
    assert line.startswith("replica-2 on the CPU: ")


def test_without_the_speed_of_the_processors_the_plan_says_so(tmp_path: Path) -> None:
    found = planned(tmp_path, cpu="")
    assert rows(found) == [32, 32]
    (note,) = [note for note in predicted(found).notes if "processors of box" in note]
    assert note.endswith("their speed is not known (cpu_flops), so that they are counted as a GPU")


def test_without_workers_on_a_gpu_the_processors_have_no_speed_of_their_own(tmp_path: Path) -> None:
    known = predicted(planned(tmp_path, devices="{}")).of_chosen.seconds
    unknown = predicted(planned(tmp_path, devices="{}", cpu="")).of_chosen.seconds
    assert known == unknown


def test_a_rented_machine_is_predicted_with_the_shares_of_measured_speeds(tmp_path: Path) -> None:
    found = planned(tmp_path, kind="", more='shares = "throughput"')
    assert rows(found) == [32, 32]  # `up` knows no speeds before it measures them
    assert any("equal rows at first, and by measured speeds" in note for note in found.notes)
    (line,) = predicted(found, Wanted(machine="box", machines=tmp_path / "kinds.toml")).remarks
    assert "replica-0 48, replica-1 16" in line


def test_a_profile_of_each_worker_gives_the_rows_on_which_the_run_settles(tmp_path: Path) -> None:
    """Two updates take as long on both workers, whatever their rows. The run settles where the
    speeds of an iteration move no whole row any more."""
    found = planned(tmp_path, "host-accumulate", kind="", more='shares = "throughput"')
    profile = tmp_path / "profile.json"

    def wanted(update: float) -> str:
        table = {
            "replica-0/forward": {"mean": 0.016, "rows": 32},
            "replica-1/forward": {"mean": 0.048, "rows": 32},
            "*/update": update,
            "*/*": 0,
        }
        profile.write_text(json.dumps(table))
        (line,) = predicted(found, Wanted(profile=profile)).remarks
        return line

    assert "replica-0 48, replica-1 16" in wanted(0.0)
    assert "replica-0 46, replica-1 18" in wanted(0.02)
