"""The tree of errors, the hints for misspelt names, and the processes that must not import
pydantic.
"""

import subprocess
import sys

from runtime import errors
from runtime.errors import ConfigError
from runtime.suggest import hint, nearest
from tests.helpers.support import ROOT


def test_the_nearest_name_ignores_case_and_is_empty_if_no_name_is_similar() -> None:
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


def test_role_processes_do_not_import_pydantic_or_the_command_line() -> None:
    check = (
        "import sys, runtime.cluster.process, roles; print(sorted({'pydantic', 'cyclopts', "
        "'rich'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", check], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout == "[]\n"
