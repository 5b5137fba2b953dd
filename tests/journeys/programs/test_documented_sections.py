"""The TOML examples of the docs: `check` knows each of their keys, values and formats of data."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from nets import NetError
from nets.data import open_source
from roles.options import Options
from runtime.config.file import load_with_program
from tests.helpers.support import ROOT

OTHER_FILES = ("[project.", '[machine."')  # a pyproject.toml, a catalogue of machines
EXAMPLE = re.compile(r"^```toml\n(.*?)^```", re.DOTALL | re.MULTILINE)
EXAMPLES = [
    pytest.param(found[1], id=f"{path.name} line {text.count(chr(10), 0, found.start()) + 1}")
    for path in sorted((ROOT / "docs").glob("*.md"))
    for text in [path.read_text("utf-8")]
    for found in EXAMPLE.finditer(text)
    if not found[1].startswith(OTHER_FILES)
]
OF_A_FORMAT = re.compile(r"format: found|: unknown|: missing")  # not the fault of a missing file


@pytest.mark.parametrize("example", EXAMPLES)
def test_an_example_of_cluster_toml_has_known_keys_and_formats(
    example: str, tmp_path: Path
) -> None:
    (tmp_path / "cluster.toml").write_text(example, "utf-8")
    remote = "hosts = " in example and "[launcher" not in example
    elsewhere = ["launcher.kind=ssh"] if remote else []
    options = load_with_program(tmp_path / "cluster.toml", elsewhere).options
    if isinstance(options, Options):
        for source in sources(options.train.data.train, options.train.data.test):
            assert mistakes(source, tmp_path) == []


def sources(*given: Any) -> list[dict[str, Any]]:
    """The tables that describe one source each."""
    found = []
    for each in given:
        if isinstance(each, list):
            found += sources(*each)
        elif isinstance(each, dict):
            found += [each] if "format" in each else sources(*each.values())
    return [each for each in found if each["format"] != "net"]


def mistakes(source: dict[str, Any], folder: Path) -> list[str]:
    try:
        open_source(source, folder)
    except NetError as error:
        return [text for text in error.problems if OF_A_FORMAT.search(text)]
    return []
