"""Declarations of messages: the allowed fields, the kind's name, and the repr."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.messages.message import (
    REGISTRY,
    Array,
    Envelope,
    Json,
    Message,
    Save,
    WindDown,
    message,
    message_annotation,
    snake_case,
)


@message
class Everything(Message):
    number: int
    share: float
    name: str
    sure: bool
    numbers: tuple[int, ...]
    shares: tuple[float, ...]
    names: tuple[str, ...]
    more: Json
    one: Array
    several: tuple[Array, ...]


@pytest.fixture(autouse=True)
def same_registry_afterwards() -> Iterator[None]:
    before = dict(REGISTRY)
    yield
    REGISTRY.clear()
    REGISTRY.update(before)


def declare(name: str, *, module: str = __name__, **annotations: Any) -> type[Message]:
    return message(type(name, (Message,), {"__annotations__": annotations, "__module__": module}))


def test_every_field_kind_of_the_docstring_can_be_declared() -> None:
    assert [field.name for field in Everything.plain_fields] == [
        "number", "share", "name", "sure", "numbers", "shares", "names", "more",
    ]  # fmt: skip
    assert Everything.array_fields == (("one", False), ("several", True))


@pytest.mark.parametrize(
    "annotation",
    [bytes, list[int], dict[str, int], object, tuple[int, str], int | None, np.ndarray, Envelope],
)
def test_a_field_of_a_type_that_cannot_travel_is_refused_by_name_at_its_declaration(
    annotation: Any,
) -> None:
    with pytest.raises(TypeError, match=r"Odd\.field: a message cannot carry"):
        declare("Odd", field=annotation)


@pytest.mark.parametrize("name", ["kind", "lane", "plain_fields", "array_fields", "plain_values"])
def test_a_field_may_not_take_a_name_that_every_message_has(name: str) -> None:
    with pytest.raises(
        TypeError, match=rf"Shadow\.{name}: every message already has an attribute of this name"
    ):
        declare("Shadow", **{name: int})


def test_a_kind_is_the_top_package_and_the_class_name() -> None:
    assert Save.kind == "runtime.Save"
    assert declare("Deep", module="package.inner.words").kind == "package.Deep"


def test_two_modules_of_one_package_cannot_declare_the_same_kind() -> None:
    first = declare("Twin", module="package.a")
    with pytest.raises(
        TypeError,
        match=(r"two messages are called package\.Twin: in " r"package\.a and in package\.b"),
    ):
        declare("Twin", module="package.b")
    assert REGISTRY["package.Twin"] is first


def test_the_same_name_in_two_packages_is_two_kinds() -> None:
    assert declare("Twin", module="one.words").kind != declare("Twin", module="two.words").kind


def test_a_refused_message_is_not_registered() -> None:
    with pytest.raises(TypeError):
        declare("Odd", field=bytes)
    assert not [kind for kind in REGISTRY if kind.endswith(".Odd")]


def test_messages_with_arrays_travel_on_the_bulk_lane_all_others_on_the_control_lane() -> None:
    assert Everything.lane == "bulk"
    assert declare("OneArray", blob=Array).lane == "bulk"
    assert declare("Plain", number=int, more=Json).lane == "control"
    assert {kind.lane for kind in (Save, WindDown)} == {"control"}


def test_a_message_cannot_be_changed_and_is_equal_only_to_itself() -> None:
    said = WindDown(reason="enough")
    with pytest.raises(AttributeError):
        said.reason = "more"  # type: ignore[misc]
    assert said == said
    assert said != WindDown(reason="enough")


def test_a_message_shows_its_fields_in_one_line_and_arrays_by_dtype_and_shape_only() -> None:
    a = np.zeros((2, 3), np.float32)
    b = np.zeros(0, np.int64)
    shown = repr(
        Everything(
            number=3, share=0.5, name="x" * 500, sure=True, numbers=(1, 2), shares=(), names=("a",),
            more={"k": 1}, one=a, several=(a, b),
        )
    )  # fmt: skip
    assert shown.startswith("Everything(number=3, share=0.5, name='xxxx")
    assert "sure=True, numbers=(1, 2), shares=(), names=('a',), more={'k': 1}, " in shown
    assert shown.endswith("one=float32[2, 3], several=(float32[2, 3], int64[0]))")
    assert "x..., " in shown
    assert "\n" not in shown
    assert len(shown) < 300


def test_an_envelope_shows_its_way_in_one_line_so_that_one_id_can_be_followed() -> None:
    said = Save()
    assert repr(Envelope(said, 7, "a", 2, "b")) == "<a.2#7 -> b Save()>"
    assert (
        repr(Envelope(said, 7, "a", 2, "b", reply_to="a", step=4))
        == "<a.2#7 -> b ask step 4 Save()>"
    )
    assert (
        repr(Envelope(said, 9, "b", 1, "a", answers=7, step=0))
        == "<b.1#9 -> a answers 7 step 0 Save()>"
    )


@pytest.mark.parametrize(
    ("name", "snake"),
    [
        ("LayerGradient", "layer_gradient"),
        ("Save", "save"),
        ("X", "x"),
        ("GetHTTP", "get_h_t_t_p"),
        ("", ""),
    ],
)
def test_handlers_are_named_after_the_message_in_snake_case(name: str, snake: str) -> None:
    assert snake_case(name) == snake


@given(
    st.lists(
        st.builds("{}{}".format, st.sampled_from("ABXYZ"), st.text("abz09", max_size=4)),
        min_size=1,
        max_size=5,
    )
)
def test_snake_case_can_be_turned_back_so_no_two_messages_share_a_handler(words: list[str]) -> None:
    name = "".join(words)
    assert "".join(part.capitalize() for part in snake_case(name).split("_")) == name


def test_the_message_of_a_handler_is_the_annotation_of_its_first_parameter() -> None:
    def good(self: object, said: Save, envelope: Envelope) -> None: ...
    def plain(self: object, said: int) -> None: ...
    def bare(self, said): ...  # type: ignore[no-untyped-def]
    def empty(self: object) -> None: ...

    assert message_annotation(good) is Save  # type: ignore[arg-type]
    assert [message_annotation(f) for f in (plain, bare, empty)] == [None, None, None]  # type: ignore[arg-type]
