"""Lists and tables that repeat the code: they equal the output of `python -m tests.house
--write`.
"""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest
from cyclopts import App
from pydantic import Field

from nets.layers import Layer
from runtime.config.value_types import Bytes, Section
from tests.house import config_keys, layers, written
from tests.house.__main__ import main
from tests.house.boards import script
from tests.house.commands import commands, help_of
from tests.house.exports import offered
from tests.house.folder_maps import first_sentence, mapped
from tests.house.metrics import metrics
from tests.house.pages import linked, replaced
from tests.house.source import ROOT, tree_of
from tests.house.written import COMMAND, entries, path_of

FILES = dict(entries())


@pytest.mark.parametrize("name", FILES)
def test_a_list_equals_the_generated_one(name: str) -> None:
    found = path_of(name).read_text("utf-8") if path_of(name).exists() else ""
    assert found == FILES[name](), f"{COMMAND} writes it"


def test_there_are_only_generated_boards() -> None:
    pytest.importorskip("grafana_foundation_sdk", reason="needs grafana-foundation-sdk")
    boards = {path.name for path in (ROOT / "docs" / "monitoring" / "boards").iterdir()}
    assert boards == {path_of(name).name for name in FILES if "monitoring" in name}


def test_a_list_that_differs_is_named_and_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = tmp_path / "page.md"
    page.write_text("old")
    monkeypatch.setattr(written, "ROOT", tmp_path)
    monkeypatch.setattr(written, "entries", lambda: [("page.md", lambda: "new")])
    assert written.differing() == ["page.md"]
    assert page.read_text() == "old"
    assert written.differing(write=True) == ["page.md"]
    assert page.read_text() == "new"
    assert written.differing(write=True) == []


def test_a_list_that_cannot_be_written_is_an_error_in_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "page.md").mkdir()
    monkeypatch.setattr(written, "ROOT", tmp_path)
    monkeypatch.setattr(written, "entries", lambda: [("page.md", lambda: "new")])
    monkeypatch.setattr("sys.argv", ["tests.house", "--write"])
    assert main() == 1
    assert capsys.readouterr().out == (
        f"{tmp_path / 'page.md'}: Is a directory; the lists before it were written\n"
    )


# -- maps


@pytest.mark.parametrize(
    ("docstring", "line"),
    [
        ("Short: with a clause. More.", "Short: with a clause"),
        ("The files of a run, 1.5 GB and `a.b` of them.\n\nMore.", "The files of a run, 1.5 GB and `a.b` of them"),
        (f"Three words here: {'long ' * 20}end.", "Three words here"),
        (f"The thing: {'long ' * 20}end.", f"The thing: {'long ' * 20}end"),
        ("Is it the same? It is.", "Is it the same?"),
        ("Without an end", "Without an end"),
    ],
)  # fmt: skip
def test_the_line_of_a_module_is_its_first_sentence(docstring: str, line: str) -> None:
    assert first_sentence(docstring) == line


def test_a_map_keeps_its_order_and_the_text_around_it_and_a_new_module_comes_last() -> None:
    lines = {"a": "The letter A", "b/": "The letter B", "c": "The letter C", "zoo/": ""}
    old = "Letters.\n\nb/   old words\n     and more\nzoo/  animals\na    old\ngone  nothing\n\nThe end."
    assert mapped(old, lines) == (
        "Letters.\n\nb/    The letter B\nzoo/  animals\na     The letter A\nc     The letter C\n\nThe end."
    )


def test_a_folder_without_a_map_gets_one_behind_its_first_paragraph() -> None:
    assert mapped("Letters.\n\nThe end.", {"a": "The letter A"}) == (
        "Letters.\n\na  The letter A\n\nThe end."
    )


# -- names that packages export


@pytest.mark.parametrize("package", ["nets", "nets.data", "ops", "roles", "runtime"])
def test_every_name_that_a_package_exports_exists(package: str) -> None:
    module = importlib.import_module(package)
    assert [name for name in module.__all__ if not hasattr(module, name)] == []


def test_a_package_that_defines_its_exported_names_keeps_its_own_list() -> None:
    assert offered(tree_of("ops/__init__.py")) is None
    places = offered(tree_of("runtime/__init__.py"))
    assert places is not None and places["Actor"] == "runtime.actors.actor"


# -- commands


def test_every_argument_of_a_command_has_help() -> None:
    for name, app in commands().items():
        shown = [
            each for each in app.assemble_argument_collection(parse_docstring=True) if each.show
        ]
        assert all(help_of(name, argument) for argument in shown)


def test_an_argument_without_help_is_named() -> None:
    app = App()

    def command(size: int) -> None:
        """Do it."""

    app.command(command)
    (argument,) = app["command"].assemble_argument_collection(parse_docstring=True)
    with pytest.raises(LookupError, match="command do: SIZE has no help, expected a text under"):
        help_of("do", argument)


# -- keys of cluster.toml


class Sized(Section):
    """[sized]: for the tests below."""

    size: Bytes = 2**20
    """The size."""
    name: str | None = None
    """Default: that of the run. The name."""
    rates: list[float] = Field(default=[0.5, 2.0])
    """The rates to try."""


class Silent(Section):
    """[silent]: for the test below."""

    size: int = 1


def test_a_key_has_the_default_of_its_class_or_the_one_in_words() -> None:
    assert list(config_keys.rows(Sized, ("sized",))) == [
        ("`sized.size`", '`"1MiB"`', "The size."),
        ("`sized.name`", "that of the run", "The name."),
        ("`sized.rates`", "`[0.5, 2]`", "The rates to try."),
    ]


def test_a_key_without_a_text_is_named() -> None:
    with pytest.raises(LookupError, match=r"Silent\.size has no text, expected a string below"):
        list(config_keys.rows(Silent, ("silent",)))


# -- metrics


def test_every_metric_has_one_row_with_all_its_labels() -> None:
    found = metrics()
    assert found["convoy_loss"].labels == ["split"]
    assert found["convoy_payload_bytes_received_total"].labels == ["peer", "kind"]
    assert found["convoy_run_info"].labels == ["program", "directory", "lead"]
    assert found["convoy_process_open_fds"].kind == "gauge"


def test_a_metric_that_no_board_and_no_rule_has_gets_a_panel(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("grafana_foundation_sdk", reason="needs grafana-foundation-sdk")
    made = script()
    page = tmp_path / "metrics.md"
    page.write_text(
        "| `convoy_loss` | gauge | `split` | Known. |\n"
        "| `convoy_gladness_total` | counter | | How often. |\n"
    )
    monkeypatch.setattr(made, "PAGE", page)
    (board,) = made.remaining()
    (panel,) = board.panels
    assert panel.about == "How often."
    assert [query.expression for query in panel.queries] == [
        'sum by (actor) (rate(convoy_gladness_total{run=~"$run"}[$__rate_interval]))'
    ]


# -- layers


def test_a_layer_that_caffe_lacks_is_not_listed_as_a_type_of_caffe(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Squash(Layer):
        """x / (1 + |x|)."""

        of_caffe = False

    monkeypatch.setitem(layers.KINDS, "Squash", Squash)
    of_caffe, ours, _ = layers.types().split("\n\n")
    assert "`Squash`" not in of_caffe
    assert ours.startswith("| type that Caffe lacks |")
    assert "| `Squash` | x / (1 + \\|x\\|). |" in ours


# -- pages


def test_a_part_of_a_page_is_replaced_and_a_page_without_it_is_named(tmp_path: Path) -> None:
    text = "a\n<!-- written: x -->\nold\n<!-- end of x -->\nb\n"
    assert replaced(text, "x", "new\n", tmp_path) == text.replace("old", "new")
    with pytest.raises(LookupError, match="expected the lines <!-- written: y -->"):
        replaced(text, "y", "new\n", tmp_path)


def test_names_of_pages_in_a_text_of_the_code_become_links() -> None:
    assert linked("see docs/gpu.md#a-b, docs/data.md: a | b") == (
        "see [gpu.md](gpu.md#a-b), [data.md](data.md): a \\| b"
    )
    assert linked("57 (benchmarks/results/lowering-avx2.md)") == (
        "57 ([lowering-avx2](../benchmarks/results/lowering-avx2.md))"
    )
