"""Islands in place of `preset = "auto"`, for machines with slow links or unequal speeds.

Islands do not compute the same as `single`, and learn less from each sample. So they are compared
by the time to learn as much (`roles.forecasting.island_worth`), and chosen only if that is clearly
shorter than with every other preset.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from nets import NetError
from ops import OpsError
from roles.base.shapes import Shapes
from roles.choosing.counted import Counted
from roles.choosing.preset_candidates import Candidate, candidate_of
from roles.forecasting.fitted_model import network_of
from roles.forecasting.island_machines import home_of
from roles.forecasting.island_worth import Pace, pace
from roles.forecasting.layer_times import table_of, timed_quickly
from roles.forecasting.plan_forecast import plainly
from roles.forecasting.prediction import Network
from roles.forecasting.prediction_basis import PredictionInputs
from roles.forecasting.prediction_inputs import basis_of
from roles.forecasting.work_times import Times
from roles.options import Options
from roles.planning.strategies import preset_called
from runtime.compute.threads import using
from runtime.config.sections import ClusterConfig
from runtime.durations import duration
from runtime.errors import ConfigError
from runtime.plan.host_map import several
from runtime.plan.open_choice import Told
from runtime.plan.prospects import Prices, Wanted
from runtime.plan.topology import Placement

ISLANDS = "islands"
CLEARLY = 1.5
"""Islands are chosen if every other preset takes this many times as long. The rule of learning fits
nets and rates only roughly: LeNet at the solver's rate learns less than two thirds of what the rule
says (docs/home.md, "An example")."""


@dataclass(frozen=True)
class Islands:
    """The preset as a candidate, with its predicted pace."""

    candidate: Candidate
    pace: Pace

    @property
    def seconds(self) -> float:
        """Seconds to learn as much as in an iteration of one process."""
        return 1 / self.pace.value

    @property
    def told(self) -> dict[str, Any]:
        """The fields of the event that reports it."""
        return {
            "preset": ISLANDS,
            "predicted_seconds": 1 / self.pace.rate,
            "learned": self.pace.learned,
        }

    def sooner(self, best: Counted) -> str:
        """The reason why they learn sooner than the best of the other presets. "" if they do
        not."""
        other = best.iterations * best.seconds
        if self.seconds * CLEARLY > other:
            return ""
        return (
            f"predicted {duration(1 / self.pace.rate)} an iteration, each worth "
            f"{self.pace.learned:.2f} of one of 'single', so {duration(self.seconds)}; "
            f"{best.named} {duration(other)}, "
            f"where {best.speed.busiest} is busy {best.speed.use:.0%}"
        )


def islands(config: ClusterConfig, options: Options) -> tuple[Islands | None, list[Told]]:
    """The preset as a candidate, and the event that reports it or the reason why it is left out.
    None without an event if all workers are on one host, or if nothing is known of their speeds."""
    virtual = config.simulation.clock == "virtual"
    if options.train.strategy.workers == 1 or not (virtual or several(config)):
        return None, []
    try:
        candidate = candidate_of(config, options, ISLANDS, preset_called(ISLANDS))
        placement = candidate.placement
        basis = basis_of(config, placement, Wanted())
        if basis is None and virtual:
            return None, []
        home = home_of(placement, basis or TimedHere(config, placement))
    except ConfigError as error:
        return None, [("left out", {"preset": ISLANDS, "why": error.problems[0]})]
    if not home.compares:
        return None, []
    found = Islands(candidate, pace(home.machines, home.run))
    return found, [("candidate", found.told)]


class TimedHere(PredictionInputs):
    """Machines as fast as this one, whose layers are timed, on the network of [links]. Raises
    ConfigError if they cannot be timed."""

    name = "times of this machine, the network of [links]"

    def __init__(self, config: ClusterConfig, placement: Placement) -> None:
        self._config = config
        shapes = Shapes(plainly(placement.topology))
        job = next(options.job for options in shapes.having("job").values())
        threads = max(spec.threads for spec in placement.processes)
        try:
            with using(max(1, threads)), np.errstate(over="ignore"):
                times = timed_quickly(job, {job.batch})
        except (NetError, OpsError, OSError) as error:
            raise ConfigError([f"its layers cannot be timed: {error}"]) from None
        self._times = Times.of_profile(table_of(shapes, times))

    def times(self, placement: Placement) -> Times:
        return self._times

    def network(self, placement: Placement) -> Network:
        return network_of(placement, self._config)[0]

    def prices(self, placement: Placement) -> Prices:
        return ()
