"""Training steps as calls and as CUDA graphs: how many calls they make, and the reasons for replays
call by call. `tests.gpu.test_replay` compares their bits with those of plain steps."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.fake_cuda.processes import command, on_fake_cuda, script, with_cudnn
from tests.gpu.test_replay import BEGIN, done

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]

COUNTED = """
import cupy, fake_cuda
from collections import Counter
calls = Counter()
def counting(owner, name):
    plain = getattr(owner, name)
    def counted(*given, **named):
        calls[name] += 1
        return plain(*given, **named)
    setattr(owner, name, counted)
rt = cupy.cuda.runtime
for owner in (rt, cupy.cuda.driver, cupy.cuda.Event, cupy.cuda.Stream):
    for name in vars(owner):
        if "cython_function" in type(vars(owner)[name]).__name__:
            counting(owner, name)
def note(frame, what, function):
    owner = getattr(function, "__self__", None)
    if what == "c_call" and "cupy" in f"{getattr(function, '__module__', '')} {type(owner).__module__}":
        calls[function.__qualname__] += 1
class Memory(cupy.cuda.MemoryHook):
    name = "memory"
    def malloc_preprocess(self, **given):
        calls["allocations"] += 1
one = Trained("graph")
one.train(range(8))
assert one.as_wanted
late = None
for number in range(8, 18):
    shapes = [one.net.input_shapes[blob] for blob in one.net.inputs]
    fed = [one.ops.staged(np.ones(shape, np.float32)) for shape in shapes]
    one.net.begin(number)
    calls.clear()
    before = fake_cuda.counts()
    with Memory():
        sys.setprofile(note)
        for blob, host in zip(one.net.inputs, fed, strict=True):
            one.net.feed(blob, host)
        started = one.step()
        assert not calls["eventSynchronize"] and calls["graphLaunch"] == 1, calls
        if late is not None:
            late()
        sys.setprofile(None)
    late = started
    counts = {what: count - before[what] for what, count in fake_cuda.counts().items()}
    assert calls["allocations"] == counts["allocations"] == counts["products"] == 0, (calls, counts)
    assert counts["graphs"] == 1 and counts["synchronisations"] <= 1, counts
    # operators of CuPy's arrays show as launches
    assert 10 < sum(calls.values()) + counts["launches"] <= 20, (calls, counts)
"""


def test_between_two_steps_there_are_few_calls_no_allocation_and_one_wait_after_the_launch(
    stand_in: Path,
) -> None:
    done(stand_in, COUNTED)


REFUSED = """
import cupy
from ops.backends.cupy_backend import CupyBackend
def refusing(self, mode=None):
    raise cupy.cuda.runtime.CUDARuntimeError(801)
def broken(self, recording, graph=CupyBackend.graph):
    wait = lambda to: cupy.cuda.runtime.streamSynchronize(to.stream)
    recording.elsewhere = (*recording.elsewhere[:3], wait, *recording.elsewhere[3:])
    return graph(self, recording)
for owner, name, planted in ((cupy.cuda.Stream, "begin_capture", refusing), (CupyBackend, "graph", broken)):
    kept = getattr(owner, name)
    setattr(owner, name, planted)
    (found,) = compared(lambda one: one.train(range(12)), hows=("graph",))
    setattr(owner, name, kept)
    assert found.replays == 1 and found.step.calls > 20
# a capture that failed has left the device as it was
assert compared(lambda one: one.train(range(12)), hows=("graph",))[0].as_wanted
"""


def test_a_graph_that_cannot_be_made_is_told_in_one_line_and_its_calls_are_replayed(
    stand_in: Path,
) -> None:
    refused, broken = done(stand_in, REFUSED).splitlines()
    begins = "train.gpu_step: steps are replayed call by call, since no graph can be made of it: "
    assert refused.startswith(f"{begins}CUDARuntimeError: cudaErrorNotSupported")
    assert broken.startswith(f"{begins}CUDARuntimeError: cudaErrorStreamCaptureUnsupported")


BY_CUDNN = """
from ops.cuda.conv.cudnn import Planned
ran = []
again = Planned._again
Planned._again = lambda self, *given: ran.append(self) or again(self, *given)
(found,) = compared(lambda one: one.train(range(12)), hows=("graph",), cudnn="deterministic")
assert found.as_wanted and ran, found.step.recordings.refused
"""


def test_the_plans_of_cudnn_are_part_of_a_graph(stand_in: Path) -> None:
    found = script(BEGIN + BY_CUDNN, with_cudnn(stand_in, on_fake_cuda(stand_in)))
    assert found.returncode == 0, found.stderr


CALLS = """
from collections import Counter
from tests.gpu.steps import net_of, BATCH
from nets import load_solver
from ops import get_backend
from roles.learning.buffers import gradient_buffers
from roles.learning.parameter_store import ParameterStore
backend = get_backend("cupy")
net = net_of(sys.argv[1], int(sys.argv[2]), backend)
store = ParameterStore(net.params, net.initial_blobs(), load_solver("lenet_solver"), backend, in_place=True)
step = ReplayedStep(net, store, gradient_buffers(net))
inside = Counter()
def note(frame, what, argument):
    if what == "call":
        inside[frame.f_code.co_qualname] += 1
for number in range(6):
    net.begin(number)
    for blob in net.inputs:
        net.feed(blob, np.ones(net.input_shapes[blob], np.float32))
    inside.clear()
    sys.setprofile(note)
    late = step()
    sys.setprofile(None)
    late()
assert not step.recordings.refused, step.recordings.refused
assert inside["Recording.replay"] == 1 and not inside["Net.forward"], inside
print(step.calls, sum(inside.values()), file=sys.stderr)
"""


# net, the size of its images, and the most calls of a recorded step
MOST = {"lenet": (28, 42), "resnet50": (32, 590)}
FUNCTIONS = 55  # the most functions in Python that a replayed step runs, of whatever net


@pytest.mark.parametrize("net", MOST)
def test_a_replay_makes_few_calls_and_runs_no_function_in_python_for_a_call_or_a_layer(
    net: str, stand_in: Path
) -> None:
    size, calls = MOST[net]
    found = script(BEGIN + CALLS, on_fake_cuda(stand_in), net, size)
    assert found.returncode == 0, found.stderr
    made, run = map(int, found.stderr.split())
    assert 0.9 * calls <= made <= calls
    assert run <= FUNCTIONS


def test_the_time_of_python_is_measured_on_steps_that_are_replayed(stand_in: Path) -> None:
    found = command(["-m", "tests.gpu.step_time"], on_fake_cuda(stand_in))
    assert found.returncode == 0, found.stderr
    assert json.loads(found.stdout).keys() == MOST.keys()
