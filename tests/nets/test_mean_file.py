"""A mean image is subtracted pixel by pixel, before mirroring and scaling, as Caffe does."""

import numpy as np
import pytest

from nets import PrototxtError
from nets.data import Batches, MemorySource, Transform
from nets.files.mean import write_mean
from nets.schema import caffe_pb2 as caffe
from tests.nets.support import spec_of

RNG = np.random.default_rng(8)
IMAGES = RNG.integers(0, 256, (200, 2, 6, 7), dtype=np.uint8)
MEAN = RNG.random((2, 6, 7)).astype(np.float32) * 100


def naive(image, top, left, mirror):
    """Caffe's DataTransformer, pixel by pixel. The mean has the index of the source; the index of
    the top is mirrored."""
    result = np.empty((2, 4, 4))
    for c in range(2):
        for h in range(4):
            for w in range(4):
                at = (c, top + h, left + w)
                result[c, h, 3 - w if mirror else w] = (float(image[at]) - float(MEAN[at])) * 0.5
    return result


def test_in_test_the_means_centre_is_subtracted():
    found = Transform(scale=0.5, crop=4, mirror=True, mean_image=MEAN)(
        IMAGES[:5], np.arange(5), seed=0, train=False
    )
    np.testing.assert_allclose(
        found, [naive(image, 1, 1, False) for image in IMAGES[:5]], rtol=1e-5, atol=1e-4
    )


def test_in_training_the_mean_follows_the_crop_and_the_mirror():
    found = Transform(scale=0.5, crop=4, mirror=True, mean_image=MEAN)(
        IMAGES, np.arange(200), seed=3, train=True
    )
    seen = set()
    for image, result in zip(IMAGES, found, strict=True):
        choices = [
            (top, left, mirror) for top in range(3) for left in range(4) for mirror in (False, True)
        ]
        fits = [
            choice for choice in choices if np.allclose(naive(image, *choice), result, atol=1e-3)
        ]
        assert len(fits) == 1
        seen.add(fits[0])
    assert len(seen) == 24


@pytest.mark.parametrize("place", ["here", "beside"])
def test_a_nets_mean_file_is_found_from_its_folder(tmp_path, place):
    folder = tmp_path if place == "beside" else tmp_path / "means"
    folder.mkdir(exist_ok=True)
    write_mean(folder / "m.binaryproto", MEAN)
    spec = spec_of(
        tmp_path,
        'layer { name: "d" type: "Data" top: "data" data_param { batch_size: 1 }'
        ' transform_param { mean_file: "means/m.binaryproto" } }',
    )
    assert np.array_equal(Transform.of_net(spec, "TRAIN").mean_image, MEAN)
    (folder / "m.binaryproto").write_bytes(b"\xff")
    with pytest.raises(
        PrototxtError,
        match=(r"net.prototxt:1: layer 'd': key .*mean_file': " r".*/m.binaryproto: damaged"),
    ):
        Transform.of_net(spec, "TRAIN")


@pytest.mark.parametrize(
    ("transform", "message"),
    [
        (Transform(mean_image=MEAN[:, 1:]), (r"mean_file: found a mean of shape \(2, 5, 7\), " r"" r"" r"expected \(2, 6, 7\)")),
        (Transform.from_proto(caffe.TransformationParameter(force_gray=True)),
         ("force_gray: found images of 2 channels, expected 1: give the data source color = " "" "" "\"gray\"")),
        (Transform.from_proto(caffe.TransformationParameter(force_color=True)),
         ("force_color: found images of 2 channels, expected 3: give the data source color = " "" "" "\"color\"")),
    ],
)  # fmt: skip
def test_a_transform_that_does_not_fit_the_source_is_refused_with_advice(transform, message):
    source = MemorySource("x", IMAGES, np.zeros(200, np.int64))
    with pytest.raises(PrototxtError, match=message):
        Batches(source, transform, 1, shuffle=False, seed=0, train=True)
