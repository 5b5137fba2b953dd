"""Every field of a net or solver has its effect, a warning or a refusal, as `schema.fields`
declares."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from google.protobuf import text_format

from nets import NetError, load_net, load_solver
from nets.definition.params import ParamSpec
from nets.files.checkpoint import save
from nets.files.mean import write_mean
from nets.layers import KINDS
from nets.schema import caffe_pb2 as caffe
from nets.schema.fields import FIELDS
from ops import get_backend
from roles.learning.job import Job
from roles.planning.script_topology import training
from tests.nets.field_probes import FILLERS, INLINE, INSTEAD, LAYERS, NETS, SOLVERS, solver
from tests.nets.test_layers import BOTTOMS

MESSAGES = caffe.DESCRIPTOR.message_types_by_name
FLOAT = {MESSAGES["SolverParameter"].fields_by_name["base_lr"].cpp_type}
BOTTOMS = BOTTOMS | {"matrix3": np.random.default_rng(2).random((3, 3))}
IMAGES = {"format": "synthetic", "shape": [3, 8, 8], "classes": 3, "size": 20}
# these fields ask for three channels
GREY = ("TransformationParameter.force_color", "DataParameter.force_encoded_color")
# messages of files that are not prototxt
OUTSIDE = ("BlobProto", "BlobProtoVector", "Datum", "SolverState")
OLDER = ("V1LayerParameter", "V0LayerParameter")
REFUSED_TYPES = ("HDF5OutputParameter", "WindowDataParameter")


# -- the walk: (field, text of a net at first, text with the field)


def block_of(message: str) -> str:
    """The name of the options of this message in a layer."""
    return next(
        f.name
        for f in MESSAGES["LayerParameter"].fields
        if f.message_type and f.message_type.name == message
    )


def others(field, now):
    """Values of a plain field other than the present one."""
    if field.type == field.TYPE_BOOL:
        return [not now]
    if isinstance(now, str):
        return ["elsewhere"]
    if field.enum_type is not None:
        return [number for number in field.enum_type.values_by_number if number != now]
    return [now + (0.5 if field.cpp_type in FLOAT else 1)]


def probes_of(message: str) -> Iterator[tuple[str, str, str]]:
    """Each field of the options of a layer type: (field, options before, options with it)."""
    *_, base = LAYERS[message]
    kind = getattr(caffe, message)
    for field in MESSAGES[message].fields:
        name = f"{message}.{field.name}"
        if name in NETS:
            continue
        if name in INSTEAD:
            found = INSTEAD[name]
            yield (name, *found) if isinstance(found, tuple) else (name, base, found)
        elif field.message_type is not None and field.message_type.name == "FillerParameter":
            yield name, base, f'{base} {field.name} {{ type: "constant" value: 5 }}'
        else:
            first = text_format.Parse(base, kind(), allow_unknown_field=False)
            for value in others(field, getattr(first, field.name)):
                then = kind()
                then.CopyFrom(first)
                setattr(then, field.name, value)
                yield name, base, text_format.MessageToString(then, as_one_line=True)


def net_of(message: str, options: str) -> str:
    """A net whose last layer has these options. Its inputs are bottoms of test_layers."""
    kind, bottoms, tops, _ = LAYERS[message]
    shapes = {name: list(BOTTOMS[name].shape) for name in bottoms.split()}
    text = "".join(
        (
            f'layer {{ name: "{name}" type: "Input" top: "{name}" input_param {{ shape {{ dim: '
            f"{shape} }} }} }}\n"
        )
        for name, shape in shapes.items()
    )
    names = "".join(f'bottom: "{name}" ' for name in bottoms.split())
    names += "".join(
        f'top: "{top}" ' for top in ("data label" if tops == 2 else "t u v").split()[:tops]
    )
    weights = (
        "loss_weight: 1 " * tops if KINDS[kind].differentiable and not KINDS[kind].scores else ""
    )
    rest = "data_param { batch_size: 4 }" if message == "TransformationParameter" else ""
    return (
        f'{text}layer {{ name: "l" type: "{kind}" {names}{weights}{block_of(message)} {{ '
        f"{options} }} {rest} }}\n"
    )


def walk() -> Iterator[tuple[str, str, str]]:
    yield from ((name, *texts) for name, texts in NETS.items())
    for key, (first, then) in FILLERS.items():
        texts = (
            net_of("InnerProductParameter", (f"num_output: 3 weight_filler {{ {one} }}"))
            for one in (first, then)
        )
        yield (f"FillerParameter.{key}", *texts)
    yield (
        "BlobShape.dim",
        *(
            net_of("ReshapeParameter", f"shape {{ {one} }}")
            for one in ("dim: -1", "dim: 4 dim: -1")
        ),
    )
    for message in LAYERS:
        if message not in ("BlobShape", "PythonParameter"):
            yield from (
                (name, net_of(message, first), net_of(message, then))
                for name, first, then in probes_of(message)
            )
    for key in ("module", "layer"):
        text = '%s layer { name: "l" type: "Power" bottom: "x" top: "l" python_param { %s } }'
        x = NETS["LayerParameter.phase"][0].partition('layer { name: "r"')[0]
        yield (
            f"PythonParameter.{key}",
            text % (x, ""),
            text % (x, INSTEAD[f"PythonParameter.{key}"]),
        )
    yield "PythonParameter.share_in_parallel", text % (x, ""), text % (x, "share_in_parallel: true")


WALK = list(walk())
BY_MESSAGE = dict.fromkeys(name.partition(".")[0] for name, *_ in WALK)


# -- the observable results of a net


def seen(file: Path, channels: int = 3) -> list[object]:
    """All numbers of a net in both phases: shapes, first parameters, a pass forward and backward,
    its batches."""
    images = IMAGES | {"shape": [channels, 8, 8]}
    job = Job(
        net=str(file),
        solver="lenet_digits_solver",
        data={"TRAIN": images, "TEST": images},
        seed=3,
        batch=4,
        test_batches=(),
        base_directory=str(file.parent),
        kernels="numpy",
    )
    found: list[object] = [job.net_spec.name]
    for phase in ("TRAIN", "TEST"):
        try:
            found += [phase, *numbers(job, phase)]
        except NetError as error:
            found.append(str(error))
    return found


def numbers(job: Job, phase: str) -> Iterator[object]:
    spec = job.spec(phase)
    net = job._kind(
        spec, phase, ops=get_backend(), input_shape=tuple(job.data[phase]["shape"]), seed=3
    )
    yield (
        net.input_shapes,
        [
            dataclasses.astuple(dataclasses.replace(p, filler=None))
            for of in net.params.values()
            for p in of
        ],
    )
    blobs = net.initial_blobs()
    yield [(layer, [blob.tolist() for blob in of]) for layer, of in blobs.items()]
    if any(
        layer.proto.type in ("Data", "ImageData", "MemoryData", "HDF5Data") for layer in spec.layers
    ):
        source = job.source(phase)
        sized = dataclasses.replace(job, batch=net.batch, test_batches=(net.batch,))
        yield [array.tolist() for array in sized.batches(phase, source).read(5, 0, net.batch)]
    given = {
        n: BOTTOMS.get(n, BOTTOMS["X"])
        if n in BOTTOMS and BOTTOMS[n].shape == s
        else np.full(s, 0.5)
        for n, s in net.input_shapes.items()
    }
    scores = net.run(given, blobs)
    yield scores, [(name, net.blob(name).tolist()) for name in net.outputs]
    if phase == "TRAIN":
        for stage in reversed(net.stages):
            yield [gradient.tolist() for gradient in net.backward(stage)]
        yield [(name, net.grad(name).tolist()) for name in net.inputs]


@pytest.mark.parametrize("message", BY_MESSAGE)
def test_every_field_of_a_net_has_the_effect_the_warning_or_the_refusal_that_is_declared(
    message, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    write_mean(tmp_path / "mean.binaryproto", np.full((3, 8, 8), 7.0))
    for file, value in (("one", 1.0), ("two", 2.0)):
        Path(f"{file}.binaryproto").write_bytes(
            caffe.BlobProto(data=[value] * 9).SerializeToString()
        )
    wrong = []
    for name, first, then in (probe for probe in WALK if probe[0].partition(".")[0] == message):
        fields = FIELDS[message]
        key = name.partition(".")[2]
        channels = 1 if name in GREY else 3
        (tmp_path / "net.prototxt").write_text(first)
        base = seen(tmp_path / "net.prototxt", channels)
        told = load_net(tmp_path / "net.prototxt").warnings
        (tmp_path / "net.prototxt").write_text(then)
        try:
            spec = load_net(tmp_path / "net.prototxt")
        except NetError as error:
            if key not in fields.refused or (
                f"{key}': not supported: {fields.refused[key]}"
            ) not in str(error):
                wrong.append(f"{name}: {then}: refused: {error}")
            continue
        more = [line for line in spec.warnings if line not in told]
        same = repr(seen(tmp_path / "net.prototxt", channels)) == repr(base)
        if key in fields.honoured.split():
            ok = not same and not more
        else:
            ok = same and any(
                f"{key}'" in line and fields.warned.get(key, "?") in line for line in more
            )
        if not ok:
            wrong.append(f"{name}: {then}: {'no effect' if same else 'an effect'}, warnings {more}")
    assert wrong == []


def test_the_walk_comes_to_every_field_that_a_net_may_hold():
    named = {name for name, *_ in WALK} | {f"SolverParameter.{key}" for key in solver_keys()}
    options = {
        f"LayerParameter.{block_of(message)}" for message in LAYERS if message != "BlobShape"
    }
    later = {"PythonParameter.param_str"}
    every = {
        f"{message}.{field}"
        for message, of in MESSAGES.items()
        if message not in (*OUTSIDE, *OLDER, *REFUSED_TYPES)
        for field in of.fields_by_name
    }
    assert every - named - options - later == set()
    assert {f"{message}.{field}" for message, of in FIELDS.items() for field in of.names} == every
    assert len([name for of in FIELDS.values() for name in of.names]) == len(every), (
        "a field must be declared once"
    )


# -- solvers


def solver_keys() -> list[str]:
    return list(MESSAGES["SolverParameter"].fields_by_name)


def solver_probes() -> Iterator[tuple[str, str, str]]:
    for field in MESSAGES["SolverParameter"].fields:
        if field.name in SOLVERS:
            first, then = SOLVERS[field.name]
            yield field.name, solver(first), solver(then)
            continue
        first = text_format.Parse(solver({}), caffe.SolverParameter())
        for value in others(field, getattr(first, field.name)):
            then = caffe.SolverParameter()
            then.CopyFrom(first)
            setattr(then, field.name, value)
            yield field.name, solver({}), text_format.MessageToString(then)


def seen_of_solver(folder: Path) -> str:
    """The plan of a run with the solver, its rates, and the results of its updates for a
    parameter."""
    spec = load_solver(folder / "s.prototxt")
    plan = training(
        {
            "solver": str(folder / "s.prototxt"),
            "data": {"train": IMAGES, "test": IMAGES},
            "kernels": "numpy",
            "strategy": {"preset": "single"},
        },
    )
    lead = next(actor.options for actor in plan.actors if actor.name == "coordinator")
    nets = [lead.job.spec(phase) for phase in lead.job.phases]
    ops = get_backend()
    param = ParamSpec("l", 0, "w", (3,), caffe.FillerParameter())
    w = np.array([1.0, 2, 3])
    kept = spec.new_history(ops, param, np.float64)
    rows = []
    for iteration in range(12):
        gradient = w * 0.3 * spec.clip_factor(ops, [w])
        w, kept = spec.update(ops, iteration, param, w, gradient, kept)
        rows.append(w.tolist())
    job = dataclasses.replace(lead.job, solver_values={})
    return repr(
        (
            job,
            lead.timetable,
            lead.display,
            spec.average_loss,
            [(net.name, len(net.layers)) for net in nets],
            [spec.rate(iteration) for iteration in range(20)],
            rows,
        )
    )


@pytest.fixture
def folder(tmp_path, caplog):
    """A folder with the files that a solver names."""
    caplog.set_level(logging.ERROR)
    wide = (
        'layer { name: "w" type: "Power" bottom: "x" top: "w" include { stage: "wide" } '
        "loss_weight: 1 }"
    )
    for name in ("a", "b"):
        text = (INLINE % name).strip()[1:-1]
        (tmp_path / f"{name}.prototxt").write_text(text + wide)
    save(
        tmp_path / "first.safetensors",
        {"i.0": np.zeros((2, 192), np.float32), "i.1": np.zeros(2, np.float32)},
        {},
    )
    return tmp_path


def test_every_field_of_a_solver_has_the_effect_the_warning_or_the_refusal_that_is_declared(folder):
    wrong = []
    fields = FIELDS["SolverParameter"]
    for key, first, then in solver_probes():
        (folder / "s.prototxt").write_text(first)
        base = seen_of_solver(folder)
        told = load_solver(folder / "s.prototxt").warnings
        (folder / "s.prototxt").write_text(then)
        more = [line for line in load_solver(folder / "s.prototxt").warnings if line not in told]
        same = seen_of_solver(folder) == base
        if key in fields.honoured.split():
            ok = not same and not more
        else:
            ok = same and any(
                (f"key '{key}': not used: {fields.warned[key]}") in line for line in more
            )
        if not ok:
            wrong.append(
                f"{key}: {then!r}: {'no effect' if same else 'an effect'}, warnings {more}"
            )
    assert wrong == []
