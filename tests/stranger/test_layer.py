"""A layer type of an installed package: computed, planned, timed and trained like a built-in
layer."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from nets import Net, PrototxtError, load_net
from nets.layers import KINDS, Run, Setup, Values, make_layer
from ops import get_backend
from ops.gradcheck import check_gradient
from runtime.cli.main import main
from tests.helpers.support import configure, events, run_directory, run_up
from tests.stranger.layer import Softsign

GROUP = "convoy.layers"
BROUGHT = {GROUP: {"Softsign": "tests.stranger.layer:Softsign"}}
RUN = Run("TRAIN", 1, 3, 0, 4, 4)
Install = Callable[..., None]


def net_with(folder: Path, kind: str, options: str = "") -> Path:
    """LeNet with another layer behind its first convolution."""
    more = f'layer {{ name: "bend" type: "{kind}" bottom: "conv1" top: "bend" {options} }}\n'
    text = load_net("lenet").path.read_text().replace('bottom: "conv1"', 'bottom: "bend"')
    head, mark, tail = text.partition('layer {\n  name: "pool1"')
    path = folder / "bent.prototxt"
    path.write_text(head + more + mark + tail)
    return path


def test_its_gradient_matches_its_forward_pass(tmp_path: Path, install: Install) -> None:
    install(BROUGHT)
    spec = load_net(
        net_with(tmp_path, "Softsign", ("python_param { param_str: '{\"steepness\": 2}' }"))
    )
    layer = make_layer(
        next(one for one in spec.layers if one.proto.name == "bend"), get_backend(), np.float64
    )
    x_NCHW = np.random.default_rng(1).standard_normal((4, 3, 5, 5))
    assert layer.setup([x_NCHW.shape], Setup("TRAIN", None, None)) == [x_NCHW.shape]
    np.testing.assert_allclose(
        layer.forward([x_NCHW], (), RUN)[0], 2 * x_NCHW / (1 + 2 * abs(x_NCHW))
    )

    def backward(dy: np.ndarray, x: np.ndarray) -> list[np.ndarray]:
        values = Values([x], layer.forward([x], (), RUN), ())
        return [
            grad for grad in layer.backward([dy], values, RUN, [True], None)[0] if grad is not None
        ]

    check_gradient(lambda x: layer.forward([x], (), RUN)[0], backward, x_NCHW)


def test_processes_train_with_it(tmp_path: Path, install: Install) -> None:
    install(BROUGHT)
    net_with(tmp_path, "Softsign")
    cluster = configure(tmp_path, "sync", workers=2, iterations=3)
    done = run_up(cluster, "--set", "train.net=bent.prototxt")
    assert done.returncode == 0, done.stderr
    assert [event["loss"] for event in events(run_directory(cluster), "progress")][2] < 3


def test_it_is_timed_and_its_memory_and_traffic_are_planned(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    install: Install,
) -> None:
    install(BROUGHT)
    monkeypatch.chdir(tmp_path)
    net_with(tmp_path, "Softsign")
    configure(tmp_path, "sync", workers=2)
    assert (
        main(
            [
                "time",
                "--iterations",
                "1",
                "--set",
                "train.batch=4",
                "--set",
                "train.net=bent.prototxt",
            ]
        )
        == 0
    )
    assert "\nbend " in capsys.readouterr().out
    assert main(["plan", "--set", "train.net=bent.prototxt"]) == 0
    assert "conv-0-0" in capsys.readouterr().out
    assert "Softsign" not in KINDS


def mistake(folder: Path, kind: str, options: str = "") -> str:
    with pytest.raises(PrototxtError) as caught:
        Net(
            load_net(net_with(folder, kind, options)),
            "TRAIN",
            ops=get_backend(),
            input_shape=(1, 28, 28),
            batch=2,
        )
    [problem] = caught.value.problems
    return problem.partition("layer 'bend': ")[2]


def test_a_misspelt_type_is_reported_with_the_nearest_of_all_types(
    tmp_path: Path, install: Install
) -> None:
    install(BROUGHT)
    found = "key 'type': found 'SoftSing', expected a layer type (did you mean 'Softsign'?)"
    assert mistake(tmp_path, "SoftSing") == found


@pytest.mark.parametrize(
    ("told", "problem"),
    [
        ('{"steepnes": 2}', "unknown key 'steepnes' (did you mean 'steepness'?)"),
        ('{"steepness": "2"}', "'steepness': found \"2\", expected a value of type float"),
        ("[2]", "found [2], expected a JSON object of steepness"),
        pytest.param("[" * 100_000, "not JSON: maximum recursion depth exceeded", id="deep"),
        ("steep", "not JSON: Expecting value: line 1 column 1 (char 0)"),
    ],
)
def test_mistakes_in_its_settings_are_reported_with_their_line(
    tmp_path: Path, install: Install, told: str, problem: str
) -> None:
    install(BROUGHT)
    options = f"python_param {{ param_str: '{told}' }}"
    assert mistake(tmp_path, "Softsign", options).startswith(
        f"key 'python_param.param_str': {problem}"
    )


@pytest.mark.parametrize(
    ("place", "problem"),
    [
        (
            "no_such_module:Softsign",
            ("cannot be imported: ModuleNotFoundError: No module named 'no_such_module'"),
        ),
        (
            "tests.stranger.layer:Sofsign",
            ("cannot be imported: AttributeError: module 'tests.stranger.layer' has no"),
        ),
        (
            "tests.stranger.layer:Settings",
            ("is <class 'tests.stranger.layer.Settings'>, expected a subclass of"),
        ),
    ],
)
def test_a_class_that_cannot_be_used_is_reported_with_its_package(
    tmp_path: Path, install: Install, place: str, problem: str
) -> None:
    install({GROUP: {"Softsign": place}})
    start = f"key 'type': convoy.layers: 'Softsign' of stranger 1.0 ({place}) {problem}"
    assert mistake(tmp_path, "Softsign").startswith(start)


def test_a_type_that_two_packages_bring_is_refused(tmp_path: Path, install: Install) -> None:
    for package in ("one", "other"):
        install(BROUGHT, package=package)
    assert mistake(tmp_path, "Softsign") == (
        "key 'type': convoy.layers: 'Softsign' is brought by several packages, remove all but one: "
        "one 1.0 (tests.stranger.layer:Softsign); other 1.0 (tests.stranger.layer:Softsign)"
    )


def test_a_type_of_caffe_that_is_refused_may_be_brought(tmp_path: Path, install: Install) -> None:
    install({GROUP: {"Im2col": "tests.stranger.layer:Softsign"}})
    net = Net(
        load_net(net_with(tmp_path, "Im2col")),
        "TRAIN",
        ops=get_backend(),
        input_shape=(1, 28, 28),
        batch=2,
    )
    assert any(isinstance(node.layer, Softsign) for stage in net.stages for node in stage.nodes)
