"""The names of timm's modules in terms of torchvision's, for the architectures where the two
differ."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

Names = dict[str, str]  # timm's module -> torchvision's
CONVNEXT = {"conv_dw": "block.0", "norm": "block.2", "mlp.fc1": "block.3", "mlp.fc2": "block.5"}
REGNET = {
    **{f"conv{at}.{part}": f"f.{to}.{n}" for at, to in ((1, "a"), (2, "b"), (3, "c"))
       for n, part in enumerate(("conv", "bn"))},
    "se.fc1": "f.se.fc1",
    "se.fc2": "f.se.fc2",
    "downsample.conv": "proj.0",
    "downsample.bn": "proj.1",
}  # fmt: skip
_CONVNEXT = re.compile(r"stages\.(\d+)\.(?:blocks\.(\d+)\.(.+)|downsample\.(\d))")
_REGNET = re.compile(r"s(\d)\.b(\d+)\.(.+)")
_MOBILE = re.compile(r"blocks\.(\d+)\.(\d+)\.(.+)")


def in_torchvision(names: Iterable[str], wanted: set[str]) -> Mapping[str, str]:
    """Return torchvision's name of each array in a file of timm's. {} if the file is not timm's, or
    has the same names there. `wanted`: the names that the net has."""
    given = list(names)
    modules = [_module(name) for name in given]
    candidates = [dict(read(list(dict.fromkeys(modules)))) for read in _READERS]

    def renamed(by: Names) -> dict[str, str]:
        found = {}
        for name, module in zip(given, modules, strict=True):
            if module in by:
                found[name] = by[module] + name[len(module) :]
        return found

    best = max(map(renamed, candidates), key=lambda found: len(wanted & set(found.values())))
    return best if len(wanted & set(best.values())) > len(wanted & set(given)) else {}


def _module(name: str) -> str:
    """The module of an array. A parameter such as ConvNeXt's `gamma` counts as one."""
    module, _, last = name.rpartition(".")
    return name if last == "gamma" else module


def _convnext(modules: list[str]) -> Iterator[tuple[str, str]]:
    ends = {"stem.0": "features.0.0", "stem.1": "features.0.1"}
    ends |= {"head.norm": "classifier.0", "head.fc": "classifier.2"}
    for module in modules:
        if module in ends:
            yield module, ends[module]
        if said := _CONVNEXT.fullmatch(module):
            stage, block, part, down = said.groups()
            if down:
                yield module, f"features.{2 * int(stage)}.{down}"
            elif part == "gamma":
                yield module, f"features.{2 * int(stage) + 1}.{block}.layer_scale"
            elif part in CONVNEXT:
                yield module, f"features.{2 * int(stage) + 1}.{block}.{CONVNEXT[part]}"


def _regnet(modules: list[str]) -> Iterator[tuple[str, str]]:
    ends = {"stem.conv": "stem.0", "stem.bn": "stem.1", "head.fc": "fc"}
    for module in modules:
        if module in ends:
            yield module, ends[module]
        if (said := _REGNET.fullmatch(module)) and said[3] in REGNET:
            block = f"trunk_output.block{said[1]}.block{said[1]}-{int(said[2]) - 1}"
            yield module, f"{block}.{REGNET[said[3]]}"


def _vgg(modules: list[str]) -> Iterator[tuple[str, str]]:
    ends = {"pre_logits.fc1": "classifier.0", "pre_logits.fc2": "classifier.3"}
    ends |= {"head.fc": "classifier.6"}
    for module in modules:
        yield module, ends.get(module, module)


def _efficientnet(modules: list[str]) -> Iterator[tuple[str, str]]:
    blocks = _blocks(modules)
    last = max((stage for stage, _ in blocks), default=-1) + 2
    yield from _stem(f"features.{last}", "classifier.1")
    for (stage, at), parts in blocks.items():
        name = f"features.{stage + 1}.{at}.block"
        yield from _inverted(f"blocks.{stage}.{at}", name, parts, flat=False)


def _mobilenet_v2(modules: list[str]) -> Iterator[tuple[str, str]]:
    blocks = _blocks(modules)
    yield from _stem(f"features.{len(blocks) + 1}", "classifier.1")
    for number, ((stage, at), parts) in enumerate(blocks.items(), 1):
        yield from _inverted(f"blocks.{stage}.{at}", f"features.{number}.conv", parts, flat=True)


def _mobilenet_v3(modules: list[str]) -> Iterator[tuple[str, str]]:
    yield from _stem("", "classifier.3")
    yield "conv_head", "classifier.0"
    for number, ((stage, at), parts) in enumerate(_blocks(modules).items(), 1):
        old, new = f"blocks.{stage}.{at}", f"features.{number}"
        if "conv" in parts:
            yield f"{old}.conv", f"{new}.0"
            yield f"{old}.bn1", f"{new}.1"
        else:
            yield from _inverted(old, f"{new}.block", parts, flat=False)


def _stem(head: str, classifier: str) -> Iterator[tuple[str, str]]:
    yield "conv_stem", "features.0.0"
    yield "bn1", "features.0.1"
    yield "conv_head", f"{head}.0"
    yield "bn2", f"{head}.1"
    yield "classifier", classifier


def _blocks(modules: list[str]) -> dict[tuple[int, int], list[str]]:
    """The parts of each block, by stage and number."""
    found: dict[tuple[int, int], list[str]] = {}
    for module in modules:
        if said := _MOBILE.fullmatch(module):
            found.setdefault((int(said[1]), int(said[2])), []).append(said[3])
    return dict(sorted(found.items()))


def _inverted(old: str, new: str, parts: list[str], *, flat: bool) -> Iterator[tuple[str, str]]:
    """An inverted residual block. `flat`: its last convolution has no module around it."""
    convs = ["conv_pw", "conv_dw", "conv_pwl"] if "conv_pwl" in parts else ["conv_dw", "conv_pw"]
    at = 0
    for number, conv in enumerate(convs, 1):
        if conv == convs[-1] and "se.conv_reduce" in parts:
            yield f"{old}.se.conv_reduce", f"{new}.{at}.fc1"
            yield f"{old}.se.conv_expand", f"{new}.{at}.fc2"
            at += 1
        bare = flat and conv == convs[-1]
        yield f"{old}.{conv}", f"{new}.{at}" if bare else f"{new}.{at}.0"
        yield f"{old}.bn{number}", f"{new}.{at + 1}" if bare else f"{new}.{at}.1"
        at += 1


_READERS: tuple[Callable[[list[str]], Iterable[tuple[str, Any]]], ...] = (
    _convnext,
    _regnet,
    _vgg,
    _efficientnet,
    _mobilenet_v2,
    _mobilenet_v3,
)
