"""NVIDIA's own frontend of cuDNN on the stand-in for cuDNN: the plans that it makes from our
graphs, engine by engine."""

from __future__ import annotations

import importlib.util
import re
import sysconfig
from pathlib import Path

import pytest

from tests.fake_cuda.processes import on_fake_cuda, script, with_cudnn
from tests.gpu.test_training import ITERATIONS, TWO, equals_single, placed
from tests.helpers.support import configure, events, run_directory, run_up, train

REASON = "pip install --no-deps nvidia-cudnn-frontend cuda-bindings cuda-pathfinder"
pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(400),
    pytest.mark.skipif(
        importlib.util.find_spec("cudnn") is None,
        reason=(f"NVIDIA's frontend is not here: {REASON}"),
    ),
]

PASSES = """
import ctypes, logging, sys
import numpy as np
from ops import ConvGeometry, get_backend
logging.basicConfig(level=logging.INFO, format="%(name)s %(message)s")
ops, right = get_backend("cupy", precision=sys.argv[1], cudnn=sys.argv[2]), get_backend("numpy")
random = np.random.default_rng(0)
def images(*shape):
    made = random.standard_normal(shape, np.float32)
    return made, ops.images(ops.asarray(made))
for g, c, k in (
    (ConvGeometry((3, 3), pad=(1, 1)), 4, 6),
    (ConvGeometry((3, 2), stride=(2, 1), pad=(1, 0), dilation=(1, 2), groups=2), 8, 6),
    (ConvGeometry((1, 1)), 4, 4),
):
    w = random.standard_normal((k, c // g.groups, *g.kernel), np.float32)
    (x, on_x), (dy, on_dy), on_w = images(3, c, 9, 8), images(*g.output_shape((3, c, 9, 8), k)), ops.asarray(w)
    b = random.standard_normal(k, np.float32)
    for got, expected in (
        (ops.conv_forward(on_x, on_w, None, g), right.conv_forward(x, w, None, g)),
        (ops.conv_forward(on_x, on_w, ops.asarray(b), g, rectify=True),
         right.conv_forward(x, w, b, g, rectify=True)),
        (ops.conv_backward_data(on_dy, on_w, g, x.shape), right.conv_backward_data(dy, w, g, x.shape)),
        (ops.conv_backward_weights(on_x, on_dy, g, w.shape, bias=False)[0],
         right.conv_backward_weights(x, dy, g, w.shape, bias=False)[0]),
    ):
        np.testing.assert_allclose(ops.to_host(got), expected, atol=1e-5 * np.abs(expected).max(), rtol=0)
print(ctypes.CDLL("libcudnn.so.9").fake_cudnn_ran())
"""


def computed(
    stand_in: Path, precision: str, how: str, fault: str = ""
) -> tuple[set[int], list[str]]:
    """Run twelve correct passes. Returns the engines of the stand-in that have run, and the log's
    line about each pass."""
    done = script(PASSES, with_cudnn(stand_in, on_fake_cuda(stand_in), fault), precision, how)
    assert done.returncode == 0, done.stderr
    ran = int(done.stdout)
    found = re.findall(r"^ops\.cudnn cuDNN, .*?: (.*)$", done.stderr, re.MULTILINE)
    assert len(found) == 12, done.stderr
    return {engine for engine in range(5) if ran >> engine & 1}, found


def test_engines_that_round_or_change_or_take_too_much_memory_are_passed_over(
    stand_in: Path,
) -> None:
    ran, told = computed(stand_in, "full", "deterministic")
    assert ran == {4}
    plain, whole = (
        "taken, engine 4, not timed; error",
        "taken, engine 4 with its epilogue, not timed;",
    )
    assert [line.startswith(plain) for line in told] == [True, False, True, True] * 3
    assert [line.startswith(whole) for line in told] == [False, True, False, False] * 3


def test_an_engine_whose_sums_change_from_run_to_run_is_tried_only_where_allowed(
    stand_in: Path,
) -> None:
    ran, told = computed(stand_in, "full", "fastest")
    assert ran == {3, 4}
    assert all(f"engine {engine}" in line for line in told for engine in ran)


def test_tensor_cores_are_tried_where_factors_may_be_rounded(stand_in: Path) -> None:
    # Results of engine 3 are 1 % off.
    ran, told = computed(stand_in, "tf32", "fastest", "wrong 3")
    assert ran == {0, 3, 4}
    assert all("engine 3 differs from lowering by" in line for line in told)


STARTS = """
from ops.cuda.conv import cudnn
known = cudnn.Planned._again
if sys.argv[3] == "idle":
    cudnn.Planned._again = lambda self, *given: (lambda: None) if self.direct else known(self, *given)
elif sys.argv[3] == "unknown":
    cudnn.KNOWN = ()
"""
DIRECT = """
print({plan.direct for plan in ops.chooser._chosen.values()})
"""


@pytest.mark.parametrize(("start", "direct"), [("", True), ("idle", False), ("unknown", False)])
def test_a_start_without_checks_that_leaves_other_results_is_not_used(
    start: str, direct: bool, stand_in: Path
) -> None:
    import_all, _, rest = PASSES.partition("logging.basicConfig")
    code = f"{import_all}{STARTS}logging.basicConfig{rest}{DIRECT}"
    env = with_cudnn(stand_in, on_fake_cuda(stand_in))
    done = script(code, env, "full", "deterministic", start)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[1] == f"{{{direct}}}"
    warned = done.stderr.count("without checks differs from its first run by ")
    assert warned == (12 if start == "idle" else 0)


FAULTS = {
    "wrong": "of the greatest value, expected at most 1e-04; lowered",
    "idle": "differs from lowering by ",
    "lacking": "no plan that runs (",
    "unsupported": "no plan that runs (",
    "large": "no plan that runs (",
    "failing": "engine 4 does not run (",
    "slow": "ms; lowered",
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_of_cudnn_is_logged_for_each_pass_and_lowering_computes(
    fault: str, stand_in: Path
) -> None:
    _, told = computed(stand_in, "full", "fastest", fault)
    assert all(FAULTS[fault] in line and line.endswith("; lowered") for line in told), told


@pytest.mark.skipif(
    Path(sysconfig.get_path("purelib"), "nvidia/cudnn").exists(), reason="cuDNN itself is here"
)
def test_without_cudnn_itself_the_package_to_install_is_named(stand_in: Path) -> None:
    code = (
        "import logging; from ops import get_backend; print(get_backend('cupy', "
        "cudnn='fastest').tries)"
    )
    done = script(code, on_fake_cuda(stand_in))
    assert done.stdout == "False\n"
    assert (
        "there is no libcudnn.so.9: install nvidia-cudnn-cu13); convolutions are lowered"
    ) in done.stderr


@pytest.mark.parametrize("fault", ["", "wrong"])
def test_a_whole_run_trains_the_same_model_as_the_cpu_whatever_cudnn_computes(
    fault: str, stand_in: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reference = train(configure(tmp_path / "cpu", "single", iterations=ITERATIONS))
    cluster = placed(
        configure(tmp_path / "device", "replicas", workers=2, iterations=ITERATIONS), TWO
    )
    for name, value in with_cudnn(stand_in, on_fake_cuda(stand_in, devices=2), fault).items():
        monkeypatch.setenv(name, value)
    done = run_up(cluster)
    assert done.returncode == 0, done.stderr
    equals_single(run_directory(cluster), reference.arrays)
    told = [event["text"] for event in events(run_directory(cluster), "warning")]
    # one line for each pass of LeNet's convolutions, for both replicas
    assert len(told) == (5 if fault else 0)
    assert all(
        "differs from lowering by 1.0e-02" in text and text.endswith("; lowered") for text in told
    ), told
