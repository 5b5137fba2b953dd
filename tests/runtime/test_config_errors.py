"""The error tree, the hints for misspelt names, and who may pay for importing pydantic."""

import ast
from pathlib import Path

from runtime import errors
from runtime.errors import ConfigError
from runtime.suggest import hint, nearest


def test_the_nearest_name_ignores_case_and_gives_nothing_for_strangers() -> None:
    assert nearest("Groups", ["group_size", "groups"]) == "groups"
    assert nearest("zzz", ["groups"]) == ""
    assert hint("zzz", []) == ""


def test_each_error_carries_the_exit_code_of_its_remedy() -> None:
    codes = {"ConfigError": 2, "LaunchError": 3, "RoleDied": 4, "ProgramFailed": 1}
    for name, code in codes.items():
        assert getattr(errors, name).exit_code == code
        assert issubclass(getattr(errors, name), errors.ConvoyError)
    assert str(ConfigError(["a", "b"])) == "a\nb"
    assert errors.MessageError("bad_header", "header of 3 bytes").reason == "bad_header"


def test_only_the_config_files_import_pydantic_and_nobody_else_imports_them() -> None:
    root = Path(__file__).parents[2] / "runtime"
    allowed = {"config.py", "config_problems.py", "config_sections.py"}
    entrances = {"pydantic", *(f"runtime.{name[:-3]}" for name in allowed)}
    for path in sorted(root.rglob("*.py")):
        names = {
            name
            for node in ast.parse(path.read_text(encoding="utf-8")).body  # lazy imports in functions are fine
            for name in (
                [node.module or ""]
                if isinstance(node, ast.ImportFrom)
                else [alias.name for alias in node.names]
                if isinstance(node, ast.Import)
                else []
            )
        }
        assert path.name in allowed or not names & entrances, path.name
