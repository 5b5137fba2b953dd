"""Asynchronous groups train with the staleness that theory predicts: g - 1 on average (Omnivore
section 4)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from roles.messages import LayerModel, PullLayer
from roles.servers.conv_model import ConvModel
from runtime.messages.message import Envelope, Message
from runtime.transport.inproc import InprocNetwork
from tests.helpers.support import configure, events, run_directory, run_up, train


def mean_staleness(fields: list[dict[str, float]], skip: int) -> float:
    """The mean staleness after the first `skip` iterations, in which the pipeline of groups
    fills."""
    return float(np.mean([entry["staleness"] for entry in fields[skip:]]))


def convolution_takes_time(draw: np.random.Generator) -> Callable[[str, str], float]:
    """Exponential service times of the conv phase, as theory assumes. All other work is fast."""
    return lambda actor, label: (
        float(draw.exponential(0.01)) if label.startswith(("forward", "backward")) else 1e-4
    )


@pytest.mark.few("[2]")
@pytest.mark.parametrize("groups", [1, 2, 4, 8])
def test_staleness_is_g_minus_1_on_average(tmp_path: Path, groups: int) -> None:
    draw = np.random.default_rng(7)
    run = train(
        configure(tmp_path, "async", workers=groups, iterations=15 * groups),
        service_time=convolution_takes_time(draw),
        network=InprocNetwork(latency=1e-4),
    )
    assert mean_staleness(run.journal.of("progress"), skip=groups) == pytest.approx(
        groups - 1, abs=0.5
    )


def test_a_simulated_asynchronous_run_repeats_itself_exactly(tmp_path: Path) -> None:
    def once(name: str) -> bytes:
        draw = np.random.default_rng(3)
        cluster = configure(tmp_path / name, "async", workers=3, iterations=12)
        run = train(cluster, service_time=lambda actor, label: float(draw.exponential(0.01)))
        return b"".join(run.arrays[name].tobytes() for name in sorted(run.arrays))

    assert once("a") == once("b")


@pytest.mark.slow
def test_four_groups_in_real_processes_learn_with_staleness_3(tmp_path: Path) -> None:
    cluster = configure(tmp_path, "async", workers=4, iterations=160, test=True)
    done = run_up(cluster, "--set", "train.momentum=0.5")
    assert done.returncode == 0, done.stderr
    directory = run_directory(cluster)
    assert mean_staleness(events(directory, "progress"), skip=8) == pytest.approx(3, abs=0.5)
    assert events(directory, "test")[-1]["accuracy"] > 0.85


def test_two_groups_of_two_have_separate_trees_and_staleness_1(tmp_path: Path) -> None:
    draw = np.random.default_rng(1)
    run = train(
        configure(tmp_path, "omnivore", workers=4, groups=2, iterations=30),
        service_time=convolution_takes_time(draw),
    )
    assert mean_staleness(run.journal.of("progress"), skip=2) == pytest.approx(1, abs=0.5)


def test_all_members_of_a_group_read_one_version_of_each_layer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: defaultdict[tuple[int, int, str], list[int]] = defaultdict(list)
    reply = ConvModel.reply

    async def noted(actor: ConvModel, envelope: Envelope, message: Message) -> None:
        if isinstance(envelope.message, PullLayer) and isinstance(message, LayerModel):
            pull = envelope.message
            read[pull.phase, pull.number, pull.layer].append(message.version)
        await reply(actor, envelope, message)

    monkeypatch.setattr(ConvModel, "reply", noted)
    draw = np.random.default_rng(2)
    cluster = configure(tmp_path, "omnivore", workers=4, groups=2, iterations=16)
    train(cluster, service_time=convolution_takes_time(draw))
    assert len(read) == 16 * 2  # two layers an iteration
    assert all(len(versions) == 2 and len(set(versions)) == 1 for versions in read.values())
