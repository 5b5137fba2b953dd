"""`docs`: pages and sections as text in a pipe and formatted on a terminal."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from runtime.cli.main import main
from runtime.typed_name import shown, typed_name
from tests.helpers.support import ROOT, environment, runtime_command
from tests.helpers.terminal import terminal


def said(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert main(["docs", *words]) == 0
    return capsys.readouterr().out


@pytest.mark.parametrize("page", ["programs", "programs.md", "docs/programs.md"])
def test_a_page_is_found_by_the_names_that_messages_use(
    page: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert said(capsys, page) == (ROOT / "docs" / "programs.md").read_text("utf-8")


def test_without_a_page_the_list_of_pages_by_reader_is_shown(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert said(capsys) == (ROOT / "docs" / "README.md").read_text("utf-8")


def test_every_page_is_listed_with_its_title(capsys: pytest.CaptureFixture[str]) -> None:
    lines = said(capsys, "--list").splitlines()
    pages = {path.relative_to(ROOT / "docs") for path in (ROOT / "docs").rglob("*.md")}
    assert {line.split()[0] for line in lines} == {str(page.with_suffix("")) for page in pages}
    assert any(re.fullmatch(r"programs +Your own program", line) for line in lines)


def test_a_section_ends_before_the_next_one(capsys: pytest.CaptureFixture[str]) -> None:
    text = said(capsys, "docs/predict.md#weights-without-a-description")
    assert text.startswith("### Weights without a description\n")
    assert "--crop" in text
    assert "## Ensembles" not in text


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("progams", "no page is called 'progams' (did you mean 'programs'?); all pages: "),
        (
            "predict#ensemble",
            "page 'predict' has no section 'ensemble' (did you mean 'ensembles'?)",
        ),
    ],
)
def test_an_unknown_page_or_section_is_answered_with_the_nearest_one(
    word: str, expected: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["docs", word]) == 2
    assert capsys.readouterr().err.startswith(expected)


def test_every_page_and_section_that_the_code_names_is_shown() -> None:
    named = {
        found[0]
        for package in ("runtime", "roles", "nets", "ops")
        for path in (ROOT / package).rglob("*.py")
        for found in re.findall(r"(docs/[a-z/_]+\.md(#[\w-]+)?)", path.read_text("utf-8"))
    }
    assert len(named) > 20
    for name in sorted(named):
        assert main(["docs", name]) == 0, name


def test_a_terminal_shows_the_page_formatted(tmp_path: Path) -> None:
    environ = {**environment(), "PAGER": "cat"}
    with terminal(runtime_command("docs", "predict"), 100, 40, tmp_path, environ) as screen:
        assert screen.end() == 0
        lines = [*screen.scrolled(), *screen.shown()]
    assert any("Using a trained net" in line for line in lines)
    assert not any("# Using a trained net" in line for line in lines)


def test_messages_name_the_command_that_was_typed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["/usr/bin/convoy", "up"])
    assert (typed_name(), shown("docs")) == ("convoy", "`convoy docs`")
    monkeypatch.setattr(sys, "argv", ["/usr/lib/runtime/__main__.py", "up"])
    assert shown("docs") == "`python -m runtime docs`"


@pytest.mark.slow  # builds a wheel
def test_an_installed_wheel_has_the_pages(tmp_path: Path) -> None:
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    wheel = [*pip, "wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", str(tmp_path)]
    subprocess.run([*wheel, str(ROOT)], check=True, cwd=tmp_path)
    (file,) = tmp_path.glob("*.whl")
    target = tmp_path / "prefix"
    install = ["install", "--no-deps", "--ignore-installed", "--prefix", str(target), str(file)]
    subprocess.run([*pip, *install], check=True, cwd=tmp_path)
    (site,) = target.rglob("site-packages")
    done = subprocess.run(
        runtime_command("docs", "docs/decisions/messages.md"),
        env={**environment(), "PYTHONPATH": str(site)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == (ROOT / "docs" / "decisions" / "messages.md").read_text("utf-8")
