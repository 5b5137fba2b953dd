"""Defaults: each is written in one place, from which all code reads it."""

from __future__ import annotations

import ast
from dataclasses import asdict, fields
from pathlib import Path

import runtime
from runtime.cluster.launcher import Launcher
from runtime.cluster.launchers.agents import AgentLauncher
from runtime.cluster.supervising.supervision import Liveness
from runtime.config.sections import Links
from runtime.config.sections import Liveness as Section
from runtime.defaults import LIVENESS, LivenessTimes
from runtime.transport import Limits

KEYS = {field.name for field in fields(LivenessTimes)}


def test_a_run_without_a_configuration_has_the_liveness_defaults_of_an_empty_one() -> None:
    assert Section().model_dump() == asdict(LIVENESS)
    assert Liveness() == Liveness(**Section().model_dump(), grace_seconds=Launcher.grace)
    links = Links()
    assert Limits() == Limits(
        links.credit_bytes, links.max_message_bytes, link_seconds=Section().link_seconds
    )
    assert AgentLauncher.link_seconds == LIVENESS.link_seconds


def test_defaults_of_liveness_are_written_in_one_file_only() -> None:
    found = []
    for path in sorted(Path(runtime.__file__).parent.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.AnnAssign | ast.Assign) and isinstance(
                node.value, ast.Constant
            ):
                targets = [node.target] if isinstance(node, ast.AnnAssign) else node.targets
                found += [
                    f"{path.name} {target.id}"
                    for target in targets
                    if isinstance(target, ast.Name) and target.id in KEYS and node.value.value
                ]
    wanted = {f"defaults.py {key}" for key in KEYS}
    # a different setting: launchers limit the start of an agent (launcher.start_seconds)
    own = {f"{name}.py start_seconds" for name in ("agents", "kubernetes", "manual", "ray")}
    assert set(found) == wanted | own
