"""The words that bash completes."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from runtime.cli.main import main

TYPED = """
source ./completions
COMP_WORDS=({words})
COMP_CWORD=$(( ${{#COMP_WORDS[@]}} - 1 ))
_convoy_words
printf '%s\\n' "${{COMPREPLY[@]}}"
"""


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ("convoy up --set train.strategy.wor", ["train.strategy.workers="]),
        ("convoy check --set machine.0.co", ["machine.0.cores="]),
        ("convoy up --set train.optimizer.ty", ["train.optimizer.type="]),
        ("convoy compare 20260101-0", ["20260101-000000-lenet", "20260101-000001-vgg16"]),
        ("convoy report 20260101-000001", ["20260101-000001-vgg16"]),
        ("convoy up --resume 20260101-000000", ["20260101-000000-lenet"]),
        ("convoy comp", ["compare", "completion"]),
    ],
)
def test_bash_completes_keys_of_set_and_names_of_runs(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    words: str,
    found: list[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["completion", "bash"]) == 0
    Path("completions").write_text(capsys.readouterr().out)
    Path("cluster.toml").write_text('[run]\ndirectory = "mine"\n[train]\n')
    for name in ("20260101-000000-lenet", "20260101-000001-vgg16", "20260101-000002-no-run"):
        (Path("mine") / name).mkdir(parents=True)
        if not name.endswith("no-run"):
            (Path("mine") / name / "run.json").touch()
    done = subprocess.run(
        ["bash", "--norc", "-c", TYPED.format(words=words)],
        capture_output=True,
        text=True,
        check=True,
    )
    assert sorted(done.stdout.split()) == found
