"""Properties of the two TOML helpers: every key has its line, and written tables read back
equal.
"""

import tomllib
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from runtime.config.toml_lines import KeyPath, key_lines, split_key
from runtime.config.toml_write import dumps

# Values on which a careless scanner loses its place: brackets, hashes, quotes and line breaks
# inside strings.
SCALARS = st.sampled_from(
    [
        "1",
        "-2.5e3",
        "true",
        "inf",
        "1979-05-27 07:32:00",
        '""',
        "''",
        '"a # [b] = {c}, \\" \\\\"',
        "'lit # \\'",
        '"""multi\n[x]\nk = 1 ""\\"" """',
        '"""ends in quotes"""""',
        "'''raw\n[[y]]\n''a'''''",
        '"""\\\n   folded\n"""',
    ]
)
KEYS = st.one_of(
    st.text("abc_-0123", min_size=1, max_size=3),
    st.sampled_from(["a.b", "ü", "#", '"', "", "]", "x = y", "'"]),
)
BLANKS = st.sampled_from(["", "\n", "# comment ] } = '''\n", "\n\n# [no.table]\n  "])
PLAIN = st.recursive(
    SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(KEYS, inner, max_size=3)),
    max_leaves=5,
)
TABLES = st.recursive(
    st.dictionaries(KEYS, PLAIN, max_size=3),
    lambda inner: st.dictionaries(
        KEYS,
        st.one_of(
            PLAIN,
            inner.map(lambda t: ("table", t)),
            st.lists(inner, min_size=1, max_size=2).map(lambda t: ("tables", t)),
        ),
        max_size=3,
    ),
    max_leaves=4,
)


class Writer:
    """Writes a document in random layout and notes the line of each key while writing."""

    def __init__(self, draw: Any) -> None:
        self.draw = draw
        self.text = ""
        self.lines: dict[KeyPath, int] = {}

    def mark(self, path: KeyPath) -> None:
        self.lines.setdefault(path, self.text.count("\n") + 1)

    def key(self, name: str) -> str:
        bare = (name.isascii() and name.replace("-", "").replace("_", "").isalnum()) or name.strip(
            "-_"
        ) == "" != name
        if bare and self.draw(st.booleans()):
            return name
        if "'" not in name and self.draw(st.booleans()):
            return f"'{name}'"
        return '"' + name.replace('"', '\\"') + '"'

    def table(self, table: dict[str, Any], path: KeyPath) -> None:
        later = {name: value for name, value in table.items() if isinstance(value, tuple)}
        for name, value in table.items():
            if name not in later:
                self.text += self.draw(BLANKS)
                self.pair(name, value, path)
                self.text += self.draw(st.sampled_from(["\n", " # note\n", "\n\n"]))
        for name, (kind, value) in later.items():
            for index, item in enumerate(value if kind == "tables" else [value]):
                inner: KeyPath = (*path, name, index) if kind == "tables" else (*path, name)
                brackets = ("[[ ", "]]") if kind == "tables" else ("[", " ]")
                self.text += self.draw(BLANKS)
                self.mark((*path, name))
                self.mark(inner)
                dotted = " . ".join(self.key(part) for part in inner if isinstance(part, str))
                self.text += f"{brackets[0]}{dotted}{brackets[1]}\n"
                self.table(item, inner)

    def pair(self, name: str, value: Any, path: KeyPath) -> None:
        self.mark((*path, name))
        self.text += self.key(name)
        path = (*path, name)
        # a dotted key
        while isinstance(value, dict) and len(value) == 1 and self.draw(st.booleans()):
            ((name, value),) = value.items()
            path = (*path, name)
            self.mark(path)
            self.text += f".{self.key(name)}"
        self.text += self.draw(st.sampled_from(["=", " = "]))
        self.value(value, path)

    def value(self, value: Any, path: KeyPath) -> None:
        if isinstance(value, str):
            self.text += value
        elif isinstance(value, list):
            self.text += "["
            for index, item in enumerate(value):
                self.text += self.draw(BLANKS)
                self.mark((*path, index))
                self.value(item, (*path, index))
                self.text += self.draw(BLANKS) + (
                    "," if index + 1 < len(value) or self.draw(st.booleans()) else ""
                )
            self.text += self.draw(BLANKS) + "]"
        else:
            self.text += "{"
            for index, (name, item) in enumerate(value.items()):
                self.text += ", " if index else " "
                self.pair(name, item, path)
            self.text += " }"


def paths(value: Any, path: KeyPath = ()) -> set[KeyPath]:
    items: Any = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    )
    found = {path} if path else set()
    return found.union(*(paths(item, (*path, name)) for name, item in items))


@given(st.data(), TABLES)
def test_every_key_that_tomllib_finds_has_its_line(
    data: st.DataObject, table: dict[str, Any]
) -> None:
    writer = Writer(data.draw)
    writer.table(table, ())
    lines = key_lines(writer.text)
    assert set(lines) == paths(tomllib.loads(writer.text))
    assert lines == writer.lines


def test_a_table_named_first_inside_a_longer_name_moves_to_its_own_header() -> None:
    assert key_lines("[a.b]\nx = 1\n[a]\ny = 2") == {
        ("a",): 3,
        ("a", "b"): 1,
        ("a", "b", "x"): 2,
        ("a", "y"): 4,
    }


def test_a_header_below_an_array_of_tables_belongs_to_its_last_table() -> None:
    lines = key_lines("[[a]]\n[[a]]\n[a.b]\nx = 1\n[[a.c]]\n[a.c.d]\n")
    assert lines[("a", 1, "b", "x")] == 4
    assert lines[("a", 1, "c", 0, "d")] == 6
    assert ("a", 0, "b") not in lines


def test_windows_line_ends_count_once() -> None:
    assert key_lines("a = '''\r\n'''\r\n\r\nb = 2\r\n") == {("a",): 1, ("b",): 4}


@pytest.mark.parametrize("text", ["[", "a", "a = [", "a = {b", "a = [1", "= 1", "[a", "a = "])
def test_text_that_is_not_toml_ends_in_value_error_and_not_in_a_loop(text: str) -> None:
    try:
        key_lines(text)
    except ValueError as error:
        assert "not TOML" in str(error)


@pytest.mark.parametrize(
    ("text", "parts"),
    [("a", ("a",)), ("a.b", ("a", "b")), ("a . 'b.c'", ("a", "b.c")), ('"\\u00fc".0', ("ü", "0"))],
)
def test_a_dotted_key_is_split_as_toml_splits_it(text: str, parts: tuple[str, ...]) -> None:
    assert split_key(text) == parts


@pytest.mark.parametrize("text", ["", ".", "a.", "a b", "ü", "'a", "a\n"])
def test_text_that_is_not_a_dotted_key_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not a dotted key"):
        split_key(text)


TEXTS = st.text(st.characters(codec="utf-8"), max_size=8)
VALUES = st.recursive(
    st.one_of(
        TEXTS,
        st.booleans(),
        st.integers(-(2**63), 2**63 - 1),
        st.floats(allow_nan=False),
        st.dates(),
        # TOML cannot mark the second 02:30 of an autumn night
        st.times().map(lambda moment: moment.replace(fold=0)),
        st.datetimes().map(lambda moment: moment.replace(fold=0)),
    ),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(TEXTS, inner, max_size=3)),
    max_leaves=10,
)


@given(st.dictionaries(TEXTS, VALUES, max_size=4))
@example({"a": [{"b": [{}]}, {}], "c": {}, "d": [1, {"e": 2}], "\x7f\r\n": "\x7f\x00\r\n\\"})
def test_written_tables_read_back_equal(data: dict[str, Any]) -> None:
    again = tomllib.loads(dumps(data))
    assert again == data
    assert repr(again) == repr(sorted_like(again, data))  # repr distinguishes 1 from 1.0 and True


def sorted_like(model: Any, data: Any) -> Any:
    """`data` with the keys of each table in the order of `model`."""
    if isinstance(data, dict):
        return {key: sorted_like(model[key], data[key]) for key in model}
    if isinstance(data, list):
        return [sorted_like(*pair) for pair in zip(model, data, strict=True)]
    return data


def test_a_value_that_toml_cannot_hold_is_refused() -> None:
    with pytest.raises(TypeError, match="TOML has no NoneType"):
        dumps({"a": [None]})
