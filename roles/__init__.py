"""The built-in program: training convolutional networks as role processes.

messages             The messages of the training roles
options              The sections of cluster.toml about training
base/                The declarations of training roles
workers/             Workers, which compute gradients
tuning/              The tuner: it tries settings on the training cluster and chooses groups,
                     momentum, learning rate and batch
servers/             The servers of the conv model, and the reducers that add up gradients on the
                     way to them
fc/                  The FC (fully connected) phase
exchange/            Exchanges: the ways in which workers with replicas sum gradients
coordination/        The coordination of a run
checkpoints/         Checkpoints: when and how a run saves them, and the checkpoint that a run
                     resumes
learning/            The plain objects behind the roles, which send no messages
formats/             Wire formats of gradients
presets/             Families of topologies, each with its presets
registry             The presets and exchanges that cluster.toml can name, and the modules that
                     declare them
planning/            The way from [train], or from options in Python, to a topology
choosing/            `preset = "auto"`
forecasting/         Forecasts of traffic, memory and the time of an iteration, before a run and
                     while it runs
commands/            The commands that training adds to `python -m runtime`
data_options         The sections of cluster.toml about the data of training
solver_options       The sections [train.optimizer], [train.schedule] and [train.ema], which stand
                     for settings of the solver's file
recipes              Recipes of training by name (`train.recipe`)
siblings             Convoy's packages that this one imports
other_names          Names of keys of cluster.toml in other programs and in other sections
graph_options        The section of cluster.toml about a net from a graph of ONNX: [train.onnx]
islands/             Islands: workers that learn apart and exchange what they have learned with an
                     outer server
attendance_messages  The messages about workers that come and go while a run goes on
number_types         The types of numbers in [train]

`runtime.program_interface.Program` lists the names that a program may offer to the runtime. Role
processes need ROLES only, so all other names are imported when they are asked for.
"""

# part of convoy-runtime

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import roles.siblings  # noqa: F401  # it finds Convoy's other packages, so it comes first

# isort: split
import ops
from roles.commands import COMMANDS
from roles.coordination.coordinator import Coordinator
from roles.exchange.accumulator import HostAccumulator
from roles.fc.server import FcServer
from roles.fc.shard import FcShard
from roles.islands.island import Island
from roles.islands.outer_server import OuterServer
from roles.servers.conv_model import ConvModel
from roles.servers.tree_reducer import TreeReducer
from roles.tuning.tuner import Tuner
from roles.workers.averaging import AveragingReplica
from roles.workers.conv import ConvCompute
from roles.workers.conv_replica import ConvReplica
from roles.workers.replica import Replica
from roles.workers.single import Single
from runtime import Actor

if TYPE_CHECKING:
    from roles.checkpoints.finished import finished
    from roles.choosing.preset import PresetChoice
    from roles.commands.completed_names import completions
    from roles.commands.rescaling import scaled
    from roles.commands.resuming import resumed
    from roles.forecasting.observer import observer
    from roles.forecasting.plan_forecast import decided, forecast, memory
    from roles.options import Options
    from roles.planning.all_samples import samples
    from roles.planning.devices import lacking
    from roles.planning.planner import plan
    from roles.planning.predicted_times import prospects
    from roles.planning.script_topology import training
    from runtime.config.sections import ClusterConfig

# further preparation that every role process needs, done once before they are forked
preload = ops.preload

ROLES: dict[str, type[Actor]] = {
    "averaging_replica": AveragingReplica,
    "conv_compute": ConvCompute,
    "conv_model": ConvModel,
    "conv_replica": ConvReplica,
    "coordinator": Coordinator,
    "fc_server": FcServer,
    "fc_shard": FcShard,
    "host_accumulator": HostAccumulator,
    "island": Island,
    "outer_server": OuterServer,
    "replica": Replica,
    "single": Single,
    "tree_reducer": TreeReducer,
    "tuner": Tuner,
}

__all__ = [
    "COMMANDS",
    "ROLES",
    "Options",
    "choice",
    "completions",
    "decided",
    "finished",
    "forecast",
    "lacking",
    "memory",
    "observer",
    "plan",
    "preload",
    "prospects",
    "resumed",
    "samples",
    "scaled",
    "training",
]


def choice(config: ClusterConfig, options: Options) -> PresetChoice | None:
    """The choice of a preset, if the preset is "auto" (`roles.choosing.preset.choice`); otherwise
    None."""
    from roles.options import AUTO

    if options.train.strategy.preset != AUTO:
        return None
    from roles.choosing.preset import choice

    return choice(config, options)


def __getattr__(name: str) -> Any:
    if name == "plan":
        from roles.planning.planner import plan

        return plan
    if name == "finished":
        from roles.checkpoints.finished import finished

        return finished
    if name == "lacking":
        from roles.planning.devices import lacking

        return lacking
    if name == "prospects":
        from roles.planning.predicted_times import prospects

        return prospects
    if name == "resumed":
        from roles.commands.resuming import resumed

        return resumed
    if name == "samples":
        from roles.planning.all_samples import samples

        return samples
    if name == "scaled":
        from roles.commands.rescaling import scaled

        return scaled
    if name == "completions":
        from roles.commands.completed_names import completions

        return completions
    if name == "Options":
        from roles.options import Options

        return Options
    if name == "training":
        from roles.planning.script_topology import training

        return training
    if name == "observer":
        from roles.forecasting.observer import observer

        return observer
    if name in ("decided", "forecast", "memory"):
        from roles.forecasting import plan_forecast

        return getattr(plan_forecast, name)
    raise AttributeError(f"module 'roles' has no attribute {name!r}")
