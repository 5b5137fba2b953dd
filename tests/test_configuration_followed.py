"""docs/architecture.md follows the configuration: a run takes the steps of the walk in their order,
through few rooms.
"""

from __future__ import annotations

import ast
import inspect
import itertools
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType

from runtime.config.file import Judged, Loaded, judge, parse, with_program
from runtime.config.toml_source import RawConfig
from runtime.runs.checking import Checked, check, check_plan
from tests.house.source import ROOT
from tests.test_followed import TOO_LONG, Step, lists_of
from tests.test_rooms import room_of

(STEPS,) = lists_of("The configuration, followed")
MOST_ROOMS = 6
MOST_RETURNS = 3
MOST_FILES = 13
MOST_LINES = 2300


def module_of(step: Step) -> str:
    """`roles/options.py` as `roles.options`."""
    return step.file.removesuffix(".py").replace("/", ".")


def test_the_configuration_takes_few_files_and_lines() -> None:
    files = {step.file for step in STEPS}
    lines = {file: len(Path(ROOT, file).read_text("utf-8").splitlines()) for file in files}
    assert len(files) <= MOST_FILES, f"the walk names more files than {MOST_FILES}: {files}"
    total = sum(lines.values())
    assert total <= MOST_LINES, f"{total} lines, at most {MOST_LINES}: {TOO_LONG}: {lines}"


def test_each_step_leads_to_the_next_one() -> None:
    for step in STEPS:
        words = {
            getattr(node, "id", None) or getattr(node, "attr", None)
            for node in ast.walk(step.definition())
        }
        assert step.by is None or step.by in words, step


def test_the_configuration_passes_few_rooms_and_seldom_returns_to_an_earlier_one() -> None:
    way = [room for room, _ in itertools.groupby(room_of(module_of(step)) for step in STEPS)]
    assert len(STEPS) >= 12
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
    # `up` would train; the code that makes an object of a class comes in the step before it
    left_out = ("up", "Judged", "Options", "Loaded")
    steps = [f"{step.file} {step.name}" for step in STEPS if step.name not in left_out]
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
