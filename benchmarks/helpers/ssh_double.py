"""A double of ssh, whose hosts are network namespaces of this machine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from benchmarks.helpers.far_machines import program

SCRIPT = """
while [ "$1" != "--" ]; do shift; done
host=$2; shift 2
[ -e {folder}/$host.down ] && {{ echo "$host: no route to host" >&2; exit 255; }}
case $host in
{cases}
esac
exec ip netns exec $namespace sh -c "$*"
"""


@dataclass
class SshDouble:
    """The double. `folder` has its program in `bin`. `hosts`: name -> namespace."""

    folder: Path
    hosts: Mapping[str, str]

    def __post_init__(self) -> None:
        cases = "\n".join(f"{name}) namespace={at};;" for name, at in self.hosts.items())
        script = SCRIPT.format(folder=self.folder, cases=cases)
        program(self.folder / "bin" / "ssh", script)

    def path(self, environment: Mapping[str, str]) -> dict[str, str]:
        """The environment in which `ssh` is the double."""
        return {**environment, "PATH": f"{self.folder / 'bin'}:{environment['PATH']}"}

    def down(self, host: str) -> Path:
        """A file; while it exists, the host cannot be reached."""
        return self.folder / f"{host}.down"
