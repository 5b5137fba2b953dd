"""Runs with formats for gradients: the format of each link, the training results, and the refused
settings."""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nets.files import checkpoint
from roles.formats.format import FORMATS
from roles.learning.wire_formats import Wire
from roles.messages import LayerGradient
from runtime import MessageError, ProgramFailed
from runtime.actors.actor import Actor
from runtime.actors.router import Router
from runtime.cli.main import main
from runtime.compute.compute import InlineCompute
from runtime.messages.message import Envelope, Message
from tests.helpers.support import configure, events, run_directory, run_up, train

LINKS = "conv-0-0 -> conv_model, conv-0-1 -> conv_model"
CHOICES = " or ".join(map(repr, FORMATS))
GRADIENTS = "[train.gradients]\n"

# name -> (lines of cluster.toml, the exact lines)
BROKEN = {
    "unknown format": (
        f"{GRADIENTS}format = 'float8'\n",
        [
            f"cluster.toml:2: train.gradients.format: found 'float8' (string), expected {CHOICES} "
            "(did you mean 'float32'?)"
        ],
    ),
    "unknown format of a link": (
        f"{GRADIENTS}[train.gradients.links]\n'conv-* -> *' = 'onebit'\n",
        [
            "cluster.toml:3: train.gradients.links.'conv-* -> *': found 'onebit' (string), "
            f"expected {CHOICES} (did you mean 'one-bit'?)"
        ],
    ),
    "a link that is none": (
        f"{GRADIENTS}links = {{ 'conv-*' = 'float16' }}\n",
        [
            "cluster.toml:2: train.gradients.links.'conv-*': expected a link as 'SENDER -> "
            "RECEIVER', "
            "such as 'conv-* -> reducer-*'"
        ],
    ),
    "a link that no actors have": (
        f"{GRADIENTS}links = {{ 'conv-* -> reducer-*' = 'float16' }}\n",
        [
            "cluster.toml:2: train.gradients.links.'conv-* -> reducer-*': fits no link with "
            f"gradients; these links are {LINKS}"
        ],
    ),
    "a block that is not a multiple of 32": (
        f"{GRADIENTS}block = 100\n",
        [
            (
                "cluster.toml:2: train.gradients.block: found 100 (integer), expected a "
                "multiple of "
                "32 from 32 to 1048576"
            )
        ],
    ),
    "a threshold of nothing": (
        f"{GRADIENTS}tau = 0.0\n",
        [
            (
                "cluster.toml:2: train.gradients.tau: found 0.0 (float), expected a number from "
                "1e-30 to 1e30"
            )
        ],
    ),
    "formats without links": (
        (
            f"[train.strategy]\npreset = 'single'\n{GRADIENTS}format = 'float16'\nlinks = {{ 'a "
            f"-> b' = 'float32' }}\n"
        ),
        [
            "cluster.toml:4: train.gradients.format: found 'float16', "
            "but with preset 'single' no gradients have a format of their own",
            "cluster.toml:5: train.gradients.links.'a -> b': found 'float32', "
            "but with preset 'single' no gradients have a format of their own",
        ],
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_mistake_in_the_formats_gets_its_exact_message(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    toml, expected = BROKEN[name]
    monkeypatch.chdir(tmp_path)
    Path("cluster.toml").write_text(toml)
    assert main(["check", "cluster.toml"]) == 2
    assert capsys.readouterr().err.splitlines() == expected


def gradients(format_: str, **more: str) -> str:
    """The section of the formats. `more` are the formats of links: "conv_reducer" stands for
    "conv-* -> reducer-*"."""
    names = {"conv_reducer": "conv-* -> reducer-*", "reducer_model": "reducer-* -> conv_model"}
    links = "".join(f'"{names[link]}" = "{name}"\n' for link, name in more.items())
    return f'{GRADIENTS}format = "{format_}"\ntau = 0.01\n[train.gradients.links]\n{links}'


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> defaultdict[tuple[str, str], set[tuple[str, ...]]]:
    """(sender's role, receiver) -> the formats that were sent."""
    found: defaultdict[tuple[str, str], set[tuple[str, ...]]] = defaultdict(set)
    tell = Actor.tell

    async def noted(actor: Actor, to: str, message: Message, *, step: int = -1) -> None:
        if isinstance(message, LayerGradient):
            found[actor.role, to.partition("-")[0]].add(message.formats)
        await tell(actor, to, message, step=step)

    monkeypatch.setattr(Actor, "tell", noted)
    return found


def test_each_link_has_the_format_that_is_written_for_it(tmp_path: Path, told: Any) -> None:
    more = gradients("bfloat16", conv_reducer="one-bit", reducer_model="float16")
    train(configure(tmp_path, "sync", workers=5, iterations=2, more=more))
    assert told == {
        # the gradient of the fifth worker
        ("conv_compute", "conv_model"): {("bfloat16", "bfloat16")},
        ("conv_compute", "reducer"): {("one-bit", "one-bit")},
        ("tree_reducer", "reducer"): {("bfloat16", "bfloat16")},
        ("tree_reducer", "conv_model"): {("float16", "float16")},
    }


def test_without_reducers_the_format_belongs_to_the_link_to_the_model(
    tmp_path: Path, told: Any
) -> None:
    train(configure(tmp_path, "async", workers=2, iterations=4, more=gradients("threshold")))
    assert told == {("conv_compute", "conv_model"): {("threshold", "threshold")}}


def test_float32_is_the_default_to_the_last_bit(tmp_path: Path, told: Any) -> None:
    plain = train(configure(tmp_path / "plain", "sync", workers=2, iterations=3))
    named = train(
        configure(tmp_path / "named", "sync", workers=2, iterations=3, more=gradients("float32"))
    )
    assert set().union(*told.values()) == {("float32", "float32")}
    for name, expected in plain.arrays.items():
        assert named.arrays[name].tobytes() == expected.tobytes(), name


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(FORMATS))
def test_every_format_learns_and_repeats_itself(tmp_path: Path, name: str) -> None:
    run, again = (
        train(
            configure(
                tmp_path / f"{iterations}",
                "sync",
                workers=2,
                iterations=iterations,
                more=gradients(name),
            )
        )
        for iterations in (60, 12)
    )
    losses = run.losses()
    assert np.mean(losses[-5:]) < losses[0] / 2
    assert again.losses() == losses[:12]


def test_arrays_are_coded_as_work_of_the_device_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    inside: list[bool] = []
    coded: list[bool] = []
    run = InlineCompute.run

    async def marked(
        compute: InlineCompute, actor: str, label: str, work: Callable[..., Any], *args: Any
    ) -> Any:
        def at_work(*given: Any) -> Any:
            inside.append(True)
            try:
                return work(*given)
            finally:
                inside.pop()

        return await run(compute, actor, label, at_work, *args)

    def watched(method: Callable[..., Any]) -> Callable[..., Any]:
        def noted(*args: Any) -> Any:
            coded.append(bool(inside))
            return method(*args)

        return noted

    monkeypatch.setattr(InlineCompute, "run", marked)
    monkeypatch.setattr(Wire, "encode", watched(Wire.encode))
    monkeypatch.setattr(Wire, "decode", watched(Wire.decode))
    train(configure(tmp_path, "sync", workers=3, iterations=2, more=gradients("one-bit")))
    # 2 layers of 2 iterations: 3 workers and a reducer encode, the reducer and the model decode 2
    # each
    assert coded == [True] * 32


SPOILED: dict[str, Callable[[LayerGradient], LayerGradient]] = {
    "another layer": lambda said: dataclasses.replace(said, layer="ip1"),
    "a format that is none": lambda said: dataclasses.replace(said, formats=("float8",) * 2),
    "an array less": lambda said: dataclasses.replace(said, blobs=said.blobs[:-1]),
    "arrays of the other blob": lambda said: dataclasses.replace(
        said, blobs=said.blobs[2:] + said.blobs[:2]
    ),
    "a place that is none": lambda said: dataclasses.replace(
        said, blobs=(np.full(1, 2**32 - 1, np.uint32), *said.blobs[1:]), formats=("threshold",) * 2
    ),
}


@pytest.mark.parametrize("how", SPOILED)
def test_a_gradient_that_does_not_fit_its_layer_is_rejected_and_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    more = gradients("threshold" if "place" in how else "one-bit")
    clean = train(configure(tmp_path / "clean", "sync", workers=2, iterations=3, more=more))
    reasons: list[str] = []
    deliver = Router.deliver
    reject = Router.reject

    def spoiled_first(
        router: Router, envelope: Envelope, size: int, release: Callable[[], None]
    ) -> None:
        said = envelope.message
        if type(said) is LayerGradient:
            deliver(router, envelope._replace(message=SPOILED[how](said)), size, lambda: None)
            # the router would reject a repeat by itself, and that is not tested here
            router._homes[envelope.sender].latest.clear()
        deliver(router, envelope, size, release)

    def count(router: Router, peer: str, error: MessageError | None) -> None:
        reasons.extend([] if error is None else [error.reason])
        reject(router, peer, error)

    monkeypatch.setattr(Router, "deliver", spoiled_first)
    monkeypatch.setattr(Router, "reject", count)
    spoiled = train(configure(tmp_path / "spoiled", "sync", workers=2, iterations=3, more=more))
    assert len(reasons) == 3 * 2 * 2  # iterations, layers, gradients
    assert set(reasons) <= {"illegal", "bad_shape", "bad_value"}
    for name, expected in clean.arrays.items():
        assert spoiled.arrays[name].tobytes() == expected.tobytes(), name


@pytest.mark.parametrize("name", sorted(FORMATS))
def test_a_gradient_with_nan_ends_the_run_whatever_the_format(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    encode = Wire.encode

    def poisoned(wire: Wire, layer: str, blobs: Any, *where: Any) -> Any:
        if layer == "conv2":
            blobs[0].reshape(-1)[7] = np.nan
        return encode(wire, layer, blobs, *where)

    monkeypatch.setattr(Wire, "encode", poisoned)
    with pytest.raises(ProgramFailed, match="at iteration 1: training diverged"):
        train(configure(tmp_path, "sync", workers=2, iterations=5, more=gradients(name)))


@pytest.mark.slow
def test_real_processes_give_the_bits_of_the_simulation_in_every_format(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # like the processes below: sums depend on their division among threads
    monkeypatch.setenv("CONVOY_THREADS", "1")
    more = "[[machine]]\nthreads = 1\n" + gradients(
        "bfloat16", conv_reducer="one-bit", reducer_model="threshold"
    )
    simulated = train(configure(tmp_path / "sim", "sync", workers=3, iterations=5, more=more))
    cluster = configure(tmp_path / "real", "sync", workers=3, iterations=5, more=more)
    done = run_up(cluster)
    assert done.returncode == 0, done.stderr
    directory = run_directory(cluster)
    arrays, _ = checkpoint.load(directory / events(directory, "checkpoint")[-1]["file"])
    for name, expected in simulated.arrays.items():
        assert arrays[name].tobytes() == expected.tobytes(), name
