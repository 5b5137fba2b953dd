"""`check`: print the run that `up` would start from a cluster.toml, without starting it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from runtime.cli.arguments import Settings, Switch
from runtime.counting import counted
from runtime.errors import ConfigError
from runtime.terminal_text import one_line

if TYPE_CHECKING:
    from runtime.plan.topology import ProcessSpec
    from runtime.report.console import Teller
    from runtime.runs.checking import Checked


def check(
    file: Path = Path("cluster.toml"), *, all_samples: Switch = False, settings: Settings = ()
) -> int:
    """Read everything, plan and place the run, and start nothing. Each mistake is printed on one
    line.

    Parameters
    ----------
    file
        The cluster's description.
    all_samples
        Read all training and test data once, not only some samples: print how many samples each
        class has, and list all that are damaged or have numbers that are not finite.
    """
    from runtime.machine import private
    from runtime.plan.placement import limited, unknown
    from runtime.report.console import Teller
    from runtime.runs.places import check_places

    console = Teller()
    checked = _checked(file, settings, console, all_samples=all_samples)
    check_places(checked.loaded.config)
    placement = checked.placement
    checked.tell(console)
    if text := private.doubts():
        console.warn(text)
    actors = counted(len(placement.topology.actors), "actor")
    console.say(f"{file}: {actors} in {counted(len(placement.processes), 'process')}")
    for spec in placement.processes:
        cores = f" on core {', '.join(map(str, spec.cores))}" if spec.cores else ""
        actors = ", ".join(spec.actors)
        console.say(f"  {spec.name:<14} on {spec.machine}, {_threads(spec)}{cores}: {actors}")
    if every := checked.loaded.config.run.histograms:
        text = f"run.histograms: each layer's parameters and gradients every {every} iterations"
        console.say(f"{text}, shown by `report`")
    for describe in (limited, unknown):
        if text := describe(placement, checked.loaded.config):
            console.say(text)
    return 0


def _checked(file: Path, settings: Settings, console: Teller, *, all_samples: bool) -> Checked:
    """Check the configuration, and first all samples if this is asked for: the check itself ends
    at the first that is damaged. Raises ConfigError with the mistakes of both."""
    from runtime.cluster.warnings import kept_warnings
    from runtime.config.file import load_with_program
    from runtime.runs.checking import check as check_config

    wrong: list[str] = []
    if all_samples:
        with kept_warnings():  # the check tells them
            loaded = load_with_program(file, settings)
            wrong += loaded.program.samples(loaded.config, loaded.options, console.say)
    try:
        checked = check_config(file, settings)
    except ConfigError as error:
        raise ConfigError([*dict.fromkeys((*map(one_line, wrong), *error.problems))]) from None
    if wrong:
        raise ConfigError(wrong)
    return checked


def _threads(spec: ProcessSpec) -> str:
    if not spec.threads:
        return "BLAS threads as its cores allow; it counts them when it starts"
    after = f" after the machine's first {spec.first_core}" if spec.first_core else ""
    pinned = "" if spec.first_core is None else f", pinned to as many cores{after}"
    return f"{spec.threads} BLAS threads{pinned}"
