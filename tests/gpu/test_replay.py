"""Steps that are recorded once and replayed, call by call or as a graph: they leave the bits of
plain steps, whatever changes between two of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from nets.files import checkpoint
from tests.fake_cuda.processes import on_fake_cuda, script
from tests.gpu.test_training import placed, trained
from tests.helpers.support import configure, events

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]

BEGIN = """
import logging, sys
import numpy as np
from nets.definition.rate_schedule import RateSchedule
from tests.gpu.replays import NET, StepInParts, Trained, compared, solver_of
from roles.learning.replayed_step import ReplayedStep
logging.basicConfig(format="%(message)s")
"""


def done(stand_in: Path, code: str, **settings: object) -> str:
    """Run code on the stand-in. Returns what it logged."""
    found = script(BEGIN + code, on_fake_cuda(stand_in, **settings))
    assert found.returncode == 0, found.stderr
    return found.stderr


RULES = """
for kind in ("SGD", "Nesterov", "AdaGrad", "RMSProp", "AdaDelta", "Adam", "AdamW", "SGDW", "NesterovW"):
    values = {"type": kind, "base_lr": 0.001, "delta": 1e-6}
    values |= {"rms_decay": 0.9} if kind == "RMSProp" else {}
    values |= {"momentum": 0.0} if kind in ("AdaGrad", "RMSProp") else {}
    for found in compared(lambda one: one.train(range(100)), solver=solver_of(**values)):
        assert found.as_wanted, (kind, found.how, found.step.recordings.refused)
"""


def test_a_hundred_replayed_steps_leave_the_bits_of_plain_ones_with_every_optimizer(
    stand_in: Path,
) -> None:
    done(stand_in, RULES)


POLICIES = """
policies = {
    "fixed": {}, "step": {"stepsize": 7, "gamma": 0.9}, "exp": {"gamma": 0.98}, "inv": {},
    "multistep": {"gamma": 0.5}, "poly": {}, "sigmoid": {"stepsize": 50},
}
solvers = [solver_of(lr_policy=policy, **values) for policy, values in policies.items()]
solvers += [
    solver_of(RateSchedule(kind, warmup=10, every=20), lr_policy="fixed")
    for kind in ("cosine", "linear", "step", "solver", "one-cycle")
]
for solver in solvers:
    for found in compared(lambda one: one.train(range(100)), solver=solver):
        assert found.as_wanted, (found.how, found.step.recordings.refused)
"""


def test_a_hundred_replayed_steps_follow_every_schedule_of_the_rate(stand_in: Path) -> None:
    done(stand_in, POLICIES)


CHANGES = """
def changing(one):
    found = one.train(range(10))
    found += one.train(range(10, 20), rows=5)  # another share of the batch
    found += one.train(range(20, 30))
    assert one.step.recordings.refused or one.replays == 2
    found.append(one.tested())  # takes more scratch memory, and a larger block
    found += one.train(range(30, 40))
    kept, version = one.store.state(), 40
    found += one.train(range(40, 50))
    one.store.restore(kept, version)  # as a run that resumes, or a probe that is taken back
    found += one.train(range(40, 60))
    one.store.set_rates(0.02, 0.5)
    found += one.train(range(60, 70))
    found.append(one.tested())
    return found + one.train(range(70, 100), rows=16)
for kind in (ReplayedStep, StepInParts):
    assert all(found.replays >= 1 for found in compared(changing, kind=kind))
"""


def test_replayed_steps_go_on_after_other_batches_tests_another_rate_and_a_restored_model(
    stand_in: Path,
) -> None:
    done(stand_in, CHANGES)


MOVED = """
def moving(what):
    def run(one):
        found = one.train(range(8))
        before = [*one.step.recordings.by_size.values()]
        assert one.step.recordings.refused or before[0].tried
        if what == "the block":
            old = one.net._block.array
            one.net._block.grow(old.size + 1)
            old[...] = 255
        elif what == "a parameter":
            old = one.store._blobs["conv"][0]
            one.store._blobs["conv"] = (old.copy(), *one.store._blobs["conv"][1:])
            old[...] = np.nan
        elif what == "a history":
            old = one.store._history["conv"][0][0]
            one.store._history["conv"] = ((old.copy(),), *one.store._history["conv"][1:])
            old[...] = np.nan
        else:
            one.ops.scratch.take("windows", (1 << 22,), np.float32)
        found += one.train(range(8, 16))
        assert one.step.recordings.refused or (one.replays == 1 and before[0] not in one.step.recordings.by_size.values())
        return found
    return run
for what in ("the block", "a parameter", "a history", "scratch memory"):
    compared(moving(what))
for what in ("the block", "a parameter", "scratch memory"):
    compared(moving(what), kind=StepInParts)
"""


def test_nothing_is_replayed_over_memory_that_has_moved(stand_in: Path) -> None:
    done(stand_in, MOVED, seed=5)


UNSEEN = """
from nets.layers.base import Layer, register
@register("Doubled")
class Doubled(Layer):
    def _shape(self, shapes, setup):
        return [shapes[0]]
    def forward(self, bottoms, blobs, run):
        return [bottoms[0] * 2]  # CuPy's own kernel, in new memory
    def backward(self, grads, values, run, wanted, out):
        return [grads[0] * 2 if wanted[0] else None], ()
added = 'layer { name: "twice" type: "Doubled" bottom: "hidden" top: "twice" }\\nlayer { name: "scores"'
net = NET.replace('layer { name: "scores"', added).replace('bottom: "hidden" top: "scores"', 'bottom: "twice" top: "scores"')
for kind in (ReplayedStep, StepInParts):
    (found,) = compared(lambda one: one.train(range(20)), hows=("replay",), net=net, kind=kind)
    assert found.replays == 0
"""


def test_work_that_no_recording_sees_is_found_when_the_recording_is_tried(stand_in: Path) -> None:
    whole, in_parts = done(stand_in, UNSEEN).splitlines()
    told = "train.gpu_step: steps are computed plainly, since a replay leaves"
    assert whole.startswith(f"{told} another '")
    assert in_parts == f"{told} other numbers in part 2 of 3 than a plain pass"


GAP = """
net = NET.replace('type: "Dropout" bottom: "hidden" top: "hidden"', 'type: "TanH" bottom: "hidden" top: "hidden"')
(found,) = compared(lambda one: one.train(range(20)), hows=("replay",), net=net)
assert found.replays == 0
"""


WHOLE = """
(found,) = compared(lambda one: one.train(range(20)), hows=("replay",), solver=solver_of(type="LARS"))
assert found.replays == 0
"""


def test_an_optimizer_that_updates_parameters_one_by_one_is_plain(stand_in: Path) -> None:
    assert done(stand_in, WHOLE) == (
        "train.gpu_step: steps are computed plainly, since the update of the parameters does "
        "work that cannot be recorded\n"
    )


def test_the_layer_that_cannot_be_recorded_is_named_once(stand_in: Path) -> None:
    assert done(stand_in, GAP) == (
        "train.gpu_step: steps are computed plainly, since forward of hidden, drop does work "
        "that cannot be recorded\n"
    )


TURNS = """
one = Trained("replay")
for number in range(60):
    one.train(range(number, number + 1), rows=2 + number % SIZES)
print(one.replays, file=sys.stderr)
"""


def test_four_sizes_of_batch_are_replayed_in_turns_and_with_five_a_warning_is_given(
    stand_in: Path,
) -> None:
    *lines, replays = done(stand_in, "SIZES = 4" + TURNS).splitlines()
    assert int(replays) == 4
    assert "sizes of batch take turns" not in "".join(lines)
    *lines, replays = done(stand_in, "SIZES = 5" + TURNS).splitlines()
    assert 1 <= int(replays) <= 4
    said = "more than 4 sizes of batch take turns: steps of some sizes are computed plainly"
    assert [line for line in lines if said in line] == [f"train.gpu_step: {said}"]


LABELS = """
from nets import PrototxtError
for kind in (ReplayedStep, StepInParts):
    for how in ("replay", "graph"):
        one = Trained(how, kind=kind)
        one.train(range(8))
        assert one.as_wanted
        one.begin(one.net, 8, 8)
        one.net.feed("label", one.ops.staged(np.array([0, 1, 2, 3, 4, 7, 0, 1], np.float32)))
        try:
            one.step()()
        except PrototxtError as error:
            print(error, file=sys.stderr)
"""


def test_a_label_that_is_not_a_class_is_reported_by_a_replay_with_its_layer(stand_in: Path) -> None:
    expected = "layer 'loss': a label is 7, expected a whole number from 0 to 4"
    lines = done(stand_in, LABELS).splitlines()
    assert len(lines) == 4
    assert all(line.endswith(expected) for line in lines)


COUNTS = """
import fake_cuda
for kind in (ReplayedStep, StepInParts):
    one = Trained("replay", kind=kind)
    one.train(range(8))
    before = fake_cuda.counts()
    one.train(range(8, 18))
    counts = {what: number - before[what] for what, number in fake_cuda.counts().items()}
    assert counts["allocations"] == counts["compilations"] == 0, counts
    assert counts["synchronisations"] == 10 and counts["copies_to_host"] == 20, counts
"""


def test_a_replayed_step_waits_once_and_takes_no_memory(stand_in: Path) -> None:
    done(stand_in, COUNTS)


def test_a_run_whose_steps_are_replayed_has_the_losses_tests_and_model_of_a_plain_one(
    stand_in: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = {}
    for how in ("plain", "replay", "graph"):
        cluster = placed(
            configure(tmp_path / how, "single", iterations=30, test=True), '{ "*" = "cuda:0" }'
        )
        text = cluster.read_text()
        cluster.write_text(
            text.replace("[train]\n", f'[train]\ncudnn = "off"\ngpu_step = "{how}"\n')
        )
        directory = trained(cluster, stand_in, monkeypatch)
        assert not events(directory, "warning")
        arrays, _ = checkpoint.load(directory / events(directory, "checkpoint")[-1]["file"])
        told = [entry["loss"] for entry in events(directory, "progress")]
        accuracy = [entry["accuracy"] for entry in events(directory, "test")]
        found[how] = told, accuracy, {name: array.tobytes() for name, array in arrays.items()}
    assert len(found["plain"][0]) == 30
    assert found["replay"] == found["graph"] == found["plain"]
