"""Two processes that exchange messages, as `benchmarks.messages` controls them: start them, link
them, give them orders.

Each end is `python -m benchmarks.messages.end`; orders and answers are lines of JSON over its
pipes. The ends may live in two network namespaces, which stand for two machines. The measurements
are in `messages`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any

from benchmarks.helpers.report import ROOT

MARK = "@"  # begins the lines that are answers: libraries print too
SECONDS = 120.0  # an end that is silent for so long is stopped
NAMESPACES = (f"convoy-{os.getpid()}-a", f"convoy-{os.getpid()}-b")
ADDRESSES = ("10.87.65.1", "10.87.65.2")


class Lost(Exception):
    """An end died, or was silent for too long."""


def end_of(tree: Path) -> str:
    """The module of an end in this checkout. It moved when the benchmarks got folders."""
    here = "benchmarks.messages.end"
    is_moved = (tree / here.replace(".", "/")).with_suffix(".py").exists()
    return here if is_moved else "benchmarks.messages_end"


class End:
    """One process of `module` (default: `end_of` the tree) in the checkout `tree`, with additions
    to its `environment`. `before` is put in front of its command."""

    def __init__(
        self,
        kind: str,
        name: str,
        options: dict[str, Any],
        before: tuple[str, ...],
        module: str | None = None,
        environment: dict[str, str] | None = None,
        tree: Path = ROOT,
    ) -> None:
        self.title = f"{kind}, end {name}"
        module = module or end_of(tree)
        command = [*before, sys.executable, "-m", module, kind, name, json.dumps(options)]
        one = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
        environment = {**os.environ, "PYTHONPATH": str(tree), **one, **(environment or {})}
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(
            command, cwd=tree, env=environment, stdin=pipe, stdout=pipe, text=True
        )

    def say(self, what: Any) -> None:
        """Send it an order, or the address that it waits for."""
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(what) + "\n")
        self.process.stdin.flush()

    def hear(self, seconds: float = SECONDS) -> Any:
        """Its next answer. Raises Lost if it ends first."""
        assert self.process.stdout is not None
        alarm = threading.Timer(seconds, self.process.kill)
        alarm.start()
        try:
            for line in self.process.stdout:
                if line.startswith(MARK):
                    return json.loads(line[len(MARK) :])
        finally:
            alarm.cancel()
        raise Lost(f"{self.title} ended with {self.process.wait()}")

    def close(self) -> None:
        """Close its standard input. It stops by itself, or is killed after 20 s."""
        assert self.process.stdin is not None and self.process.stdout is not None
        try:
            self.process.stdin.close()
            self.process.wait(20)
        except (BrokenPipeError, subprocess.TimeoutExpired):
            self.process.kill()
            self.process.wait()
        finally:
            self.process.stdout.close()


class Pair:
    """The ends `a` and `b` of one kind, linked to each other, from the checkout `tree`. Each is in
    one of two network `namespaces`, if these are given. Some kinds start their second process
    themselves."""

    def __init__(
        self,
        kind: str,
        *,
        alone: bool = False,
        namespaces: Sequence[str] = (),
        tree: Path = ROOT,
        **options: Any,
    ) -> None:
        before = dict(
            zip("ab", (("ip", "netns", "exec", name) for name in namespaces), strict=False)
        )
        names = "a" if alone else "ab"
        self.ends = {
            name: End(kind, name, options, before.get(name, ()), tree=tree) for name in names
        }

    def __enter__(self) -> Pair:
        try:
            places = {name: end.hear() for name, end in self.ends.items()}
            for name, end in self.ends.items():
                end.say(places.get("b" if name == "a" else "a"))
            for end in self.ends.values():
                end.hear()
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        for end in self.ends.values():
            end.close()

    def ask(self, what: str, **options: Any) -> Any:
        """Give end `a` an order and wait for its answer."""
        return self.order("a", what, **options)()

    def order(self, name: str, what: str, **options: Any) -> Any:
        """Give an end an order; call the result to wait for the answer."""
        self.ends[name].say([what, options])
        return self.ends[name].hear


@contextmanager
def namespaces() -> Iterator[str]:
    """Two network namespaces with a virtual cable between them. Yields the reason if they cannot be
    made, else an empty text."""
    a, b = NAMESPACES
    steps = [f"ip netns add {name}" for name in NAMESPACES]
    steps += [f"ip link add convoy-a netns {a} type veth peer convoy-b netns {b}"]
    for name, link, address in zip(NAMESPACES, ("convoy-a", "convoy-b"), ADDRESSES, strict=True):
        steps += [f"ip -n {name} addr add {address}/24 dev {link}"]
        steps += [f"ip -n {name} link set {each} up" for each in ("lo", link)]
    try:
        yield next((why for why in map(_refusal, steps) if why), "")
    finally:
        for name in NAMESPACES:
            _refusal(f"ip netns del {name}")


def _refusal(command: str) -> str:
    """Run a command. Returns the reason if it fails, else an empty text."""
    try:
        done = subprocess.run(
            command.split(), capture_output=True, text=True, timeout=20, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"{command}: {error}"
    return "" if done.returncode == 0 else f"{command}: {done.stderr.strip() or done.returncode}"
