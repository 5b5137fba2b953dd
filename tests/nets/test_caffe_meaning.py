"""The meaning of Caffe's files: each key has the effect that it has in Caffe, or is reported.
Phases, gradients, older formats, comments, rates, data."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from nets import DataError, NetError, PrototxtError, load_net, load_solver
from nets.data import Batches, Transform, batch_of_net, open_source
from nets.definition.upgrade_v0 import TYPES
from nets.graph.graph import Net
from nets.schema import caffe_pb2 as caffe
from nets.schema.fields import FIELDS, blocks_of
from nets.schema.layer_types import LAYER_TYPES
from ops import get_backend
from tests.nets.support import spec_of

X = (
    'layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 2 dim: 3 dim: 4 '
    "dim: 4 } } }\n"
)
LABELS = 'layer { name: "y" type: "Input" top: "y" input_param { shape { dim: 2 } } }\n'
IP = (
    'layer { name: "i" type: "InnerProduct" bottom: "x" top: "i" inner_product_param { '
    "num_output: 3 } %s }\n"
)
LOSS = 'layer { name: "s" type: "SoftmaxWithLoss" bottom: "i" bottom: "y" top: "s"\n %s }\n'
CONV = (
    'layer { name: "c" type: "Convolution" bottom: "x" top: "c" convolution_param { '
    "num_output: 1 %s } }\n"
)
CONV %= "kernel_size: 3 %s"


def net_of(tmp_path, text, phase="TRAIN", backend=None, **options):
    return Net(spec_of(tmp_path, text), phase, ops=get_backend(backend or "numpy"), **options)


# -- older formats


def test_every_field_of_a_v1_layer_reaches_the_layer_of_today_or_is_refused(tmp_path):
    # test_upgrade covers these
    renamed = {"type", "blobs_lr", "weight_decay", "param", "blob_share_mode", "layer"}
    values = {"bottom": '"x"', "top": '"z"', "name": '"z"', "loss_weight": "2"}
    for field in caffe.V1LayerParameter.DESCRIPTOR.fields:
        if field.name in renamed:
            continue
        said = (
            f"{field.name}: {values[field.name]}" if field.name in values else f"{field.name} {{ }}"
        )
        name = "" if field.name == "name" else 'name: "l"'
        text = f"layers {{ {name} type: POWER {said} }}"
        if field.name in FIELDS["LayerParameter"].refused:
            with pytest.raises(PrototxtError, match=f"key '{field.name}': not supported: "):
                spec_of(tmp_path, text)
        else:
            (layer,) = spec_of(tmp_path, text).layers
            found = getattr(layer.proto, field.name)
            assert len(found) if field.is_repeated else layer.proto.HasField(field.name), field.name


def test_every_field_of_a_v0_layer_reaches_the_layer_of_today_or_is_refused_by_name(tmp_path):
    values = {
        "name": '"other"',
        "source": '"f"',
        "meanfile": '"f"',
        "det_crop_mode": '"square"',
        "pool": "AVE",
    }
    blocks = {"weight_filler", "bias_filler", "blobs", "hdf5_output_param"}
    for field in caffe.V0LayerParameter.DESCRIPTOR.fields:
        if field.name == "type":
            continue
        said = (
            f"{field.name} {{ }}"
            if field.name in blocks
            else (f"{field.name}: {values.get(field.name, '1')}")
        )
        taken = 0
        for kind in TYPES:
            name = "" if field.name == "name" else 'name: "l"'
            try:
                with_it = spec_of(
                    tmp_path, (f'layers {{ layer {{ {name} type: "{kind}" {said} }} }}')
                ).proto
            except PrototxtError as error:
                assert (f"key 'layer.{field.name}': means nothing to") in str(
                    error
                ) or "not supported" in str(error)
                continue
            without = spec_of(tmp_path, f'layers {{ layer {{ name: "l" type: "{kind}" }} }}').proto
            assert with_it != without, (field.name, kind)
            taken += 1
        assert (
            taken
            or field.name
            in {"blobs", "hdf5_output_param", *(f"new_{n}" for n in ("num", "channels"))}
            or field.name.startswith("det_")
        ), field.name


def test_keys_next_to_a_v0_layer_that_caffe_drops_are_refused(tmp_path):
    with pytest.raises(PrototxtError, match=r"key 'include': not allowed next to 'layer'"):
        spec_of(tmp_path, 'layers { layer { name: "l" type: "relu" }\n include { phase: TEST } }')


def test_sizes_of_inputs_without_their_names_are_refused(tmp_path):
    with pytest.raises(
        PrototxtError, match=(r"net.prototxt:1: key 'input_dim': given without " r"'input'")
    ):
        spec_of(tmp_path, "input_dim: [1, 2, 3, 4]\n" + X)


# -- unused keys


@pytest.mark.parametrize("kind", LAYER_TYPES)
def test_options_of_another_type_are_reported(tmp_path, kind):
    blocks = {name for name in FIELDS["LayerParameter"].honoured.split() if name.endswith("_param")}
    required = {"clip_param": "min: 0 max: 1"}
    foreign = sorted(blocks - blocks_of(kind))
    said = " ".join(f"{name} {{ {required.get(name, '')} }}" for name in foreign)
    (line,) = spec_of(tmp_path, f'layer {{ name: "l" type: "{kind}" {said} }}').warnings
    assert line.endswith(f": layers of type '{kind}' do not read it")
    assert [name for name in foreign if f"'{name}'" not in line] == []


def test_one_line_lists_all_layers_and_keys_that_are_ignored_for_one_reason(tmp_path):
    text = (
        'layer { name: "%s" type: "Data"\n data_param { source: "a" backend: LMDB '
        "batch_size: 1 } }\n"
    )
    assert spec_of(tmp_path, text % "a" + text % "b" + text % "c").warnings == (
        "net.prototxt:2: layer 'a': key 'data_param.source': not used (also 'data_param.backend'): "
        "[train.data] in cluster.toml gives the source of the data, unless its format is "
        "'net'; 2 more layers like this",
    )


def test_a_layer_of_another_package_may_read_any_options(tmp_path):
    assert (
        spec_of(tmp_path, ('layer { name: "l" type: "Softsign" elu_param { alpha: 2 } }')).warnings
        == ()
    )


# -- phases and gradients


def test_a_layers_own_phase_counts_instead_of_the_nets(tmp_path):
    drop = 'layer { name: "d" type: "Dropout" bottom: "x" top: "d" %s loss_weight: 1 }\n'
    x = np.ones((2, 3, 4, 4), np.float32)
    found = {}
    for own in ("", "phase: TRAIN", "phase: TEST"):
        for phase in ("TRAIN", "TEST"):
            for memory in ("kept", "reused"):
                net = net_of(tmp_path, X + drop % own, phase, memory=memory)
                net.run({"x": x}, {})
                found[own, phase, memory] = bool((net.blob("d") == 0).any())
    drops = {key for key, dropped in found.items() if dropped}
    assert drops == {
        (own, phase, memory)
        for own, phase, memory in found
        if "TRAIN" in (own.split()[-1:] or [phase])
    }


@pytest.mark.parametrize("memory", ["kept", "reused"])
def test_gradients_flow_through_a_dropout_that_always_tests(tmp_path, memory):
    first = CONV.replace('"x"', '"x"') % ""
    drop = 'layer { name: "d" type: "Dropout" bottom: "c" top: "d" phase: TEST }\n'
    rest = (IP % "").replace('"x"', '"%s"') + LOSS % ""
    grads = {}
    sizes = {}
    for name, text in (("with", first + drop + rest % "d"), ("without", first + rest % "c")):
        net = net_of(tmp_path, X + LABELS + text, memory=memory, seed=5)
        blobs = {
            layer: tuple(
                np.full_like(b, 0.1) + np.arange(b.size, dtype=b.dtype).reshape(b.shape) / 50
                for b in of
            )
            for layer, of in net.initial_blobs().items()
        }
        net.run({"x": np.random.default_rng(1).random((2, 3, 4, 4)), "y": np.array([0, 2])}, blobs)
        sizes[name] = net.memory_plan.size
        grads[name] = [g.copy() for stage in reversed(net.stages) for g in net.backward(stage)]
    assert all(np.array_equal(a, b) for a, b in zip(grads["with"], grads["without"], strict=True))
    assert any(grad.any() for grad in grads["with"])
    assert sizes["with"] == sizes["without"]  # there is no memory for a mask


def test_a_data_layers_own_phase_decides_about_random_crops(tmp_path):
    text = 'layer { name: "d" type: "Data" top: "d" phase: TEST transform_param { crop_size: 2 } }'
    transform = Transform.of_net(spec_of(tmp_path, text), "TRAIN")
    images = np.arange(8 * 16, dtype=np.float32).reshape(8, 1, 4, 4)
    assert np.array_equal(
        transform(images, np.arange(8), seed=1, train=True), images[:, :, 1:3, 1:3]
    )


@pytest.mark.parametrize("backend", ["numpy", "cpu"])
def test_force_backward_gives_the_gradients_of_inputs_but_not_of_labels(tmp_path, backend):
    text = X + LABELS + CONV % "pad: 1" + (IP % "").replace('"x"', '"c"') + LOSS % ""
    x = np.random.default_rng(1).random((2, 3, 4, 4)).astype(np.float32)
    y = np.array([0, 2], np.float32)

    def gradient(text, name="x"):
        net = net_of(tmp_path, text, backend=backend)
        blobs = {
            layer: tuple(
                b + 0.1 * np.cos(np.arange(b.size)).reshape(b.shape).astype(b.dtype) for b in of
            )
            for layer, of in net.initial_blobs().items()
        }
        net.run({"x": x, "y": y}, blobs)
        for stage in reversed(net.stages):
            net.backward(stage)
        return np.array(net.ops.to_host(net.grad(name)))

    forced = gradient("force_backward: true\n" + text)
    assert not gradient(text).any()
    assert not gradient("force_backward: true\n" + text, "y").any()
    assert forced.any()
    asked = text.replace('type: "Convolution"', 'type: "Convolution" propagate_down: true')
    assert np.array_equal(gradient(asked), forced)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            IP % "propagate_down: true\n propagate_down: true",
            "key 'propagate_down': found 2, expected none or 1, one per",
        ),
        (
            IP % "" + LOSS % "propagate_down: [true, true]",
            "found true for 'y', but no gradient reaches labels, expected f",
        ),
    ],
)
def test_propagate_down_that_fits_nothing_is_refused(tmp_path, text, message):
    with pytest.raises(NetError) as caught:
        net_of(tmp_path, X + LABELS + text)
    assert message in str(caught.value)


def test_a_net_with_a_fixed_phase_is_refused_for_the_other_phase(tmp_path):
    spec = spec_of(tmp_path, "state {\n phase: TEST }\n" + X)
    assert spec.for_phase("TEST").layers
    with pytest.raises(
        PrototxtError,
        match=(r"net.prototxt:2: key 'state.phase': found TEST, but the net is " r"needed for"),
    ):
        spec.for_phase("TRAIN")


# -- values as Caffe reads them


@pytest.mark.parametrize(
    ("said", "shape"), [("pad_h: 2", (2, 1, 6, 2)), ("pad_w: 1", (2, 1, 2, 4))]
)
def test_a_convolution_takes_one_pad_alone_and_the_other_is_zero(tmp_path, said, shape):
    assert net_of(tmp_path, X + CONV % said).shape("c") == shape


@pytest.mark.parametrize(
    "line", ["# M\xfcller's net", "name: 'a' # 'M\xfcller", 'name: "a#\\"" # \xfc\xff']
)
def test_comments_may_be_in_any_encoding(tmp_path, line):
    file = tmp_path / "net.prototxt"
    file.write_bytes(line.encode("latin-1") + b"\n" + X.encode())
    assert len(load_net(file).layers) == 1


@pytest.mark.parametrize("line", ["name: 'M\xfcller' # name", "\xfc", 'name: "a # \xfc"'])
def test_other_text_that_is_not_utf_8_is_refused_with_its_line(tmp_path, line):
    file = tmp_path / "net.prototxt"
    file.write_bytes(X.encode() + line.encode("latin-1"))
    with pytest.raises(
        PrototxtError,
        match=(r"^net.prototxt:2: found bytes that are not " r"UTF-8, expected text$"),
    ):
        load_net(file)


def solver(tmp_path, text):
    (tmp_path / "s.prototxt").write_text(
        (f"base_lr: 0.5 max_iter: 100 momentum: 0\n{text}\n"), "utf-8"
    )
    return load_solver(tmp_path / "s.prototxt")


@pytest.mark.parametrize(
    ("text", "rates", "told"),
    [
        ('lr_policy: "step" stepsize: 10', {9: 0.5, 10: 0}, ("'step' without 'gamma': the " "rate is 0 from iteration 10")),
        ('lr_policy: "exp"', {0: 0.5, 1: 0}, ("'exp' without 'gamma': the rate is 0 from " "" "" "iteration 1 on")),
        ('lr_policy: "multistep" stepvalue: 7', {6: 0.5, 7: 0}, ("'multistep' without " "'gamma': the rate is 0 from iter")),
        ('lr_policy: "multistep" gamma: 0.1', {0: 0.5, 99: 0.5}, ("'multistep' without " "'stepvalue': the rate never")),
        ('lr_policy: "inv" gamma: 0.1', {0: 0.5, 99: 0.5}, ("'inv' without 'power': the rate " "never changes")),
        ('lr_policy: "inv" power: 0.1', {0: 0.5, 99: 0.5}, ("'inv' without 'gamma': the rate " "never changes")),
        ('lr_policy: "poly"', {0: 0.5, 99: 0.5}, "'poly' without 'power': the rate never changes"),
        ('lr_policy: "sigmoid" stepsize: 3', {0: 0.25, 99: 0.25}, ("'sigmoid' without 'gamma': " "the rate is half of")),
        ('lr_policy: "fixed" power: 2', {0: 0.5, 99: 0.5}, ("key 'power': not used: lr_policy " "'fixed' does not take it")),
        ('lr_policy: "fixed" delta: 2', {0: 0.5}, ("key 'delta': not used: solver type 'SGD' " "" "" "does not take it")),
    ],
)  # fmt: skip
def test_rates_are_caffes_and_surely_mistaken_rates_are_reported(tmp_path, text, rates, told):
    found = solver(tmp_path, text)
    assert {iteration: found.rate(iteration) for iteration in rates} == rates
    (line,) = found.warnings
    assert line.startswith("s.prototxt:2: key ")
    assert told in line


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (('lr_policy: "sigmoid" gamma: -0.5 stepsize: ' '' '' '1'), "key 'gamma': found -0.5, expected a finite number >= 0"),
        ('lr_policy: "exp" gamma: nan', "key 'gamma': found nan, expected a finite number >= 0"),
        ('lr_policy: "exp" gamma: inf', "key 'gamma': found inf, expected a finite number >= 0"),
        ('lr_policy: "poly" power: nan', "key 'power': found nan, expected a finite number"),
        ('lr_policy: "step" gamma: 0.5', ("key 'stepsize': missing, expected an integer >= 1 " "" "" "for lr_policy 'step'")),
        (('lr_policy: "fixed" type: "Adam" solver_type: ' '' '' 'SGD'), "key 'solver_type': given together with type 'Adam'"),
        ('lr_policy: "fixed" average_loss: 0', ("key 'average_loss': found 0, expected an " "" "" "integer >= 1")),
        (('lr_policy: "fixed" net: "a" train_net: ' '' '' '"b"'), "key 'train_net': given together with 'net', expected only one"),
        (('lr_policy: "fixed" train_net: "a" test_net: ' '' '' '"b"'), "key 'test_iter': found 0, expected 1, one per test net"),
        (('lr_policy: "fixed" net: "a" test_iter: 1 test_iter: 2 test_state { stage: "a" ' '' '' '}'), "key 'test_state': fou"),
        (('lr_policy: "fixed" train_state { phase: TEST ' '' '' '}'), "key 'train_state.phase': found another phase than TRAIN"),
    ],
)  # fmt: skip
def test_solver_keys_that_caffe_refuses_are_refused(tmp_path, text, message):
    with pytest.raises(PrototxtError) as caught:
        solver(tmp_path, text)
    assert message in str(caught.value)


def test_a_rand_skip_beyond_the_data_is_refused():
    source = open_source({"format": "synthetic", "size": 20}, Path())
    options = {"shuffle": False, "seed": 1, "train": True}
    with pytest.raises(
        DataError, match=(r"rand_skip: found 21, expected at most 20, the " r"number of samples")
    ):
        Batches(source, Transform(), 2, rand_skip=21, **options)
    drawn = [
        Batches(source, Transform(), 2, rand_skip=20, **(options | {"seed": seed}))
        for seed in range(9)
    ]
    first = {int(batches.indices(0, 1)[0]) for batches in drawn}
    assert len(first) > 4


def test_the_state_chooses_the_data_layer_whose_batch_and_transform_count(tmp_path):
    data = 'layer { name: "%s" type: "Data" top: "x" include { phase: TEST stage: "%s" }\n'
    data += "transform_param { scale: %s } data_param { batch_size: %d } }\n"
    spec = spec_of(tmp_path, data % ("a", "small", 0.5, 3) + data % ("b", "large", 0.25, 7))
    for stage, expected in (("small", (3, 0.5)), ("large", (7, 0.25))):
        chosen = spec.for_phase("TEST", stages=(stage,))
        assert (batch_of_net(chosen, "TEST"), Transform.of_net(chosen, "TEST").scale) == expected
        assert Net(chosen, "TEST", ops=get_backend(), input_shape=(1, 2, 2)).batch == expected[0]
