"""The process of a run that is connected to Ray, `python -m runtime.cluster.launchers.ray_driver`.
Its messages are described in `ray`.

It asks Ray for one placement group, and an actor for each machine. Ray frees all of them when this
process ends: when its standard input closes, when it is killed, or when Ray loses it.
"""

from __future__ import annotations

import json
import logging
import os
import queue
import subprocess
import sys
import threading
from collections.abc import Mapping
from itertools import chain
from typing import IO, Any

from runtime.machine.parent import go_on_without_parent

LOOK_SECONDS = 1.0  # between two checks whether there is room
LEAVE_SECONDS = 5.0  # the longest wait for Ray to disconnect
MOST_NODES = 8  # nodes named in a message
MISSING = "the package 'ray' is not installed here: pip install 'convoy-runtime[ray]'"

Order = dict[str, Any]
Bundle = dict[str, float]


class Agent:
    """The actor on a node, which runs the command there. Ray copies the class to the node by value.
    The node's own Python need not be able to import Convoy."""

    def __init__(self) -> None:
        self._child: subprocess.Popen[bytes] | None = None

    def run(self, command: str, line: str) -> str:
        """Run the command to its end, and return how it ended, in words. The command's standard
        input is a pipe from this process, with which the command ends."""
        here = os.path.dirname(sys.executable)  # noqa: PTH120  # python3 there is the Python of Ray
        environment = {**os.environ, "PATH": f"{here}:{os.environ.get('PATH', '')}"}
        # Ray kills the children of an actor that ends, but not their children. The agent is such a
        # grandchild: it sees its standard input close instead, and cleans up
        words, pipe = ["/bin/sh", "-c", '/bin/sh -c "$0"; exit $?', command], subprocess.PIPE
        self._child = subprocess.Popen(
            words,
            stdin=pipe,
            stdout=subprocess.DEVNULL,
            stderr=pipe,
            env=environment,
            start_new_session=True,
        )
        assert self._child.stdin is not None and self._child.stderr is not None
        try:
            self._child.stdin.write(line.encode() + b"\n")
            self._child.stdin.flush()
        except OSError:  # the command has ended already, and has printed why
            pass
        said = [
            text
            for text in self._child.stderr.read().decode(errors="replace").splitlines()
            if text.strip()
        ]
        status = self._child.wait()
        how = f"was killed by signal {-status}" if status < 0 else f"exited with status {status}"
        return said[-1].strip() if said else f"its agent {how} and printed nothing"


class Driver:
    """The driver of one run. `said` is the stream to `up`."""

    def __init__(self, bundles: Mapping[str, Bundle], said: IO[str]) -> None:
        self._bundles = bundles
        self._said = said
        self._ray: Any = None
        self._group: Any = None
        self._actors: dict[str, Any] = {}
        self._news: queue.SimpleQueue[Order | None] = queue.SimpleQueue()

    def tell(self, **news: str) -> None:
        """Send a message to `up` as one line of JSON."""
        self._said.write(json.dumps(news) + "\n")
        self._said.flush()

    def listen(self, orders: IO[bytes]) -> None:
        """Read the orders, in a thread. When they end, this process ends, after at most
        LEAVE_SECONDS."""
        for line in orders:
            self._news.put(json.loads(line))
        self._news.put(None)
        threading.Timer(LEAVE_SECONDS, os._exit, [1]).start()

    def join(self, address: str | None) -> None:
        """Connect to the cluster as a driver."""
        import ray

        # without an address, Ray would start a cluster
        known = address or os.environ.get("RAY_ADDRESS") or "auto"
        self.tell(waiting=f"Ray does not answer at {known}")
        ray.init(known, log_to_driver=False, logging_level=logging.ERROR)
        self._ray = ray

    def leave(self) -> None:
        """Disconnect from Ray."""
        if self._ray is not None:
            self._ray.shutdown()  # Ray ends the job's actors and its placement group

    def serve(self) -> None:
        """Ask for room, then follow the orders to their end."""
        from ray.util.placement_group import placement_group

        strategy = "STRICT_SPREAD" if len(self._bundles) > 1 else "PACK"
        self._group = placement_group(list(self._bundles.values()), strategy=strategy)
        early: list[Order] = []
        while not self._group.wait(LOOK_SECONDS):
            self.tell(waiting=f"Ray has no room yet: asked for {self._asked()}; {self._cluster()}")
            while not self._news.empty():
                if (order := self._news.get()) is None:
                    return
                early.append(order)
        self.tell(waiting="Ray has found room and starts its agent")
        for order in chain(early, iter(self._news.get, None)):
            self._do(order)

    def _do(self, order: Order) -> None:
        if "start" in order:
            self._start(order["start"], order["command"], order["line"])
        elif "ended" in order:
            self._actors.pop(order["ended"], None)
            self.tell(**order)
        elif order["kill"] in self._actors:
            self._ray.kill(self._actors[order["kill"]])

    def _start(self, machine: str, command: str, line: str) -> None:
        from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

        index = list(self._bundles).index(machine)
        bundle = dict(self._bundles[machine])
        there = PlacementGroupSchedulingStrategy(self._group, placement_group_bundle_index=index)
        wanted = {
            "num_cpus": bundle.pop("CPU"),
            "num_gpus": bundle.pop("GPU", 0),
            "resources": bundle,
        }
        kind = self._ray.remote(Agent).options(scheduling_strategy=there, max_restarts=0, **wanted)
        self._actors[machine] = actor = kind.remote()
        end = actor.run.options(max_task_retries=0).remote(command, line).future()
        end.add_done_callback(lambda done: self._news.put({"ended": machine, "how": _how(done)}))

    def _asked(self) -> str:
        """Describe the wanted machines: "2 of 4 CPU, each on a separate node"."""
        each = [_amounts(bundle) for bundle in self._bundles.values()]
        kinds = " and ".join(f"{each.count(kind)} of {kind}" for kind in dict.fromkeys(each))
        return f"{kinds}, each on a separate node" if len(each) > 1 else kinds

    def _cluster(self) -> str:
        """Describe the resources of the nodes, and how much of them is free."""
        nodes = [node for node in self._ray.nodes() if node["Alive"]]
        told = [f"{node['NodeManagerAddress']} has {_amounts(node['Resources'])}" for node in nodes]
        more = f" and {len(told) - MOST_NODES} more" if len(told) > MOST_NODES else ""
        free = _amounts(self._ray.available_resources())
        return (
            f"{', '.join(told[:MOST_NODES]) or 'the cluster has no node'}{more}; free in "
            f"all: {free}"
        )


def _amounts(resources: Mapping[str, float]) -> str:
    """Describe the resources that people count, without memory and the names of nodes."""
    ours = {name: amount for name, amount in resources.items() if not name.startswith("node:")}
    return (
        " + ".join(f"{amount:g} {name}" for name, amount in ours.items() if "memory" not in name)
        or "nothing"
    )


def _how(done: Any) -> str:
    """Describe how an agent has ended: its own text, or the first lines of Ray's error."""
    error = done.exception()
    if error is None:
        return str(done.result())
    return f"ray: {_first(error)}"


def _first(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    told = 2 if lines and lines[0].endswith(":") else 1
    return " ".join(lines[:told]) or type(error).__name__


def main() -> int:
    """Serve `up`. Messages to `up` have a separate descriptor, and everything that Ray prints goes
    to standard error."""
    go_on_without_parent()
    said = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    first = sys.stdin.buffer.readline()
    if not first:
        return 0
    wanted = json.loads(first)
    driver = Driver(wanted["bundles"], said)
    threading.Thread(target=driver.listen, args=(sys.stdin.buffer,), daemon=True).start()
    try:
        driver.join(wanted["address"])
        driver.serve()
    except ModuleNotFoundError as error:
        driver.tell(failed=MISSING if error.name == "ray" else _first(error))
    except Exception as error:  # noqa: BLE001  # any error of Ray is reported to the user of `up`
        driver.tell(failed=_first(error))
    driver.leave()
    logging.shutdown()
    os._exit(0)  # Ray's threads may wait for ever for a node that has died


if __name__ == "__main__":
    sys.exit(main())
