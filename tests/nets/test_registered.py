"""Every class of a layer in nets/layers can be named in a prototxt."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest

from nets.layers import KINDS, Layer
from tests.house.source import OURS, ROOT, tree_of

FOLDER = "nets/layers/"


def below(base: type) -> Iterator[type]:
    """All subclasses of a class."""
    for cls in base.__subclasses__():
        yield cls
        yield from below(cls)


def unregistered() -> list[str]:
    """The classes of layers without a type. A class with subclasses is the base of a family."""
    return [
        f"{cls.__module__}.{cls.__name__}"
        for cls in below(Layer)
        if cls.__module__.startswith("nets.layers.")
        and not cls.__subclasses__()
        and cls not in KINDS.values()
    ]


def test_a_class_of_a_layer_is_registered_under_its_type() -> None:
    assert unregistered() == [], (
        "no net can name these layers: write @register('Type') above the class"
    )


def test_a_class_without_a_type_is_noticed() -> None:
    class Forgotten(Layer):
        """x."""

    Forgotten.__module__ = "nets.layers.forgotten"
    assert f"nets.layers.forgotten.{Forgotten.__name__}" in unregistered()
    Forgotten.__module__ = __name__  # it lives until the garbage collector frees it


@pytest.mark.parametrize(
    "name",
    [
        name
        for name in OURS
        if name.startswith(FOLDER) and "\n@register(" in (ROOT / name).read_text("utf-8")
    ],
)
def test_a_file_of_layers_is_imported_with_the_package(name: str) -> None:
    imported = {
        alias.name
        for node in tree_of("nets/layers/__init__.py").body
        if isinstance(node, ast.ImportFrom) and node.module == "nets.layers"
        for alias in node.names
    }
    module = name.removeprefix(FOLDER).removesuffix(".py")
    assert module in imported, f"add {module} to the first import of nets/layers/__init__.py"
