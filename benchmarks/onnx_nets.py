"""`python -m benchmarks.onnx_nets`: whether nets of torchvision and timm, as PyTorch exports them,
compute the same here as in onnxruntime, and whether they learn.

Two steps, since PyTorch and Convoy need not be installed together:

    python -m benchmarks.onnx_nets --export FOLDER [NET ...]   with PyTorch, timm and onnxruntime
    python -m benchmarks.onnx_nets --graphs FOLDER             with Convoy

The first step writes NET.onnx, a few images and onnxruntime's scores of them (NET.npz). The second one
reads each graph, compares the scores, and takes ten steps of SGD on these images. Both pass over the
nets that are done: the second step keeps what it found in FOLDER/found.jsonl, so it continues if it was
cut off. Remove the file to check all nets again.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.helpers.report import ROOT, Record, machine, missing, write
from benchmarks.helpers.vision import models

if TYPE_CHECKING:
    from benchmarks.tuning.kept import Kept

TORCHVISION = [
    "resnet18",
    "resnet50",
    "mobilenet_v2",
    "mobilenet_v3_small",
    "efficientnet_b0",
    "vgg16_bn",
    "densenet121",
    "regnet_y_400mf",
    "convnext_tiny",
    "squeezenet1_1",
    "googlenet",
    "shufflenet_v2_x1_0",
]
TIMM = [
    "resnet26d",
    "resnetv2_50",
    "seresnet18",
    "legacy_senet154",
    "skresnet18",
    "ecaresnet26t",
    "cspresnet50",
    "cspdarknet53",
    "darknet53",
    "dla34",
    "mobilenetv2_100",
    "mobilenetv3_large_100",
    "mobilenetv4_conv_small",
    "mobileone_s0",
    "mnasnet_100",
    "spnasnet_100",
    "fbnetc_100",
    "ghostnet_100",
    "tinynet_a",
    "efficientnet_lite0",
    "tf_efficientnet_b0",
    "mixnet_s",
    "rexnet_100",
    "hardcorenas_a",
    "lcnet_050",
    "regnetx_002",
    "regnetz_005",
    "repvgg_a0",
    "repghostnet_050",
    "repvit_m0_9",
    "convnextv2_atto",
    "inception_next_atto",
    "convmixer_1024_20_ks9_p14",
    "hrnet_w18_small",
    "res2net50_26w_4s",
    "selecsls42",
    "vovnet39a",
    "dpn68",
    "inception_v3",
    "xception41",
    "nf_resnet26",
    "resnest14d",
    "gernet_s",
    "fastvit_t8",
    "starnet_s1",
    "poolformer_s12",
    "hgnet_tiny",
    "edgenext_xx_small",
]
OPSET = 17
SIDE = 128  # pixels of an image, to save time
SIDES = {"vgg16_bn": 224}  # its head pools to 7 x 7, which fixes the size of its images
ROWS = 4
STEPS = 10
RATE = 0.1  # of a gradient whose norm is at most 1
CLOSE = 1e-4  # relative to the largest score
Arrays = Mapping[str, list[NDArray[Any]]]


def main(arguments: list[str] | None = None) -> int:
    """Export graphs, or check them. Returns 1 if a graph that was read is wrong."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.onnx_nets", description=__doc__)
    parser.add_argument("nets", nargs="*", help="names of torchvision and timm; default: all")
    parser.add_argument("--export", type=Path, help="write graphs and scores to this folder")
    parser.add_argument("--graphs", type=Path, help="check the graphs in this folder")
    parser.add_argument("--results", type=Path, default=ROOT / "benchmarks" / "results")
    given = parser.parse_args(arguments)
    if given.export is not None:
        if found := missing({name: name for name in ("torchvision", "timm", "onnxruntime")}):
            print(f"not installed: {', '.join(found)}", file=sys.stderr)
            return 2
        exported(given.export, given.nets or [*TORCHVISION, *TIMM])
    if given.graphs is None:
        return 0
    graphs = [given.graphs / f"{name}.onnx" for name in given.nets]
    from benchmarks.tuning.kept import Kept  # not installed next to PyTorch

    kept = Kept(given.graphs / "found.jsonl")
    record = checked(graphs or sorted(given.graphs.glob("*.onnx")), kept)
    print("results:", *write(given.results, "onnx-nets", machine(), {"nets": record}))
    return int(record.status == "failed")


def exported(folder: Path, nets: Iterable[str]) -> None:
    """Write the graph of each net, two images, and the scores that onnxruntime computes."""
    import onnxruntime
    import torch

    torchvision_models = models()
    import timm

    folder.mkdir(parents=True, exist_ok=True)
    for name in nets:
        path = folder / f"{name}.onnx"
        if path.with_suffix(".npz").is_file():
            continue
        torch.manual_seed(0)
        if name in TORCHVISION:
            options = {"aux_logits": False, "init_weights": True} if name == "googlenet" else {}
            model = getattr(torchvision_models, name)(weights=None, **options)
        else:
            model = timm.create_model(name, pretrained=False, exportable=True)
        size = SIDES.get(name, SIDE)
        _export(torch, model, path, size)
        session = onnxruntime.InferenceSession(str(path))
        x = np.random.default_rng(0).standard_normal((ROWS, 3, size, size)).astype(np.float32)
        (y,) = session.run(None, {"images": x})
        np.savez(path.with_suffix(".npz"), x=x, y=y)
        print(path, flush=True)


def _export(torch: Any, model: Any, path: Path, size: int) -> None:
    """Write a graph that keeps BatchNorm, with running statistics of noise."""
    model.train()
    with torch.no_grad():
        model(torch.randn(ROWS, 3, size, size))
    model.eval()
    torch.onnx.export(
        model, torch.randn(ROWS, 3, size, size), str(path), dynamo=False, opset_version=OPSET,
        training=torch.onnx.TrainingMode.PRESERVE, do_constant_folding=False,
        input_names=["images"], output_names=["scores"],
        dynamic_axes={"images": {0: "N"}, "scores": {0: "N"}},
    )  # fmt: skip


def checked(graphs: Iterable[Path], kept: Kept) -> Record:
    """Read, compare and train each graph that `kept` does not know."""
    record = Record("Nets of torchvision and timm", status="passed")
    record.facts = {
        "images": f"{ROWS}, with sides of {SIDE} pixels"
        + "".join(f", for {name} {side}" for name, side in SIDES.items()),
        "error": "largest difference to onnxruntime's scores, divided by the largest score",
        "loss": f"before and after {STEPS} steps of SGD on these images; a step has length {RATE}, "
        "or less if the gradient is shorter than 1",
    }
    record.table("Graphs", "net", "layers", "seconds to read", "error", "loss", "loss after")
    read = 0
    for path in graphs:
        found = kept.get(path.stem)
        if found is None:
            found = asdict(check(path))
            kept.put(path.stem, found)
        found = Found(**found)
        if found.refused:
            record.row(path.stem, "refused", "", "", "", "")
            record.note(f"{path.stem}: {found.refused}")
            continue
        read += 1
        losses = found.losses
        record.row(path.stem, found.layers, found.seconds, found.error, losses[0], losses[-1])
        if not found.error <= CLOSE or not losses[-1] < losses[0]:
            record.fail(f"MISSED {path.stem}: error {found.error:.1e}, losses {losses}")
    record.facts["nets were checked from commits"] = ", ".join(sorted(kept.origins))
    if read:
        most = max(row[3] for row in record.tables[-1].rows if row[3] != "")
        record.facts["largest error"] = f"{most:.1e}"
    record.note(f"{read} graphs are read, {len(record.tables[-1].rows) - read} refused")
    return record


@dataclass(frozen=True)
class Found:
    """What a graph's check found: the reason of a refusal, or the layers, the seconds to read it, the
    error of its scores, and its losses before each step and after the last."""

    refused: str = ""
    layers: int = 0
    seconds: float = 0.0
    error: float = 0.0
    losses: Sequence[float] = ()


def check(path: Path) -> Found:
    """Read, compare and train one graph."""
    from nets import GraphKeys, NetError, net_of_graph

    begin = time.perf_counter()
    try:
        spec, graph = net_of_graph(path, GraphKeys(batch=ROWS))
    except NetError as error:
        return Found(refused=error.problems[0].partition(": ")[2])
    seconds = time.perf_counter() - begin
    kept = np.load(path.with_suffix(".npz"))
    error, losses = tried(spec, graph.weights, kept["x"], kept["y"])
    return Found("", len(spec.layers), round(seconds, 2), error, losses)


def tried(
    spec: Any, weights: Mapping[str, Any], x: NDArray[Any], expected: NDArray[Any]
) -> tuple[float, list[float]]:
    """Return the error of the scores, and the loss before each step and after the last."""
    from nets import Net
    from ops import get_backend

    backend = get_backend("cpu")
    given = {"data": x, "label": np.arange(1, len(x) + 1, dtype=np.float32)}

    def net_in(phase: str, memory: str) -> Net:
        return Net(
            spec.for_phase(phase), phase, ops=backend, batch=len(x), input_shape=x.shape[1:],
            memory=memory,
        )  # fmt: skip

    net = net_in("TEST", "kept")
    blobs = {
        layer: [
            np.array(blob, np.float32).reshape(param.shape)
            for blob, param in zip(weights[layer], params, strict=True)
        ]
        for layer, params in net.params.items()
    }
    net.run(given, blobs)
    loss = next(layer.proto for layer in spec.layers if layer.proto.name == "loss")
    scores = np.asarray(net.blob(loss.bottom[0])).reshape(expected.shape)
    error = float(np.abs(scores - expected).max() / np.abs(expected).max())
    net = net_in("TRAIN", "reused")
    losses = []
    for step in range(STEPS):
        losses.append(net.run(given, blobs, step)["loss"])
        _descend(net, blobs)
    losses.append(net.run(given, blobs, STEPS)["loss"])
    return error, losses


def _descend(net: Any, blobs: Arrays) -> None:
    """Take a step of SGD, and let running statistics go on."""
    gradients: dict[str, Any] = {}
    for stage in reversed(net.stages):
        found = net.backward(stage)
        if stage.layer:
            gradients[stage.layer] = found
    learned = [
        gradient
        for layer, of in gradients.items()
        for gradient, param in zip(of, net.params[layer], strict=True)
        if param.keep is None
    ]
    norm = float(np.sqrt(sum(np.square(each, dtype=np.float64).sum() for each in learned)))
    rate = RATE / max(1.0, norm)
    for layer, of in gradients.items():
        for blob, gradient, param in zip(blobs[layer], of, net.params[layer], strict=True):
            if param.keep is not None:
                blob[...] = param.keep * blob + gradient
            else:
                blob -= rate * param.lr_mult * gradient


if __name__ == "__main__":
    sys.exit(main())
