"""Rules between sections, which no single section can check. They use typed sections and the
machines that [[machine]] stands for. The mistakes of all rules are reported at once."""

from collections.abc import Iterator

from runtime.config.engines import KINDS, KUBERNETES
from runtime.config.hostfile import matching
from runtime.config.machines import Entries, Machine
from runtime.config.sections import LOCAL, Simulation
from runtime.config.toml_lines import KeyPath
from runtime.config.toml_source import Problem, RawConfig, show_text
from runtime.config.validation import Sections
from runtime.machine.addresses import is_loopback
from runtime.suggest import hint, near_hint

NOT_OVER_IPC = (
    "names another host, but links.transport = 'ipc' links processes of one host only: remove "
    "links.transport"
)
MACHINE = "machine"  # metrics.address: each process serves at the address of its machine
MOST_NAMED = 20  # machines that one message lists


def broken_rules(raw: RawConfig, sections: Sections, entries: Entries) -> Iterator[Problem]:
    """Yield the mistakes between sections. `raw` knows the line of each key."""
    yield from _duplicates(raw, sections)
    yield from _only_virtual(raw, sections.simulation)
    yield from _of_another_kind(raw, sections)
    yield from _unknown_machines(raw, sections, entries)
    yield from _metrics_elsewhere(raw, sections)
    for index, machine in enumerate(sections.machine):
        yield from _unreachable(raw, sections, index, machine)


def _duplicates(raw: RawConfig, sections: Sections) -> Iterator[Problem]:
    """Yield a mistake for each process whose name is taken."""
    first: dict[str, int] = {}
    for index, process in enumerate(sections.process):
        if process.name in first:
            where = raw.origin(("process", first[process.name], "name")).where
            text = f"a process named {process.name!r} exists already ({where})"
            yield raw.problem(("process", index, "name"), text)
        elif process.name is not None:
            first[process.name] = index


def _only_virtual(raw: RawConfig, simulation: Simulation) -> Iterator[Problem]:
    """Yield a mistake for each key that is set but has an effect on virtual time only."""
    if simulation.clock != "real":
        return
    for key in ("latency", "bytes_per_second", "interfaces", "links", "service_times"):
        said = key in simulation.model_fields_set
        value = getattr(simulation, key)
        if said and (value is None or value != Simulation.model_fields[key].default):
            text = "has an effect only with simulation.clock = 'virtual'"
            yield raw.problem(("simulation", key), text)


def _of_another_kind(raw: RawConfig, sections: Sections) -> Iterator[Problem]:
    """Yield a mistake for each table of a launcher that is not used, and for a missing table."""
    launcher = sections.launcher
    for kind in KINDS:
        if kind in launcher.model_fields_set and launcher.kind != kind:
            text = f"has an effect only with launcher.kind = '{kind}'"
            yield raw.problem(("launcher", kind), text)
    if launcher.kind == KUBERNETES and KUBERNETES not in launcher.model_fields_set:
        text = "needs launcher.kubernetes, which names the image of its pods"
        yield raw.problem(("launcher", "kind"), text)


def _unknown_machines(raw: RawConfig, sections: Sections, entries: Entries) -> Iterator[Problem]:
    """Yield a mistake for each machine that a process or [placement] names and that does not
    exist."""
    if not entries.all_known:
        return
    named: list[tuple[KeyPath, str]] = [
        (("process", index, "machine"), process.machine)
        for index, process in enumerate(sections.process)
    ]
    named.append((("placement", "spread"), sections.placement.spread))
    named.append((("placement", "servers"), sections.placement.servers))
    for keys, said in named:
        if said and (text := _unknown(said, entries.names)):
            yield raw.problem(keys, text)


def _unknown(said: str, names: tuple[str, ...]) -> str:
    """Return the mistake in a text that should select machines, or "" if it selects some."""
    try:
        matching(said, names)
    except ValueError as error:
        wrong = str(error)
    else:
        return ""
    near = hint(wrong, names) if len(names) <= MOST_NAMED else near_hint(wrong, names)
    is_name = " " not in wrong
    text = f"no machine is named {show_text(wrong)!r}" if is_name else show_text(wrong, 200)
    return f"{text}{near}"


def _metrics_elsewhere(raw: RawConfig, sections: Sections) -> Iterator[Problem]:
    """Yield a mistake if other machines can reach the pages and metrics.readers limits the users.
    Users of other machines are not known here, so only "*" can be kept."""
    metrics = sections.metrics
    if metrics.address != MACHINE or metrics.readers is None or "*" in metrics.readers:
        return
    if any(_is_elsewhere(machine) for machine in sections.machine):
        text = (
            "metrics.readers cannot limit the users of other machines, since their names are not "
            "known here"
        )
        yield raw.problem(
            ("metrics", "address"), f"{text}: set metrics.readers = ['*'] to admit all users"
        )


def _unreachable(
    raw: RawConfig, sections: Sections, index: int, machine: Machine
) -> Iterator[Problem]:
    """Yield a mistake if a machine cannot be started from here, or if no link leads to it. A
    network namespace needs an address inside it and a link that leads out of it."""
    over_ipc = sections.links.transport == "ipc"
    address = machine.listens_at
    if "namespace" in machine.model_fields_set:
        if address is not None and is_loopback(address):
            text = (
                f"found {address!r}, expected an address of the machine's network namespace: "
                "its loopback is its own"
            )
            yield raw.problem(("machine", index, "address"), text)
        if over_ipc:
            yield raw.problem(("machine", index, "namespace"), NOT_OVER_IPC)
    elif _is_elsewhere(machine) and _starts_here(sections):
        which = f"machine {machine.name!r}"
        if machine.lists_hosts or machine.name is None:
            which = f"machine[{index}]"
        given = machine.model_fields_set
        keys = ("address", "hosts", "hostfile", "host")
        key = next((each for each in keys if each in given), "address")
        text = (
            f"{which} has {key} {_as_given(machine, key)}: launcher '{LOCAL}' starts processes on "
            "this machine only"
        )
        text = f"{show_text(text, 180)}, at a loopback address: set launcher.kind, such as to 'ssh'"
        yield raw.problem(("machine", index, key), text)
    elif _is_elsewhere(machine) and over_ipc:
        yield raw.problem(("machine", index, "address"), NOT_OVER_IPC)


def _as_given(machine: Machine, key: str) -> str:
    """The value of a key as the user wrote it: a text, or the texts of an array."""
    value = getattr(machine, key)
    return ", ".join(map(repr, value)) if isinstance(value, tuple) else repr(value)


def _is_elsewhere(machine: Machine) -> bool:
    """Whether the machine is another host. False if its address has a mistake."""
    return machine.listens_at is not None and not is_loopback(machine.listens_at)


def _starts_here(sections: Sections) -> bool:
    """Whether processes will be started, and on this machine only."""
    return sections.simulation.clock == "real" and sections.launcher.kind == LOCAL
