"""Every example runs as its text promises. The example of a strategy computes the same sums as the
built-in reducers."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

import roles
import runtime
from examples import parameter_server, ring
from examples.chain import chain
from examples.gradient_norms import ROLES, monitored, norm_of
from nets.files import checkpoint
from ops import Array
from roles.messages import LayerGradient
from runtime import ActorSpec, ConfigError, Topology
from runtime.cli.main import main
from runtime.plan.topology import Placement, ProcessSpec
from runtime.simulation.clock import run_virtual
from runtime.simulation.cluster import Journal, simulate
from tests.helpers.support import ROOT, environment, events

OPTIONS = {
    "max_iter": 4,
    "precision": "exact",
    "data": {"train": {"format": "digits", "split": "train"}},
}


def run_example(name: str, directory: Path) -> str:
    """Run an example as a user starts it. Returns its output."""
    command = [sys.executable, str(ROOT / "examples" / name)]
    done = subprocess.run(
        command,
        cwd=directory,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def simulated(
    topology: Topology, directory: Path, known: dict = roles.ROLES
) -> tuple[Journal, dict[str, Array]]:
    """The events and the last checkpoint of a topology on virtual time."""
    directory.mkdir()
    placement = Placement(
        topology, tuple(ProcessSpec(a.name, "local", (a.name,)) for a in topology.actors)
    )
    journal = run_virtual(simulate(placement, known, directory=directory))
    return journal, checkpoint.load(directory / journal.of("checkpoint")[-1]["file"])[0]


@pytest.mark.slow
def test_the_chain_is_a_strategy_of_at_most_thirty_lines(tmp_path: Path) -> None:
    tree = ast.parse((ROOT / "examples" / "chain.py").read_text())
    (function,) = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
    assert (function.end_lineno or 0) - function.lineno + 1 <= 30
    said = run_example("chain.py", tmp_path)
    assert re.search(r"coordinator +finished +iterations 40 +accuracy 0\.\d+", said)
    assert said.splitlines()[-1].startswith("{'iterations': 40, 'accuracy': 0.")


@pytest.mark.parametrize("example", [parameter_server, ring])
def test_an_example_of_messages_ends_with_the_result_in_its_last_line(
    tmp_path: Path, example: ModuleType
) -> None:
    promised = Path(str(example.__file__)).read_text().splitlines()[-1].partition("# ")[2]
    assert str(runtime.run(example.topology(), directory=tmp_path, processes="here")) == promised


def test_a_chain_sums_the_same_as_one_reducer_in_the_same_order(tmp_path: Path) -> None:
    chained = roles.training({**OPTIONS, "strategy": {"workers": 3}}, strategy=chain)
    sums = {a.name: a.options.parent for a in chained.actors if a.role == "tree_reducer"}
    assert sums == {"sum-1": "sum-2", "sum-2": "conv_model"}
    _, found = simulated(chained, tmp_path / "chain")
    options = {**OPTIONS, "strategy": {"preset": "sync", "workers": 3, "fan_in": 3}}
    _, expected = simulated(roles.training(options), tmp_path / "sync")
    assert found.keys() == expected.keys()
    assert all(np.array_equal(found[name], expected[name]) for name in expected)


def test_a_chain_of_one_worker_needs_no_sums() -> None:
    alone = roles.training({**OPTIONS, "strategy": {"workers": 1}}, strategy=chain)
    assert [actor.name for actor in alone.actors] == [
        "coordinator",
        "conv_model",
        "fc_server",
        "conv-0",
    ]


@pytest.mark.slow
def test_the_norm_monitor_reports_and_looks_closer_on_request(tmp_path: Path) -> None:
    said = run_example("gradient_norms.py", tmp_path)
    seen = re.findall(r"norms-(\S+) +norm +iteration (\d+)  layer (\w+)  norm [\d.e-]+", said)
    assert len(seen) == len(said.splitlines())
    iterations = {int(iteration) for _, iteration, _ in seen}
    assert 0 in iterations
    # since the monitor was asked to look closer
    assert any(iteration > 20 and iteration % 20 for iteration in iterations)


def test_a_monitor_changes_nothing_and_reports_the_norm_of_passing_gradients(
    tmp_path: Path,
) -> None:
    plain = roles.training({**OPTIONS, "strategy": {"preset": "sync", "workers": 2}})
    _, expected = simulated(plain, tmp_path / "plain")
    journal, found = simulated(monitored(plain, every=3), tmp_path / "monitored", ROLES)
    assert all(np.array_equal(found[name], expected[name]) for name in expected)
    assert sorted((entry["iteration"], entry["layer"]) for entry in journal.of("norm")) == [
        (iteration, layer)
        for iteration in (0, 3)
        for layer in ("conv1", "conv2")
        for _ in range(2)  # workers
    ]


def test_the_norm_of_a_gradient_covers_all_its_numbers() -> None:
    blobs = (np.array([[3.0, 0.0]], np.float32), np.array([4.0, 12.0], np.float32))
    gradient = LayerGradient(
        group=0, number=0, layer="x", part=0, parts=1, formats=("float32",) * 2, blobs=blobs
    )
    assert norm_of(gradient) == 13.0


def test_a_program_built_on_the_training_roles_is_named_in_cluster_toml(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("cluster.toml").write_text(
        'program = "examples.gradient_norms"\n[train.strategy]\npreset = "sync"\n'
    )
    assert main(["check"]) == 0
    monitors = "norms-conv-0-0, norms-conv-0-1"
    assert re.search(
        (rf"conv_model +on local, \d+ BLAS threads: conv_model, " rf"{monitors}"),
        capsys.readouterr().out,
    )


@pytest.mark.slow
def test_the_notebook_looks_inside_and_changes_its_mind(tmp_path: Path) -> None:
    said = run_example("notebook.py", tmp_path)
    assert "weights of conv1: standard deviation 0." in said
    ended = re.search(
        (
            r"accuracy (0\.9\d*|1\.0) after (\d+) iterations; "
            r"(runs/\S+-notebook/\S+\.safetensors)$"
        ),
        said,
    )
    assert ended is not None, said
    assert int(ended[2]) < 5000
    assert (tmp_path / ended[3]).is_file()
    directory = next((tmp_path / "runs").iterdir())
    assert [event["reason"] for event in events(directory, "winding down")] == ["accurate enough"]
    (regrouped,) = events(directory, "regrouped")
    assert (regrouped["groups"], regrouped["base_lr"]) == (1, pytest.approx(0.01))


def test_the_first_lines_of_the_documentation_run(tmp_path: Path) -> None:
    text = (ROOT / "docs" / "scripting.md").read_text()
    first = text.partition("```python\n")[2].partition("```")[0]
    assert "300" in first
    (tmp_path / "first.py").write_text(first.replace("300", "3"))
    done = subprocess.run(
        [sys.executable, "first.py"],
        cwd=tmp_path,
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert 0 < float(done.stdout.splitlines()[-1]) < 1


def test_training_options_are_checked_like_the_options_of_a_file() -> None:
    with pytest.raises(ConfigError) as caught:
        roles.training({"strategy": {"preset": "synk", "workers": 0}, "batsh": 3})
    preset, workers, batch = caught.value.problems
    assert preset.startswith(
        "training(): train.strategy.preset: found 'synk' (string), expected 'single' or "
    )
    assert preset.endswith(" (did you mean 'sync'?)")
    assert workers == (
        "training(): train.strategy.workers: found 0 (integer), expected an integer >= 1"
    )
    assert batch == "training(): train.batsh: unknown key (did you mean 'batch'?)"
    with pytest.raises(ConfigError) as caught:
        roles.training({"net": "lenett", "solver": "no such"})
    first, second = sorted(caught.value.problems)
    assert first.startswith(
        "training(): train.net: lenett: no such file, and the zoo has no such name"
    )
    assert second.startswith("training(): train.solver: no such: no such file")
    assert isinstance(roles.training().actors[0], ActorSpec)
