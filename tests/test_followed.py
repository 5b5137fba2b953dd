"""docs/architecture.md follows one message, one gradient and the configuration: every step is
there, and leads to the next one.

A step is a numbered line that begins with a file and what to read in it: "1.
`runtime/actors/actor.py` `Actor.ask`". What is named there must mention what the next step names,
or the word that the step gives for it ("by `handlers`").
"""

from __future__ import annotations

import ast
import inspect
import itertools
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

import pytest

from runtime.config.file import Judged, Loaded, judge, parse, with_program
from runtime.config.toml_source import RawConfig
from runtime.runs.checking import Checked, check, check_plan
from tests.test_house import ROOT, tree_of
from tests.test_rooms import room_of

DOCS = ROOT / "docs"
STEP = re.compile(
    (r"^\d+\. `(?P<file>[\w/]+\.py)` `(?P<name>[\w.]+)`(?: by " r"`(?P<by>\w+)`)?"), re.MULTILINE
)
# section -> files at most, lines at most
CONFIGURATION = "The configuration, followed"
JOURNEYS = {
    "One message, followed": (6, 1040),
    "One gradient, followed": (8, 1040),
    CONFIGURATION: (13, 2300),
}
MOST_ROOMS = 6
MOST_RETURNS = 3


@dataclass(frozen=True)
class Step:
    """A function or class to read, and the word by which it leads on, where that is not the next
    one's name."""

    file: str
    name: str
    by: str | None

    @property
    def module(self) -> str:
        """`roles/options.py` as `roles.options`."""
        return self.file.removesuffix(".py").replace("/", ".")

    def definition(self) -> ast.AST:
        """What is to be read; fails if the file has nothing of that name."""
        node: ast.AST = tree_of(self.file)
        for part in self.name.split("."):
            inner = [
                one
                for one in ast.walk(node)
                if getattr(one, "name", None) == part or _assigns(one, part)
            ]
            assert inner, f"{self.file} has no {self.name}"
            node = inner[0]
        return node

    def mentions(self) -> set[str]:
        """Every name and attribute that is used there."""
        nodes = list(ast.walk(self.definition()))
        names = {node.id for node in nodes if isinstance(node, ast.Name)}
        return names | {node.attr for node in nodes if isinstance(node, ast.Attribute)}


def _assigns(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.Assign) and any(
        ast.unparse(target) == name for target in node.targets
    )


def steps_of(section: str, page: str = "architecture.md") -> list[Step]:
    text = (DOCS / page).read_text("utf-8").partition(f"## {section}\n")[2].partition("\n## ")[0]
    return [Step(found["file"], found["name"], found["by"]) for found in STEP.finditer(text)]


@pytest.mark.parametrize("section", JOURNEYS)
def test_it_is_followed_through_few_files_and_lines(section: str) -> None:
    most_files, most_lines = JOURNEYS[section]
    files = {step.file for step in steps_of(section)}
    lines = sum(len(Path(ROOT, file).read_text("utf-8").splitlines()) for file in files)
    assert 2 <= len(files) <= most_files, files
    assert lines <= most_lines, {
        file: len(Path(ROOT, file).read_text("utf-8").splitlines()) for file in files
    }


@pytest.mark.parametrize("section", JOURNEYS)
def test_each_step_names_the_next_one(section: str) -> None:
    steps = steps_of(section)
    astray = [
        f"{step.file} {step.name} does not mention {step.by or following.name}"
        for step, following in itertools.pairwise(steps)
        if (step.by or following.name.rpartition(".")[2]) not in step.mentions()
        and following.name.partition(".")[0] not in step.mentions()
    ]
    assert astray == []
    assert steps[-1].definition()


def test_the_configuration_passes_few_rooms_and_seldom_returns_to_one_that_it_had_left() -> None:
    steps = steps_of(CONFIGURATION)
    way = [room for room, _ in itertools.groupby(room_of(step.module) for step in steps)]
    assert len(steps) >= 12
    assert len({*way}) <= MOST_ROOMS, way
    assert len(way) - len({*way}) <= MOST_RETURNS, way


def test_each_stage_of_the_configuration_takes_the_typed_result_of_the_one_before() -> None:
    stages: list[tuple[Callable[..., object], type | None, type]] = [
        (parse, None, RawConfig),
        (judge, RawConfig, Judged),
        (with_program, Judged, Loaded),
        (check_plan, Loaded, Checked),
    ]
    for stage, taken, given in stages:
        kinds = list(inspect.signature(stage, eval_str=True).parameters.values())
        assert taken is None or kinds[0].annotation is taken
        assert inspect.signature(stage, eval_str=True).return_annotation is given


def test_a_real_configuration_takes_these_steps_in_this_order(tmp_path: Path) -> None:
    # `up` would train; a class is followed by those who make one of it
    left_out = ("up", "Judged", "Options", "Loaded")
    steps = [
        f"{step.file} {step.name}" for step in steps_of(CONFIGURATION) if step.name not in left_out
    ]
    entered: list[str] = []

    def called(frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(f"{ROOT}/"):
            name = f"{Path(code.co_filename).relative_to(ROOT)} {code.co_qualname}"
            if name in steps and name not in entered:
                entered.append(name)

    (tmp_path / "cluster.toml").write_text("[train]\nkernels = 'numpy'\n")
    sys.setprofile(called)
    try:
        check(tmp_path / "cluster.toml")
    finally:
        sys.setprofile(None)
    assert entered == steps


def test_the_walks_of_a_newcomer_lead_to_what_they_name() -> None:
    steps = steps_of("Finding your way", "contributing.md")
    assert len(steps) >= 6
    for step in steps:
        assert step.definition()
        assert step.by is None or step.by in step.mentions()
