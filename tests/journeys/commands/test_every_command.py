"""Every command, typed as a process next to one live run: its exit code and its output."""

from __future__ import annotations

import re

import pytest

from roles.commands import COMMANDS as TRAINING
from runtime.cli.main import COMMANDS, application, main
from tests.helpers.operated import Operated
from tests.house.commands import help_of

# One row per command, in an order in which they can be typed; `up` is the run itself. "a && b"
# types a first.
ROWS = (
    ("check", 0, r"cluster\.toml: 5 actors in 5 processes\n"),
    ("plan", 0, r"fc_server +conv-0-0 +ActivationGrads +\S+ kB"),
    (
        "init made",
        0,
        (r"^wrote made/cluster\.toml\ntrain it: python -m runtime up " r"made/cluster\.toml\n$"),
    ),
    ("time --iterations 1", 0, r"conv1 +Convolution( +[\d.]+){3}\n"),
    ("completion bash", 0, r"complete .*-F _convoy convoy"),
    ("docs docs/cluster.md#threads-and-cores", 0, r"^### Threads and cores\n"),
    ("--version", 0, r"^convoy \d+\.\d+\.\d+\n$"),
    ("ps", 0, r"^\S+-paced +running +since .* \d+/1000000 +roles +/.*\n$"),
    ("runs", 0, r"\n\S+-paced +\S+ \S+ +running +paced +omnivore +\d+/1000000 "),
    (
        "compare paced paced",
        0,
        r"\nno key of cluster\.toml differs\n\niteration +(epoch +)?accuracy A +accuracy B\n",
    ),
    ("status", 0, r"  about \d+ s left\n(.*\n)+  conv-1-0 +running on local, pid \d+"),
    ("events", 0, r" began +processes 5\n(.*\n)* .* progress +iteration 1/1000000 "),
    ("top --once", 0, r"\nactor +doing +computes .*\nconv-0-0 .*%.* [a-z]\w+ \d+%"),
    (
        "stack conv-0-0",
        0,
        (
            r"^process conv-0-0: pid \d+ on (.*\n)+ +Thread compute \(most "
            r"recent call first\):\n"
        ),
    ),
    ("logs coordinator", 0, r"^$"),  # no actor had a reason to log
    (
        "trace start && trace stop",
        0,
        (r"/trace\.json: [1-9]\d* spans of 5 processes, [1-9]\d* " r"messages\n$"),
    ),
    ("report", 0, r"^report +runs/\S+/report\.html\n$"),
    ("save", 0, r"^runs/\S+/checkpoint-\d+\.safetensors\n$"),
    (
        ("save && test {saved} --top 2 --confusion"),
        0,
        r"top-2 accuracy \S+ on 100 labels\nlabel +0 +1 .* 9 +found\n",
    ),
    ("save && convert {saved} net.onnx", 0, r"^net\.onnx: \d+ operators\n$"),
    (
        ("save && predict {saved} --data format=digits,split=test --top 1"),
        0,
        r"^digits 0\n  [01]\.\d+  \d\ndigits 1\n",
    ),
    (
        ("save && extract {saved} --data format=digits,split=test --layer ip1"),
        0,
        r"^digits 0,(-?[\d.e-]+,){499}-?[\d.e-]+\ndigits 1,",
    ),
    # test_launchers has a machine that joins
    ("join 127.0.0.1:1 guest", 2, r"^standard input: .*expected the line that `up` shows"),
    ("scale --workers 1 --groups 1", 0, r"continues at iteration \d+, "),
    ("down", 0, r" has ended; last checkpoint: runs/\S+/checkpoint-\d+\.safetensors\n$"),
)


@pytest.mark.parametrize("command", [*COMMANDS, *TRAINING])
def test_the_help_of_every_command_describes_each_of_its_arguments(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([command, "--help"]) == 0
    said = " ".join(re.sub("[│╭╮╰╯─*]", " ", capsys.readouterr().out).split())
    app = application([command], "convoy")[command]
    for argument in app.assemble_argument_collection(parse_docstring=True):
        if argument.show:
            assert help_of(command, argument).replace("`", "").split()[0] in said


@pytest.mark.parametrize("command", [*COMMANDS, *TRAINING])
def test_every_command_has_a_row(command: str) -> None:
    typed = {part.split()[0] for line, _, _ in ROWS for part in line.split(" && ")}
    assert command in {"up", *typed}, (
        f"add a row to ROWS that types `{command}`, with its exit code and a pattern of its output"
    )


@pytest.mark.slow  # all commands take a minute
@pytest.mark.parametrize(("typed", "code", "told"), ROWS, ids=[typed for typed, _, _ in ROWS])
def test_every_command_does_its_work_next_to_a_live_run(
    live: Operated, typed: str, code: int, told: str
) -> None:
    *before, last = typed.split(" && ")
    assert [live.said(line)[0] for line in before] == [0] * len(before)
    found, out = live.said(last)
    assert (found, re.search(told, out) is not None) == (code, True), out
