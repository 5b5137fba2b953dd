"""Recipes of training by name (`train.recipe`): values for keys of [train] that cluster.toml leaves
open. They are those of current image training: SGD or AdamW with a warm-up and a cosine, an average
of the weights, and light augmentation (Goyal et al. 2017; Loshchilov and Hutter 2017, 2019)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

Path = tuple[str, ...]  # of a key below [train]

RECIPES: Mapping[str, Mapping[str, Any]] = {
    "cifar": {  # small images, a net from scratch, batches of 128
        "epochs": 30.0,
        "test_epochs": 1.0,
        "base_lr": 0.1,
        "momentum": 0.9,
        "optimizer": {"type": "Nesterov", "weight_decay": 0.0005, "decays": "weights"},
        "schedule": {"type": "cosine", "warmup_epochs": 2.0},
        "ema": {"decay": 0.999, "ramp": True},
        "data": {
            "shuffle": True,
            "mean": [121.0],
            "deviation": [64.0],
            "augment": {"pad": 4, "flip": "alternating"},
        },
    },
    "airbench94": {  # CIFAR-10 with the net of this name, batches of 1024 (Jordan 2024)
        "epochs": 9.9,
        "test_epochs": 1.0,
        "base_lr": 1.5,
        "momentum": 0.85,
        "optimizer": {"type": "Nesterov", "decoupled": True, "weight_decay": 0.00886957},
        "schedule": {"type": "linear", "warmup_epochs": 2.277, "warmup_from": 0.2, "end": 0.07},
        "ema": {"decay": 0.7737809, "every": 5, "power": 3.0, "lookahead": True},
        "data": {
            "shuffle": True,
            "mean": [125.307, 122.961, 113.8575],
            "deviation": [62.985, 62.0925, 66.708],
            "test_flips": True,
            "augment": {"pad": 2, "padding": "reflect", "flip": "alternating"},
        },
    },
    "imagenet": {  # photographs, a net from scratch, batches of 256
        "epochs": 90.0,
        "test_epochs": 1.0,
        "base_lr": 0.1,
        "momentum": 0.9,
        "optimizer": {"type": "Nesterov", "weight_decay": 0.0001, "decays": "weights"},
        "schedule": {"type": "cosine", "warmup_epochs": 5.0},
        "ema": {"decay": 0.9999, "ramp": True},
        "data": {
            "shuffle": True,
            "augment": {"scale": [0.08, 1.0], "flip": "random", "mixup": 0.2},
        },
    },
    "finetune": {  # a net with `train.weights`, for other classes
        "epochs": 10.0,
        "test_epochs": 1.0,
        "base_lr": 0.001,
        "momentum": 0.9,
        "optimizer": {
            "type": "AdamW",
            "weight_decay": 0.05,
            "decays": "weights",
            "momentum2": 0.999,
            "epsilon": 1e-8,
            "clip_norm": 1.0,
        },
        "schedule": {"type": "cosine", "warmup_epochs": 0.5},
        "ema": {"decay": 0.999, "ramp": True},
        "data": {"shuffle": True, "augment": {"flip": "random"}},
    },
}
# the factor of the rate of the layers in `fresh`, whose weights are random (Caffe's example of
# fine-tuning)
FRESH: Mapping[str, float] = {"finetune": 10.0}
# keys that say the same in another way: where one is given, the recipe leaves out the other
OTHERS: Mapping[Path, Path] = {
    ("epochs",): ("max_iter",),
    ("schedule", "warmup_epochs"): ("schedule", "warmup"),
}
# keys whose values belong to one type: where another type is given, they are left out
TYPED: Mapping[str, Path] = {
    "base_lr": ("optimizer", "type"),
    "optimizer": ("optimizer", "type"),
    "schedule": ("schedule", "type"),
}


def with_recipe(name: str, given: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the values of [train] completed by a recipe, and the values that the recipe set, by
    their dotted keys. Every value of `given` stays. Values that are not tables, where tables
    belong, stay as they are, for the check of the section."""
    found = dict(given)
    told: dict[str, Any] = {}
    for path, value in (*_values(RECIPES[name]), *_of_fresh(name, given)):
        if _fits(name, path, given):
            _put(found, path, value, told)
    return found, told


def _values(table: Mapping[str, Any], above: Path = ()) -> Iterator[tuple[Path, Any]]:
    """Each key of a recipe, with its value."""
    for key, value in table.items():
        if isinstance(value, Mapping):
            yield from _values(value, (*above, key))
        else:
            yield (*above, key), value


def _of_fresh(name: str, given: Mapping[str, Any]) -> Iterator[tuple[Path, Any]]:
    """The rates of the layers that begin with random weights."""
    fresh = given.get("fresh")
    for pattern in fresh if name in FRESH and isinstance(fresh, list | tuple) else ():
        if isinstance(pattern, str) and pattern:  # others are mistakes of `fresh`
            yield ("lr_scale", pattern), FRESH[name]


def _fits(name: str, path: Path, given: Mapping[str, Any]) -> bool:
    """Whether a key of a recipe goes with what is given."""
    other = OTHERS.get(path)
    if other is not None and _get(given, other) is not None:
        return False
    kind = TYPED.get(path[0])
    if kind is None:
        return True
    theirs = _get(given, kind)
    return theirs is None or theirs == _get(RECIPES[name], kind)


def _get(table: Any, path: Path) -> Any:
    for key in path:
        table = table.get(key) if isinstance(table, Mapping) else None
    return table


def _put(table: dict[str, Any], path: Path, value: Any, told: dict[str, Any]) -> None:
    """Set a key that is not given, in copies of the tables above it."""
    for key in path[:-1]:
        below = table.get(key, {})
        if not isinstance(below, Mapping):
            return
        table[key] = dict(below)
        table = table[key]
    if path[-1] not in table:
        table[path[-1]] = value
        told[".".join(path)] = value
