"""The script that stands for ssh."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from benchmarks.helpers import logins


def test_a_command_for_a_host_runs_behind_the_words_of_its_machine(tmp_path: Path) -> None:
    befores = [("env", "AT=zero"), ("sh", "-c", 'AT="o n e"; export AT; exec "$@"', "sh")]
    folder = logins.script(tmp_path, befores)
    before = os.environ["PATH"]
    with logins.on_path(folder):
        assert shutil.which("ssh") == str(folder / "ssh")
        for host, said in (("m0", "zero b"), ("m1", "o n e b")):
            words = ["ssh", "-T", "-o", "BatchMode=yes", "--", host, "echo $AT", "b"]
            assert subprocess.check_output(words, text=True).strip() == said
    assert os.environ["PATH"] == before


def test_an_unknown_host_is_an_error_of_ssh(tmp_path: Path) -> None:
    folder = logins.script(tmp_path, [("env",)] * 2)
    done = subprocess.run(
        [folder / "ssh", "--", "m2", "true"], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (255, "found host 'm2', expected m0 to m1\n")
