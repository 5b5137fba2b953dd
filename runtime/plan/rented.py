"""The machines of `plan --machine KIND`: a configuration whose machines are other hosts. A topology
is laid out and placed on them as `up` would do it on that many [[machine]] entries."""

from __future__ import annotations

from collections.abc import Callable

from runtime.config.machines import Machine
from runtime.config.sections import BY_HAND, LOCAL, ClusterConfig, Launcher
from runtime.machine.addresses import AUTO, is_loopback
from runtime.plan.placement import machines_wanted
from runtime.plan.topology import Topology

ELSEWHERE = Launcher(kind=BY_HAND)  # of machines that have no launcher yet
NAMES = "machine-{}"


def on_rented(
    config: ClusterConfig, lay: Callable[[ClusterConfig], Topology]
) -> tuple[ClusterConfig, Topology]:
    """Return the configuration with rented machines, and the topology that `lay` returns for it.

    cluster.toml with several machines stands for that many. Otherwise there are as many machines as
    the topology on one machine can use. Raises ConfigError as `lay` and `place` do.
    """
    count = len(config.machine)
    if count == 1:
        count = machines_wanted(lay(config), config)
    there = _rented(config, count)
    return there, lay(there)


def _rented(config: ClusterConfig, count: int) -> ClusterConfig:
    machines = tuple(
        machine.model_copy(update={"price_per_hour": None}) for machine in config.machine
    )  # the prices of other machines
    if len(machines) == 1:
        (only,) = config.machine
        # rules and patterns that name the only machine mean the first one
        named = config.process or config.placement != type(config.placement)()
        names = [NAMES.format(number + 1) for number in range(count)]
        names[0] = only.name if named else names[0]
        machines = tuple(only.model_copy(update={"name": name}) for name in names)
    launcher = ELSEWHERE if config.launcher.kind == LOCAL else config.launcher
    update = {"machine": tuple(map(_elsewhere, machines)), "launcher": launcher}
    return config.model_copy(update=update)


def _elsewhere(machine: Machine) -> Machine:
    """Return the machine as a host of its own. The keys that only make sense on a real machine are
    left out."""
    address = AUTO if is_loopback(machine.address) else machine.address
    update = {"host": machine.name, "address": address, "kind": None, "namespace": None}
    return machine.model_copy(update=update | {"pin": (), "port": None})
