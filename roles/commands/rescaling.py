"""`scale`: the options of a training with another number of workers or groups."""

from __future__ import annotations

from roles.options import Options
from roles.planning.auto_settings import sized
from roles.planning.strategies import WHY, preset_called
from runtime.config.sections import ClusterConfig
from runtime.errors import ConfigError


def scaled(config: ClusterConfig, options: Options, workers: int, groups: int) -> Options:
    """The options of a run that goes on with so many workers in so many groups; 0: as many as it
    has.

    Raises ConfigError if the preset does not let the user choose them. The planner reports all
    other mistakes.
    """
    strategy = options.train.strategy
    preset = preset_called(strategy.preset)
    wanted = {"workers": workers, "groups": groups}
    for key, said in wanted.items():
        if said and key not in preset.uses and not (key == "workers" and said == 1):
            raise ConfigError([f"found {said} {key}, but {WHY[key].format(strategy.preset)}"])
    train = sized(options.train, {key: said for key, said in wanted.items() if said})
    return options.model_copy(update={"train": train})
