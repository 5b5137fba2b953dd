"""The line of the user's code at which an error was raised."""

from __future__ import annotations

from pathlib import Path

import pytest

from runtime.user_code import line_of


def raised_in(file: str) -> Exception:
    """The error of code that a file of this name was compiled to."""
    with pytest.raises(ValueError) as error:
        exec(compile("def f():\n    raise ValueError\nf()", file, "exec"), {})
    return error.value


def test_source_that_was_left_where_a_package_was_compiled_is_not_the_users_code() -> None:
    found = line_of(raised_in("cupy/cuda/memory.pyx"))
    assert "memory.pyx" not in found and "in raised_in" in found


def test_a_script_below_the_working_folder_is_the_users_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "script.py").write_text("")
    for name in ("script.py", str(tmp_path / "script.py")):
        assert line_of(raised_in(name)) == "script.py:2, in f"
