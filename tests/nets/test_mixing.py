"""Mixup and CutMix: shares, boxes and soft labels are those of the papers, and a partner comes from
the global batch."""

import numpy as np
import pytest

from nets import DataError
from nets.data import Batches, MemorySource, Mixing, Transform

COUNT = 64
LEVELS = np.arange(COUNT, dtype=np.float32)
IMAGES = np.broadcast_to(LEVELS[:, None, None, None], (COUNT, 1, 16, 12)).copy()
LABELS = np.arange(COUNT)


def batches(mixing, source=None, **more):
    source = source or MemorySource("levels", IMAGES, LABELS)
    return Batches(
        source, Transform(), mixing.batch if mixing else 16,
        **{"shuffle": False, "seed": 1, "train": True, "mixing": mixing, **more},
    )  # fmt: skip


def test_a_partner_is_the_sample_before_in_the_global_batch():
    mixing = Mixing(1.0, 0.0, COUNT, 16)
    found = mixing.partners(np.arange(32))
    assert found.tolist() == [15, *range(15), 31, *range(16, 31)]


def test_a_share_reads_one_sample_more_than_it_has_rows():
    class Counting(MemorySource):
        def read(self, indices):
            self.read_at = indices.tolist()
            return super().read(indices)

    source = Counting("levels", IMAGES, LABELS)
    read = batches(Mixing(1.0, 0.0, COUNT, 16), source)
    read.samples(20, 24)
    assert source.read_at == [19, 20, 21, 22, 23]
    read.samples(16, 18)
    assert source.read_at == [16, 17, 31]
    read.samples(16, 32)
    assert source.read_at == list(range(16, 32))


@pytest.mark.parametrize("alpha", [0.2, 1.0, 8.0])
def test_mixup_blends_an_image_and_its_label_with_one_share(alpha):
    images, labels = batches(Mixing(alpha, 0.0, COUNT, 16)).samples(0, COUNT)
    assert labels.shape == (COUNT, COUNT)
    assert labels.dtype == np.float32
    assert np.allclose(labels.sum(1), 1)
    for row in range(COUNT):
        other = (row - 1) % 16 + row // 16 * 16
        share = labels[row, row]
        assert labels[row, other] == pytest.approx(1 - share, abs=1e-6)
        assert np.ptp(images[row]) == 0
        assert images[row, 0, 0, 0] == pytest.approx(share * row + (1 - share) * other, abs=1e-3)


def test_shares_have_the_beta_distribution():
    many = 8192
    images = np.zeros((many, 1, 1, 1), np.float32)
    source = MemorySource("zeros", images, np.arange(many) % 2)
    for alpha in (0.2, 1.0):
        labels = batches(Mixing(alpha, 0.0, 2, 128), source).samples(0, many)[1]
        own = labels[np.arange(many), np.arange(many) % 2]
        assert own.mean() == pytest.approx(0.5, abs=0.02)
        assert own.var() == pytest.approx(1 / (4 * (2 * alpha + 1)), rel=0.06)


def test_cutmix_pastes_a_box_and_the_label_has_the_share_of_its_area():
    images, labels = batches(Mixing(0.0, 1.0, COUNT, 16)).samples(0, COUNT)
    pasted = 0
    for row in range(COUNT):
        other = (row - 1) % 16 + row // 16 * 16
        taken = images[row, 0] == other
        assert (taken | (images[row, 0] == row)).all()
        assert labels[row, row] == pytest.approx(1 - taken.mean(), abs=1e-6)
        if taken.any():
            pasted += 1
            rows, columns = np.flatnonzero(taken.any(1)), np.flatnonzero(taken.any(0))
            assert taken[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1].all()
    assert pasted > COUNT // 2


def test_with_both_half_of_the_images_are_mixed_in_each_way():
    images = batches(Mixing(1.0, 1.0, COUNT, 16)).samples(0, COUNT)[0]
    blended = sum(image[0, 0, 0] not in LEVELS for image in images)
    assert COUNT // 4 < blended < 3 * COUNT // 4


def test_a_partner_of_the_same_class_leaves_the_label_certain():
    source = MemorySource("same", IMAGES, np.full(COUNT, 3))
    labels = batches(Mixing(0.4, 0.0, 5, 16), source).samples(0, COUNT)[1]
    assert np.allclose(labels, np.eye(5)[3], atol=1e-6)


def test_a_label_that_is_not_a_class_and_a_batch_of_one_are_refused():
    with pytest.raises(DataError, match="found label 5, expected a class from 0 to 4"):
        batches(Mixing(0.4, 0.0, 5, 16)).samples(0, 16)
    with pytest.raises(DataError, match="found a batch of 1, expected at least 2 images"):
        Mixing(0.4, 0.0, 5, 1)


def test_shares_differ_between_batches_and_seeds():
    first = batches(Mixing(1.0, 0.0, COUNT, 16)).samples(0, 32)[1]
    other = batches(Mixing(1.0, 0.0, COUNT, 16), seed=2).samples(0, 32)[1]
    own = np.diag(first)
    assert len(set(own[:16]) & set(own[16:])) == 0
    assert (np.diag(other) != own[:32]).any()
