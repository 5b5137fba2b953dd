"""Control groups with too little memory: a plan that does not fit is refused, and a role that the
kernel kills for memory is reported as such.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.helpers.support import configure, environment, runtime_command

GROUPS = Path("/sys/fs/cgroup")
Inside = Callable[..., "subprocess.CompletedProcess[str]"]

HOG = """
import numpy as np
from runtime import Actor, ActorSpec, Topology

class Hog(Actor):
    async def run(self):
        kept = []
        while True:
            kept.append(await self.compute("grow", np.ones, 1 << 20))

ROLES = {"hog": Hog}

def plan(config, options):
    return Topology(__name__, (ActorSpec("greedy", "hog"),), (), "greedy")
"""


@pytest.fixture
def inside() -> Iterator[Inside]:
    """Return a function that runs a command of Convoy in a control group with `size` bytes of
    memory.
    """
    version1 = (GROUPS / "memory").is_dir()
    group = (GROUPS / "memory" if version1 else GROUPS) / f"convoy-test-{os.getpid()}"
    limits = ["memory.limit_in_bytes"] if version1 else ["memory.max", "memory.swap.max"]

    def run(size: int, cluster: Path, *words: str) -> subprocess.CompletedProcess[str]:
        try:
            (group / limits[0]).write_text(str(size))
            for swap in limits[1:]:
                (group / swap).write_text("0")
        except OSError:
            pytest.skip("needs control groups of memory that may be changed")
        command = shlex.join(runtime_command(*words, cluster.name))
        entered = f"echo $$ > {shlex.quote(str(group / 'cgroup.procs'))} && exec {command}"
        return subprocess.run(
            ["sh", "-c", entered],
            cwd=cluster.parent,
            env=environment(),
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    with suppress(OSError):
        group.mkdir()
    yield run
    with suppress(OSError):
        group.rmdir()


def test_a_role_that_is_killed_for_memory_is_reported_as_such(
    tmp_path: Path, inside: Inside
) -> None:
    (tmp_path / "greed.py").write_text(HOG)
    cluster = tmp_path / "cluster.toml"
    cluster.write_text('program = "greed"\n')
    done = inside(300 << 20, cluster, "up")
    assert done.returncode == 4, done.stderr
    told = (
        r"process greedy \(greedy\) on local \(.*\) killed by the kernel for memory \(out "
        r"of memory\)"
    )
    assert re.match(told, done.stderr), done.stderr


def test_a_plan_that_needs_more_memory_than_its_control_group_has_is_refused(
    tmp_path: Path, inside: Inside
) -> None:
    cluster = configure(tmp_path, "sync")
    done = inside(300 << 20, cluster, "check", "--set", "train.batch=40000")
    assert done.returncode == 2, done.stdout + done.stderr
    assert re.match(
        (r"memory: the actors will hold .* has 315 MB: use a smaller " r"batch"), done.stderr
    ), done.stderr
