"""docs/operate.md: it has each question of an operator, and the command or panel that it names
answers the question as the page shows."""

from __future__ import annotations

import json
import os
import re
import signal

import pytest

from runtime.cli.main import application
from tests.helpers.operated import Operated
from tests.helpers.support import ROOT, get

PAGE = (ROOT / "docs" / "operate.md").read_text("utf-8")
SECTIONS = dict(part.split("\n", 1) for part in PAGE.split("\n## ")[1:])
FENCED = re.compile(r"```.*?```", re.DOTALL)
# An operator's questions, and the words with which the page asks them.
ASKED = {
    "who is slow": "Which worker is slow?",
    "what waits for whom": "Which actor waits for which?",
    "compute, network, FC or reading": "Is it compute, the network, the FC phase or reading?",
    "is it learning": "Is it learning?",
    "how stale": "How stale are the gradients?",
    "did the prediction hold": "Did the prediction hold?",
    "what died, why, what was lost": "Which process died, why, and how much was lost?",
    "how long still": "How does it stand, and how long still?",
    "what does it cost": "What does it cost?",
}
# (question, the command that answers it, a pattern for its answer on the page and in a live run)
ANSWERS = (
    ("how long still", "status", r"  about \d+ s left\n"),
    (
        "what waits for whom",
        "top --once",
        (r"\nactor +doing +computes .* waited for " r".*\nconv-0-0 .* [a-z]\w+ \d+%"),
    ),
    (
        "is it learning",
        "events",
        (r"\d  coordinator +test +iteration \d+  accuracy [\d.]+  " r"loss [\d.]+\n"),
    ),
    (
        "did the prediction hold",
        "top --once",
        (r"\npredicted \S+ ms, (measured \S+ ms )?an " r"iteration.*; busiest: \w"),
    ),
    (
        "what does it cost",
        "plan",
        (r"\nconv-0-0 +local +1 +conv-0-0 +conv_compute +\S+ MB: " r"activations \S+ MB, scratch"),
    ),
    ("what does it cost", "plan", r"\nfc_server +conv-0-0 +ActivationGrads +\S+ kB\n"),
)


@pytest.fixture(scope="module")
def predicted(live: Operated) -> Operated:
    """The run, after it has predicted how long its iterations will take."""
    live.wait_for("prediction")
    return live


def panels() -> dict[str, dict[str, set[str]]]:
    """Title of a board -> title of a panel on it -> the metrics that it reads."""
    found = {}
    for path in (ROOT / "docs" / "monitoring" / "boards").iterdir():
        board = json.loads(path.read_text("utf-8"))
        found[board["title"]] = {
            panel["title"]: metrics(json.dumps(panel)) for panel in board["panels"]
        }
    return found


def metrics(text: str) -> set[str]:
    return set(re.findall(r"\bconvoy_\w+", text))


def quoted(text: str) -> set[str]:
    """The panels, or other questions, that prose names."""
    return set(re.findall(r'"([^"]+)"', re.sub(r"`[^`]*`", "", FENCED.sub("", text))))


@pytest.mark.parametrize("question", ASKED.values(), ids=ASKED.keys())
def test_a_question_is_answered_by_a_command_or_a_panel_and_the_answer_is_shown(
    question: str,
) -> None:
    section = SECTIONS[question]
    assert FENCED.search(section)
    assert re.search(r"`python -m runtime [a-z]+", section) or any(
        quoted(section) & set(each) for each in panels().values()
    )


def test_the_page_names_only_existing_commands() -> None:
    named = set(re.findall(r"python -m runtime ([a-z]+)", PAGE))
    assert named - set(application(["--help"], "convoy")) == set()


def test_the_page_names_only_existing_panels_each_on_its_board() -> None:
    boards = panels()
    known = {*SECTIONS, *set().union(*boards.values())}
    assert quoted(PAGE.partition("## And from another machine?")[0]) - known == set()
    for names, board in re.findall(
        (r'anels? ((?:"[^"]+"(?:, | and ' r")?)+)\s+of\s+the\s+board\s+\*(\w+)\*"), PAGE
    ):
        (on,) = [each for title, each in boards.items() if title.startswith(f"Convoy: {board}")]
        assert quoted(names) - set(on) == set()


@pytest.mark.parametrize("question", ASKED.values(), ids=ASKED.keys())
def test_queries_that_are_shown_read_the_metrics_of_the_named_panels(question: str) -> None:
    section = SECTIONS[question]
    read = [
        each
        for board in panels().values()
        for title, each in board.items()
        if title in quoted(section)
    ]
    assert metrics("".join(FENCED.findall(section))) <= set().union(*read)


def test_alerts_that_the_page_names_are_rules() -> None:
    rules = set(
        re.findall(r"alert: (\w+)", (ROOT / "docs" / "monitoring" / "rules.yml").read_text("utf-8"))
    )
    named = set(re.findall(r"`(Convoy\w+)`", PAGE))
    assert named and named <= rules


@pytest.mark.slow  # a run of five processes: half a minute for all of them
@pytest.mark.parametrize(("asked", "typed", "told"), ANSWERS)
def test_the_answer_that_is_shown_matches_the_commands_answer_for_a_live_run(
    predicted: Operated, asked: str, typed: str, told: str
) -> None:
    section = SECTIONS[ASKED[asked]]
    assert f"python -m runtime {typed.split()[0]}" in section
    # the output of `top` answers three questions and is shown at one of them
    assert re.search(told, PAGE)
    code, out = predicted.said(typed)
    assert (code, re.search(told, out) is not None) == (0, True), out


@pytest.mark.slow
def test_the_metrics_in_the_pages_queries_are_served_by_a_live_run(predicted: Operated) -> None:
    targets = [target for each in json.loads(get(predicted.targets)) for target in each["targets"]]
    pages = "".join(get(f"http://{target}/metrics") for target in targets)
    samples = set(re.findall(r"^convoy_\w+", pages, re.MULTILINE))
    served = samples | {re.sub(r"_(bucket|sum|count)$", "", name) for name in samples}
    shown = "".join(SECTIONS[question] for question in ASKED.values())
    # the metric of a run that is over
    assert metrics(shown) - served == {"convoy_run_outcome_info"}
    (table,) = re.findall(
        r"^(?:\| .*\n)+", SECTIONS[ASKED["compute, network, FC or reading"]], re.MULTILINE
    )
    phases = {
        f'phase="{phase}"' for row in table.splitlines() for phase in re.findall(r"`(\w+)`", row)
    }
    assert {phase for phase in phases if phase not in pages} == set()


@pytest.mark.slow
def test_events_and_status_report_a_killed_process_as_the_page_shows(live: Operated) -> None:
    """This is the last test of the file, since it ends the run."""
    section = SECTIONS[ASKED["what died, why, what was lost"]]
    process = json.loads(live.said("status --json")[1])["processes"]["conv-1-0"]
    os.kill(process["pid"], signal.SIGKILL)
    live.wait_for("failed")
    died = (
        r"process conv-1-0 \(conv-1-0\) on local \(\S+, pid \d+\) killed by SIGKILL; its "
        r"log \S+ is empty"
    )
    for typed, told in (
        ("events", rf" supervisor +failed +error {died}  exit_code 4\n"),
        (
            "status",
            (
                rf"-\w+  failed, since .*\n  iteration .*\n(\.\.\.\n|  .*predicted .*\n)?"
                rf"  last checkpoint: \S+\n(  slower .*\n)?  {died}\n"
            ),
        ),
    ):
        assert re.search(rf"\$ python -m runtime {typed}.*\n(.*\n)*?.*{told}", section)
        code, out = live.said(typed)
        assert (code, re.search(told, out) is not None) == (0, True), out
