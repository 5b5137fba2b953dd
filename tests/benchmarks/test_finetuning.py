"""The benchmark of fine-tuning: its verdict, and the images that it writes."""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import pytest

from benchmarks import finetuning
from benchmarks.finetuning import ONLY_LAST, SCRATCH, WHOLE, judged, prepare
from nets import load_net
from nets.data.sources.cifar10 import read

GIVEN = argparse.Namespace(seeds=[1, 2], epochs=3.0, few_epochs=20.0)


@pytest.mark.parametrize(("whole", "status"), [(0.65, "passed"), (0.59, "failed")])
def test_the_trained_net_must_be_ten_points_above_the_one_from_scratch(
    whole: float, status: str
) -> None:
    found = {SCRATCH: [0.4, 0.6], WHOLE: [whole, whole], ONLY_LAST: [0.5, 0.5]}
    record = judged(found, [0.8, 0.8], GIVEN)
    assert record.status == status


def test_the_new_classes_have_few_images_and_labels_from_zero(
    tmp_path: Path, shared_data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(finetuning, "FILES", ["test_batch_1000.bin.gz"])
    monkeypatch.setattr(finetuning, "TESTED", ["test_batch_1000.bin.gz"])
    prepare(tmp_path, shared_data / "cifar10", 1)
    images, labels, _ = read(base_dir=tmp_path, files=["new_train.bin"])
    assert np.bincount(labels).tolist() == [50] * 4
    known, theirs, _ = read(base_dir=tmp_path, files=["known_train.bin"])
    assert sorted(set(theirs.tolist())) == list(range(6))
    assert not {each.tobytes() for each in images} & {each.tobytes() for each in known}


def test_the_statistics_of_the_nets_follow_short_runs(
    tmp_path: Path, shared_data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(finetuning, "FILES", ["test_batch_1000.bin.gz"])
    monkeypatch.setattr(finetuning, "TESTED", ["test_batch_1000.bin.gz"])
    prepare(tmp_path, shared_data / "cifar10", 1)
    for name in ("known", "new"):
        layers = load_net(tmp_path / f"{name}.prototxt").layers
        norms = [layer.proto for layer in layers if layer.proto.type == "BatchNorm"]
        assert norms
        for norm in norms:
            assert norm.batch_norm_param.moving_average_fraction == pytest.approx(0.9)
