"""docs/tutorial.md, typed line by line in one folder. The output is compared with the output that
the page shows."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.helpers.support import ROOT
from tests.helpers.typed_page import ended, fits, type_page

PAGE = (ROOT / "docs" / "tutorial.md").read_text("utf-8")


def test_the_page_may_leave_output_out_but_not_show_other_output() -> None:
    assert fits("wrote a\n...\nend 0.9...", "wrote a\nb\nc\nend 0.97 s\n")
    assert fits("...\nend", "end")
    assert not fits("wrote a\n...\nend", "wrote a\nb\n")
    assert not fits("wrote b", "wrote a")


def test_the_page_names_only_existing_commands() -> None:
    from runtime.cli.main import application

    known = set(application(["--help"], "convoy"))
    named = set(re.findall(r"\bconvoy ([a-z]+)", PAGE))
    assert named - known == set()
    assert {"init", "check", "up", "down", "test"} <= named


@pytest.mark.slow  # all of it takes 30 s
@pytest.mark.timeout(300)
def test_the_tutorial_can_be_typed_as_it_stands(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    with ended() as behind:
        type_page(PAGE, folder, behind)
