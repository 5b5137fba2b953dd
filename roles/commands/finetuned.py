"""The files that `init --net --weights` writes: a trained net for the classes of a folder of
images."""

from __future__ import annotations

from pathlib import Path

from nets import NetError, load_net
from nets.data import Transform
from nets.files.weights import read_each
from nets.predict import Deployment
from nets.predict.given import deployment_of
from nets.tools.other_classes import for_classes
from roles.commands import starters
from roles.commands.common import told_beside, weights_meant
from runtime.config.toml_write import string

SIZED_UP = 8 / 7  # images are so much larger than the crop, as 256 for a crop of 224
MULTIPLE = 32  # of pixels


def finetuned(
    net: str, weights: str, classes: int, batches: tuple[int, int], directory: Path, root: str
) -> tuple[str, str]:
    """The texts of a net for so many classes, and of the sections [train] and [train.data].

    `root`: the folder of the images, as TOML. Raises NetError if the net or its weights cannot be
    used.
    """
    spec = load_net(net)
    changed = for_classes(spec, classes, batches, directory)
    files = weights_meant(weights)
    found = read_each(files, spec.layers).weights
    layers = {layer.proto.name for layer in spec.layers} - set(changed.fresh)
    if not layers & found.keys():
        names = ", ".join(list(found)[:8])
        raise NetError(
            f"{', '.join(map(str, files))}: no layer of net '{spec.name}' is in the file; it has "
            f"{names}: name the net of these weights with --net"
        )
    known = deployment_of(files)
    keys, height, width = _of_images(known, Transform.of_net(spec, "TEST"), changed.crop)
    if not height:
        raise NetError(
            f"{spec.path.name}: its data layers have no crop_size, so the size of its images is "
            "not known: add transform_param { crop_size: PIXELS } to them"
        )
    text = starters.FINETUNED.format(
        weights=", ".join(string(str(file.resolve())) for file in files),
        fresh=", ".join(string(layer) for layer in changed.fresh),
        root=root,
        size=f"new_height = {height}, new_width = {width}" + _colour(known),
        keys="".join(f"{line}\n" for line in keys),
    )
    head = f"# {spec.name} for {classes} classes: {', '.join(changed.fresh)} begin afresh.\n"
    return head + changed.text, text


def _of_images(known: Deployment | None, own: Transform, crop: int) -> tuple[list[str], int, int]:
    """The keys of [train.data] that a file of weights needs in addition to the net's own transform,
    and the height and width of its images; 0 if they are not known."""
    if known is None or len(known.shape) != 3:
        side = round(crop * SIZED_UP / MULTIPLE) * MULTIPLE
        return [], side, side
    if known.order == "rgb" and not own.rgb:  # a net with `rgb` turns the planes
        text = "its images were red first, but image files are read blue first: add rgb: true to "
        told_beside("weights", f"{text}the transform_param of the net's data layers")
    there = known.transform
    keys = [
        f"{key} = {list(getattr(there, key)) if key != 'crop' else there.crop}"
        for key in ("mean", "deviation", "crop")
        if getattr(there, key) and getattr(there, key) != getattr(own, key)
    ]
    return keys, *known.shape[1:]


def _colour(known: Deployment | None) -> str:
    gray = known is not None and known.shape[0] == 1
    return ', color = "gray"' if gray else ""
