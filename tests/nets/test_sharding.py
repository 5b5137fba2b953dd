"""An FC phase that is divided among shards by output units computes the same as the whole phase."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nets import NetError, NetSpec, ParamSpec, load_net
from nets.definition.zoo import NETS as IN_PYTHON
from nets.graph.emulated_net import EmulatedNet
from nets.graph.graph import Net
from nets.layers.base import Run
from nets.sharding.division import ShardedNet
from nets.sharding.slices import unit_parts, units
from ops import get_backend
from tests.nets.support import backward, spec_of

ROWS = 12
SMALL_CAFFENET = """
name: "small"
layer { name: "data" type: "Input" top: "data" top: "label"
  input_param { shape { dim: 12 dim: 2 dim: 5 dim: 5 } shape { dim: 12 } } }
layer { name: "conv5" type: "Convolution" bottom: "data" top: "conv5"
  convolution_param { num_output: 4 kernel_size: 2 weight_filler { type: "xavier" } } }
layer { name: "fc6" type: "InnerProduct" bottom: "conv5" top: "fc6"
  inner_product_param {
    num_output: 11 weight_filler { type: "gaussian" std: 0.3 } bias_filler { type: "constant" value: 1 } } }
layer { name: "relu6" type: "ReLU" bottom: "fc6" top: "fc6" }
layer { name: "drop6" type: "Dropout" bottom: "fc6" top: "fc6" dropout_param { dropout_ratio: 0.5 } }
layer { name: "fc7" type: "InnerProduct" bottom: "fc6" top: "fc7"
  inner_product_param {
    num_output: 9 transpose: true weight_filler { type: "xavier" } bias_filler { type: "xavier" } } }
layer { name: "relu7" type: "ReLU" bottom: "fc7" top: "fc7" }
layer { name: "drop7" type: "Dropout" bottom: "fc7" top: "fc7" dropout_param { dropout_ratio: 0.3 } }
layer { name: "fc8" type: "InnerProduct" bottom: "fc7" top: "fc8"
  inner_product_param { num_output: 7 weight_filler { type: "xavier" } bias_term: false } }
layer { name: "accuracy" type: "Accuracy" bottom: "fc8" bottom: "label" top: "accuracy" include { phase: TEST } }
layer { name: "loss" type: "SoftmaxWithLoss" bottom: "fc8" bottom: "label" top: "loss" }
"""
RELU7 = 'layer { name: "relu7" type: "ReLU" bottom: "fc7" top: "fc7" }'
WITH_PARAMETERS = (
    SMALL_CAFFENET.replace(
        RELU7,
        """
layer { name: "bn7" type: "BatchNorm" bottom: "fc7" top: "bn7" }
layer { name: "scale7" type: "Scale" bottom: "bn7" top: "bn7" scale_param { bias_term: true } }
layer { name: "prelu7" type: "PReLU" bottom: "bn7" top: "fc7b" }
""",
    )
    .replace('bottom: "fc7" top: "fc7" dropout_param', 'bottom: "fc7b" top: "fc7b" dropout_param')
    .replace(
        ('name: "fc8" type: "InnerProduct" bottom: "fc7"'),
        'name: "fc8" type: "InnerProduct" bottom: "fc7b"',
    )
)
Span = tuple[int, int]


def options(spec: NetSpec, **more: Any) -> dict[str, Any]:
    shapes = {"LeNet": (1, 28, 28), "CIFAR10_full": (3, 32, 32)}
    return {
        "batch": ROWS,
        "input_shape": shapes.get(spec.name),
        "seed": 3,
        "ops": get_backend("numpy"),
        **more,
    }


def net_of(name: str, tmp_path: Path) -> NetSpec:
    texts = {"small": SMALL_CAFFENET, "parameters": WITH_PARAMETERS}
    return spec_of(tmp_path, texts[name]) if name in texts else load_net(name)


def whole_pass(
    net: Net, given: dict[str, np.ndarray], step: int = 5
) -> tuple[dict[str, float], dict[str, Any]]:
    scores = net.run(given, net.initial_blobs(), step=step)
    return scores, backward(net) if net.phase == "TRAIN" else {}


def sharded_pass(
    shards: list[ShardedNet],
    given: dict[str, np.ndarray],
    spans: tuple[Span, ...] = ((0, ROWS),),
    step: int = 5,
) -> list[dict[str, Any]]:
    """One pass of all shards, with every exchange done by hand. Returns the parameters' gradients
    of each shard."""
    taken = {
        name: np.concatenate([array[low:high] for low, high in spans])
        for name, array in given.items()
    }
    for shard in shards:
        shard.begin(step, *spans)
        for name, array in taken.items():
            shard.feed_rows(name, array)
        for layer, blobs in shard.initial_blobs().items():
            shard.load(layer, blobs)
    last = shards[0].last
    for link in range(last + 1):
        columns = [shard.forward(link) for shard in shards]
        if link < last:
            for shard in shards:
                shard.gather(link, [array for array in columns if array is not None])
    found: list[dict[str, Any]] = [{} for _ in shards]
    for link in reversed(range(last + 1) if shards[0].phase == "TRAIN" else ()):
        for shard, gradients in zip(shards, found, strict=True):
            gradients |= shard.backward(link)
        if link:
            parts = [shard.parts(link) for shard in shards]
            for rank, shard in enumerate(shards):
                mine = [part[rank] for part in parts] if shard.exchanges(link) else parts[rank]
                for (layer, at), total in shard.give(link - 1, mine).items():
                    gradients = found[rank][layer]
                    found[rank][layer] = (*gradients[:at], total, *gradients[at + 1 :])
    return found


def crossing(spec: NetSpec, phase: str, dtype: Any) -> tuple[Net, dict[str, np.ndarray]]:
    """The whole FC phase, and random numbers for the blobs that cross the cut."""
    fc = Net(spec, phase, part="fc", **options(spec, dtype=dtype))
    rng = np.random.default_rng(0)
    given = {
        name: rng.integers(0, 7, shape).astype(dtype)
        if name == "label"
        else rng.standard_normal(shape).astype(dtype)
        for name, shape in fc.input_shapes.items()
    }
    return fc, given


def shards_of(spec: NetSpec, phase: str, of: int, **more: Any) -> list[ShardedNet]:
    return [
        ShardedNet(spec, phase, rank=rank, of=of, **options(spec, **more)) for rank in range(of)
    ]


def close(a: np.ndarray, b: np.ndarray, tolerance: float = 1e-12) -> bool:
    # the gradient of a bias before BatchNorm is 0, apart from rounding
    scale = max(np.abs(b).max(), 1e-4)
    return a.shape == b.shape and bool(np.abs(a - b).max() <= tolerance * scale)


@pytest.mark.parametrize("memory", ["kept", "reused"])
@pytest.mark.parametrize("of", [1, 2, 3])
@pytest.mark.parametrize("name", ["lenet", "cifar10_full", "small", "parameters"])
def test_shards_compute_the_scores_and_gradients_of_the_whole_fc_phase(
    tmp_path: Path, name: str, of: int, memory: str
) -> None:
    spec = net_of(name, tmp_path)
    fc, given = crossing(spec, "TRAIN", np.float64)
    scores, expected = whole_pass(fc, given)
    shards = shards_of(spec, "TRAIN", of, dtype=np.float64, memory=memory)
    assert (shards[0].inputs, shards[0].boundary_grads) == (fc.inputs, fc.boundary_grads)
    for _ in range(2):  # the second pass must not depend on memory that the first pass has left
        found = sharded_pass(shards, given)
    for shard in shards:
        assert shard.scalars() == pytest.approx(scores, rel=1e-12)
    for layer, arrays in expected.items():
        for at, array in enumerate(arrays):
            for shard, gradients in zip(shards, found, strict=True):
                assert close(gradients[layer][at], shard.part_of(layer, at, array)), (layer, at)
    for blob in fc.boundary_grads:
        assert close(sum(shard.grad_rows(blob) for shard in shards), fc.grad(blob)), blob


def test_frozen_parameters_get_no_gradient_and_the_others_are_unchanged(tmp_path: Path) -> None:
    frozen = "param { lr_mult: 0 } param { lr_mult: 0 }"
    text = SMALL_CAFFENET
    for block in ("convolution_param { num_output: 4", "inner_product_param {\n    num_output: 11"):
        assert block in text
        text = text.replace(block, f"{frozen} {block}")
    spec = spec_of(tmp_path, text)
    fc, given = crossing(spec, "TRAIN", np.float64)
    _, expected = whole_pass(fc, given)
    shards = shards_of(spec, "TRAIN", 2, dtype=np.float64, memory="reused")
    found = sharded_pass(shards, given)
    assert fc.boundary_grads == shards[0].boundary_grads == []
    assert not shards[0].exchanges(1) and shards[0].exchanges(2)
    assert not np.any(expected["fc6"][0]) and np.any(expected["fc7"][0])
    for layer, arrays in expected.items():
        for at, array in enumerate(arrays):
            for shard, gradients in zip(shards, found, strict=True):
                assert close(gradients[layer][at], shard.part_of(layer, at, array)), (layer, at)


@pytest.mark.parametrize("of", [1, 3])
@pytest.mark.parametrize("name", ["lenet", "small"])
def test_in_a_test_every_shard_knows_the_scores_of_the_whole_net(
    tmp_path: Path, name: str, of: int
) -> None:
    spec = net_of(name, tmp_path)
    fc, given = crossing(spec, "TEST", np.float64)
    scores, _ = whole_pass(fc, given)
    shards = shards_of(spec, "TEST", of, dtype=np.float64)
    sharded_pass(shards, given)
    assert set(scores) == {"loss", "accuracy"}
    for shard in shards:
        assert shard.scalars() == pytest.approx(scores, rel=1e-12)


@pytest.mark.parametrize("spans", [[((0, 5),), ((5, 12),)], [((0, 2), (5, 9)), ((2, 5), (9, 12))]])
def test_the_gradients_of_parts_of_the_batch_add_up_for_any_division_into_rows(
    tmp_path: Path, spans: list[tuple[Span, ...]]
) -> None:
    spec = net_of("small", tmp_path)
    fc, given = crossing(spec, "TRAIN", np.float64)
    _, expected = whole_pass(fc, given)
    shards = shards_of(spec, "TRAIN", 2, dtype=np.float64)
    first, second = (sharded_pass(shards, given, part) for part in spans)
    for layer, arrays in expected.items():
        for at, array in enumerate(arrays):
            for shard, one, two in zip(shards, first, second, strict=True):
                assert close(one[layer][at] + two[layer][at], shard.part_of(layer, at, array)), (
                    layer,
                    at,
                )


def test_random_numbers_belong_to_their_rows_for_any_division_into_ranges() -> None:
    whole = Run("TRAIN", 1, 3, 0, 20, 20).uniforms("dropout", "drop", (20, 7))
    for spans in [
        ((0, 20),),
        ((3, 9),),
        ((1, 2), (4, 5), (19, 20)),
        ((0, 10), (10, 20)),
        ((2, 3), (3, 17)),
    ]:
        rows = np.concatenate([np.arange(low, high) for low, high in spans])
        run = Run("TRAIN", 1, 3, spans[0][0], spans[-1][1], 20, spans)
        assert (run.rows, run.share) == (len(rows), len(rows) / 20)
        assert np.array_equal(run.uniforms("dropout", "drop", (len(rows), 7)), whole[rows])
        # an axis folded into the rows: each row gives two
        two = run.uniforms("dropout", "drop", (2 * len(rows), 3))
        all_two = Run("TRAIN", 1, 3, 0, 20, 20).uniforms("dropout", "drop", (40, 3))
        assert np.array_equal(two.reshape(-1, 6), all_two.reshape(-1, 6)[rows])


@pytest.mark.parametrize("of", [1, 2, 3, 7])
def test_the_shards_start_from_the_numbers_of_the_whole_net(tmp_path: Path, of: int) -> None:
    spec = net_of("small", tmp_path)
    whole = Net(spec, "TRAIN", **options(spec)).initial_blobs()
    shards = shards_of(spec, "TRAIN", of)
    for layer in ("fc6", "fc7", "fc8"):
        for at, array in enumerate(whole[layer]):
            axis = 1 if (layer, at) == ("fc7", 0) else 0  # stored as (D, O), so transposed
            pieces = [shard.initial_blobs()[layer][at] for shard in shards]
            assert np.array_equal(np.concatenate(pieces, axis=axis), array)
            assert [piece.shape for piece in pieces] == [
                shard.params[layer][at].shape for shard in shards
            ]


def test_shards_of_emulated_nets_draw_no_numbers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Drawing CaffeNet's numbers would take seconds and hundreds of megabytes."""
    spec = spec_of(tmp_path, SMALL_CAFFENET)
    real = [shard.initial_blobs() for shard in shards_of(spec, "TRAIN", 2)]
    monkeypatch.setattr(ParamSpec, "initial", lambda *_: pytest.fail("drew numbers"))
    emulated = [
        shard.initial_blobs()
        for shard in shards_of(spec, "TRAIN", 2, ops=get_backend("emulated"), kind=EmulatedNet)
    ]
    assert [shapes_of(blobs) for blobs in emulated] == [shapes_of(blobs) for blobs in real]


def shapes_of(blobs: Mapping[str, Sequence[np.ndarray]]) -> dict[str, list[tuple[int, ...]]]:
    return {layer: [blob.shape for blob in found] for layer, found in blobs.items()}


def test_units_are_shared_out_evenly_and_all_of_them() -> None:
    for total, of in itertools.product((1, 2, 7, 10, 4096), (1, 2, 3, 7)):
        cuts = [units(rank, of, total) for rank in range(of)]
        assert [n for low, high in cuts for n in range(low, high)] == list(range(total))
        sizes = [high - low for low, high in cuts]
        assert max(sizes) - min(sizes) <= 1


@pytest.mark.parametrize("total", [*range(1, 20), 97, 500, 1000])
def test_shards_divide_their_units_at_the_same_places_as_one_server(total: int) -> None:
    whole = unit_parts(total, 8)
    assert len(whole) == max(2**n for n in range(4) if 2**n <= total)
    assert [part.start for part in whole[1:]] == [part.stop for part in whole[:-1]]
    assert (whole[0].start, whole[-1].stop) == (0, total)
    assert all(part.start < part.stop for part in whole)
    for of in (of for of in (1, 2, 4, 8) if of <= total):
        found = [
            (units(rank, of, total)[0], part)
            for rank in range(of)
            for part in unit_parts(total, 8, rank, of)
        ]
        assert [slice(low + part.start, low + part.stop) for low, part in found] == whole


def test_arrays_handed_to_other_shards_are_not_written_to_by_the_next_pass(tmp_path: Path) -> None:
    spec = net_of("small", tmp_path)
    _, given = crossing(spec, "TRAIN", np.float32)
    shards = shards_of(spec, "TRAIN", 2, memory="reused")
    sharded_pass(shards, given)
    shard = shards[0]
    handed = [
        shard.nets[0].blob("fc6"),
        *(part[0] for part in shard.parts(1)),
        shard.grad_rows("conv5"),
    ]
    kept = [array.copy() for array in handed]
    sharded_pass(
        shards,
        {name: 2 * array for name, array in given.items() if name != "label"}
        | {"label": given["label"]},
    )
    assert all(np.array_equal(a, b) for a, b in zip(handed, kept, strict=True))


def test_parts_of_gradients_are_handed_over_as_copies_of_arrays_that_the_next_pass_writes_to(
    tmp_path: Path,
) -> None:
    spec = net_of("parameters", tmp_path)
    _, given = crossing(spec, "TRAIN", np.float32)
    shards = shards_of(spec, "TRAIN", 2)
    sharded_pass(shards, given)
    shard = shards[0]
    out = {
        layer: tuple(np.empty(p.shape, np.float32) for p in params)
        for layer, params in shard.params.items()
    }
    shard.backward(2, out)
    assert shard.partial(2) == [("scale7", 0), ("scale7", 1), ("prelu7", 0)]
    for _, *others in shard.parts(2):
        for (layer, at), part in zip(shard.partial(2), others, strict=True):
            assert np.array_equal(part, out[layer][at]) and not np.shares_memory(
                part, out[layer][at]
            )


HEAD = """
layer { name: "data" type: "Input" top: "data" top: "label" input_param { shape { dim: 4 dim: 6 } shape { dim: 4 } } }
"""


def layer(kind: str, name: str, *bottoms: str, more: str = "") -> str:
    return (
        f'layer {{ name: "{name}" type: "{kind}" top: "{name}" '
        f"{' '.join(f'bottom: {b!r}' for b in bottoms)} {more} }}"
    )


def ip(name: str, bottom: str, shared: str = "") -> str:
    param = f"param {{ name: '{shared}' }}" if shared else ""
    return layer(
        "InnerProduct",
        name,
        bottom,
        more=(f"{param} inner_product_param {{ num_output: 5 weight_filler {{ }} }}"),
    )


def loss(bottom: str, name: str = "loss") -> str:
    return layer("SoftmaxWithLoss", name, bottom, "label")


REFUSED = {
    "two side by side": (
        [ip("a", "data"), ip("b", "data"), loss("a"), loss("b", "loss2")],
        "layer 'b': key 'bottom': an InnerProduct parallel to 'a'",
    ),
    "a way past one": (
        [ip("a", "data"), ip("b", "a"), layer("Eltwise", "sum", "a", "b"), loss("sum")],
        "layer 'sum': key 'bottom': 'a' bypasses an InnerProduct",
    ),
    "a loss in between": (
        [ip("a", "data"), loss("a", "aside"), ip("b", "a"), loss("b")],
        "layer 'aside': key 'loss_weight': a loss before the last InnerProduct",
    ),
    "shared parameters": (
        [ip("a", "data"), ip("b", "a", "w"), ip("c", "b", "w"), loss("c")],
        "layer 'b': key 'param.name': a shared parameter",
    ),
    "a matrix that has no rows of the batch": (
        [
            layer("Input", "h", more="input_param { shape { dim: 5 dim: 5 } }"),
            ip("a", "data"),
            layer("InfogainLoss", "loss", "a", "label", "h"),
        ],
        "the blobs that cross the cut have {'data': 4, 'label': 4, 'h': 5} rows",
    ),
    "nothing behind the last": ([ip("a", "data")], "no layer reads its last InnerProduct"),
    "none": ([loss("data")], "it has no InnerProduct layer"),
}


@pytest.mark.parametrize("why", REFUSED)
def test_a_net_whose_fc_phase_is_not_a_chain_is_refused_with_the_layer_that_breaks_it(
    tmp_path: Path, why: str
) -> None:
    layers, said = REFUSED[why]
    with pytest.raises(NetError) as caught:
        ShardedNet(
            spec_of(tmp_path, "\n".join([HEAD, *layers])),
            "TRAIN",
            rank=0,
            of=2,
            ops=get_backend("numpy"),
        )
    assert any(said in problem for problem in caught.value.problems), caught.value.problems


@pytest.mark.parametrize(
    ("name", "said"),
    [("googlenet", "parallel"), ("char_lstm", "'LSTM'"), ("nin", "no InnerProduct")],
)
def test_nets_of_the_zoo_without_a_chain_are_refused(name: str, said: str) -> None:
    shape = {"googlenet": (3, 224, 224), "nin": (3, 224, 224)}.get(name)
    with pytest.raises(NetError, match=said):
        ShardedNet(
            load_net(name),
            "TRAIN",
            rank=0,
            of=2,
            ops=get_backend("numpy"),
            batch=2,
            input_shape=shape,
        )


def test_more_servers_than_units_are_refused_with_the_layer(tmp_path: Path) -> None:
    said = r"layer 'fc8': key 'inner_product_param\.num_output': found 7, expected at least 8"
    with pytest.raises(NetError, match=said):
        ShardedNet(
            spec_of(tmp_path, SMALL_CAFFENET), "TRAIN", rank=0, of=8, ops=get_backend("numpy")
        )


@pytest.mark.parametrize(
    "name",
    ["alexnet_owt", "caffenet", "vgg16", "cifar10_quick", "resnet20", *sorted(IN_PYTHON)],
)
def test_the_chains_of_the_zoo_can_be_shared_out(name: str) -> None:
    spec = load_net(name)
    shape = (3, 32, 32) if name in ("cifar10_quick", "resnet20", "resnet56") else (3, 256, 256)
    shard = ShardedNet(
        spec, "TRAIN", rank=1, of=3, ops=get_backend("numpy"), batch=2, input_shape=shape
    )
    whole = Net(spec, "TRAIN", part="fc", ops=get_backend("numpy"), batch=2, input_shape=shape)
    assert list(shard.params) == list(whole.params)
    assert repr(shard).endswith(f"{len(whole.params) + 1} links>")
