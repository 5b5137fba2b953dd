"""The words that bash, zsh and fish complete, in the real shells where they are installed."""

from __future__ import annotations

import os
import pty
import shutil
import subprocess
from collections.abc import Callable
from contextlib import redirect_stdout
from functools import cache
from pathlib import Path

import pytest

from runtime.cli.main import main

RUNS = ["20260101-000000-lenet", "20260101-000001-vgg16"]
BASH = """
source {script}
COMP_WORDS=({words})
COMP_CWORD=$(( ${{#COMP_WORDS[@]}} - 1 ))
_convoy_words
printf '%s\\n' "${{COMPREPLY[@]}}"
"""
CASES = {
    "a key": ("convoy up --set train.strategy.wor", ["train.strategy.workers="]),
    "a key of a list": ("convoy check --set machine.0.co", ["machine.0.cores="]),
    "a key of a section": ("convoy up --set train.optimizer.ty", ["train.optimizer.type="]),
    "a preset": (
        "convoy up --set train.strategy.preset=mx",
        ["train.strategy.preset=mxnet-async", "train.strategy.preset=mxnet-sync"],
    ),
    "a net": (
        "convoy up --set train.net=resnet5",
        [f"train.net=resnet{n}" for n in ("50", "50_tv", "56")],
    ),
    "one of some words": ("convoy up --set train.kernels=n", ["train.kernels=numpy"]),
    "a net of an option": ("convoy time --net vgg16", ["vgg16", "vgg16_bn"]),
    "runs": ("convoy compare 20260101-0", RUNS),
    "one run": ("convoy report 20260101-000001", RUNS[1:]),
    "a run of an option": ("convoy up --resume 20260101-000000", RUNS[:1]),
    "a command": ("convoy comp", ["compare", "completion"]),
}
# readline gives bash "=" as a word of its own
DIVIDED = {
    "a preset": ("convoy up --set train.strategy.preset = mx", ["mxnet-async", "mxnet-sync"]),
    "every word": ("convoy up --set train.kernels =", ["compiled", "numpy"]),
}


@pytest.fixture(scope="module")
def scripts(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The script of each shell, which is made once."""
    folder = tmp_path_factory.mktemp("scripts")

    @cache
    def script_of(shell: str) -> Path:
        path = folder / shell
        with path.open("w") as file, redirect_stdout(file):
            assert main(["completion", shell]) == 0
        return path

    return script_of


@pytest.fixture
def script(
    request: pytest.FixtureRequest,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    scripts: Callable[[str], Path],
) -> Path:
    """The script of a shell. The working directory has some runs. Skips the test without the
    shell."""
    shell: str = request.param
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    monkeypatch.chdir(tmp_path)
    Path("cluster.toml").write_text('[run]\ndirectory = "mine"\n[train]\n')
    for name in (*RUNS, "20260101-000002-no-run"):
        (Path("mine") / name).mkdir(parents=True)
        if not name.endswith("no-run"):
            (Path("mine") / name / "run.json").touch()
    return scripts(shell)


def said(*command: str) -> list[str]:
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return sorted(done.stdout.splitlines())


@pytest.mark.parametrize("script", ["bash"], indirect=True)
@pytest.mark.parametrize("name", [*CASES, *(f"{name}, divided" for name in DIVIDED)])
def test_bash_completes_keys_values_nets_and_runs(script: Path, name: str) -> None:
    words, found = CASES.get(name) or DIVIDED[name.removesuffix(", divided")]
    assert said("bash", "--norc", "-c", BASH.format(script=script, words=words)) == found


@pytest.mark.parametrize("script", ["fish"], indirect=True)
@pytest.mark.parametrize("name", CASES)
def test_fish_completes_keys_values_nets_and_runs(script: Path, name: str) -> None:
    words, found = CASES[name]
    lines = said("fish", "--no-config", "-c", f"source {script}; complete -C '{words}'")
    assert [line.partition("\t")[0] for line in lines] == found


@pytest.mark.parametrize("script", ["zsh"], indirect=True)
@pytest.mark.parametrize("name", [name for name in CASES if name != "a command"])
def test_zshs_function_finds_keys_values_nets_and_runs(script: Path, name: str) -> None:
    words, found = CASES[name]
    command = words.split()[1]
    before, typed = words.split()[-2:]
    text = f"compdef() {{ }}; source {script}; _convoy_candidates {before} {command} {typed}"
    assert [word for word in said("zsh", "-f", "-c", text) if word.startswith(typed)] == found


@pytest.mark.parametrize("script", ["zsh"], indirect=True)
@pytest.mark.parametrize("loaded", ["by eval", "from $fpath"])
def test_zsh_completes_what_is_typed(script: Path, loaded: str) -> None:
    load = f'eval "$(<{script})"'
    if loaded == "from $fpath":
        Path("fpath").mkdir()
        Path("fpath/_cyclopts_convoy").write_text(script.read_text())
        load = "fpath=($PWD/fpath $fpath)"
    compinit = "autoload -U compinit; compinit -u -D"
    both = (compinit, load) if loaded == "by eval" else (load, compinit)
    shown = _typed_into_zsh(
        "; ".join((*both, "convoy() print -r GOT:$@")),
        # the first word is completed by the file itself, the others by the functions in it
        "convoy up --set train.optimizer.ty\tAdamW",
        "convoy report 20260101-000001\tx",
        "convoy up --set train.strategy.preset=mxnet-s\t",
        "convoy compa\tx",
    )
    got = [line.removeprefix("GOT:").strip() for line in shown.splitlines() if "GOT:" in line]
    assert got[-4:] == [
        "up --set train.optimizer.type=AdamW",
        "report 20260101-000001-vgg16 x",
        "up --set train.strategy.preset=mxnet-sync",
        "compare x",
    ]


def _typed_into_zsh(*lines: str) -> str:
    """Type lines into an interactive zsh on a terminal. Returns what the terminal shows."""
    ours, terminal = pty.openpty()
    shell = ["zsh", "-f", "-i"]
    ends = {"stdin": terminal, "stdout": terminal, "stderr": terminal}
    shown = b""
    with subprocess.Popen(
        shell, **ends, env={**os.environ, "TERM": "dumb"}, start_new_session=True
    ):
        os.close(terminal)
        try:
            for line in (*lines, "exit"):
                os.write(ours, f"{line}\n".encode())
            while more := os.read(ours, 65536):
                shown += more
        except OSError:  # the shell has ended
            pass
    os.close(ours)
    return shown.decode(errors="replace")
