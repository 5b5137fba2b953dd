"""Presets by name, and the keys that each allows.

A strategy is data: actors and links. The roles do not know it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from roles import registry
from roles.exchange.chosen_exchange import exchange_called
from roles.options import AUTO, MICRO_BATCHES, Strategy
from roles.presets.request import SHAPE, Preset
from runtime.actor_options import typed
from runtime.errors import ConfigError

LIVE_ONLY = "every group of preset '{}' has one worker, which only live = true can change"
WHY = {
    "workers": "preset '{}' has one worker",
    "groups": "preset '{}' makes its groups itself",
    "servers": "preset '{}' does not let you choose the number",
    "fan_in": "preset '{}' does not add up in a tree",
    "tau": "the workers of preset '{}' do not train separate models",
    "shares": "preset '{}' does not divide a batch among workers",
    "live": "the workers of preset '{}' cannot be changed while it runs",
    "pipeline": "preset '{}' has no groups that could share a process",
    "scheme": "preset '{}' does not divide the FC phase among servers",
    "variable_batch": "preset '{}' does not divide the FC phase among servers",
    "exchange": "the workers of preset '{}' hold no replicas that exchange sums",
    "between": "the workers of preset '{}' hold no replicas that are summed on each host first",
}


def preset_called(name: str) -> Preset:
    """The preset of this name. For another package's preset, its layout function is enough. Raises
    ConfigError if the name is unknown, or if the preset is not chosen yet."""
    if name == AUTO:
        raise ConfigError(
            [
                (
                    "found 'auto', which is allowed only in a cluster.toml for `up`, `check` and "
                    "`plan`: name a preset"
                )
            ]
        )
    found = registry.PRESETS.find(name)
    if isinstance(found, Preset):
        return found
    if callable(found):
        return Preset(found)
    raise ConfigError(
        [(f"preset '{name}': found {found!r}, expected a roles.presets.request.Preset")]
    )


PRESETS: dict[str, Preset] = {name: preset_called(name) for name in registry.PRESETS.known}


def manner_of(strategy: Strategy, groups: int) -> str:
    """The part of the model that is stale when gradients of `groups` groups arrive, in words.

    Runs of one manner with as many groups need as many iterations, whichever actors compute. With
    one group, this is true of nearly all presets.
    """
    # `up` does not need the manner, and saves 10 ms without this import
    from roles.forecasting.statistical import ONE_GRADIENT

    name = strategy.preset
    preset = preset_called(strategy.preset)
    if name not in PRESETS:
        return f"as preset '{name}'"
    if preset.averages:
        how = f"every {strategy.tau} iterations" if "tau" in preset.uses else "period by period"
        return f"{strategy.workers} workers averaged {how}, as preset '{name}'"
    if preset.shards(strategy) and strategy.variable_batch:
        return (
            f"updates of parts of a batch, {strategy.workers} workers, scheme '{strategy.scheme}'"
        )
    if groups == 1:
        return ONE_GRADIENT
    racing = ", updates race" if preset.races else ""
    return f"{'all' if preset.part == 'all' else 'conv'} layers stale{racing}"


def options_of(strategy: Strategy, preset: Preset) -> Any:
    """The preset's own options. Raises ValueError if they are not as it expects."""
    if preset.options is not None:
        options = typed(preset.options, strategy.options)
        if (check := getattr(options, "check", None)) is not None:
            check(strategy)
        return options
    if strategy.options:
        raise ValueError(f"found a table, but preset '{strategy.preset}' has no options of its own")
    return None


def idle_servers(
    strategy: Strategy, preset: Preset, layers: int
) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Find more model servers than `layers`, the number of layers that have parameters: each server
    needs one to hold."""
    servers = preset.servers(strategy)
    if servers > layers and not preset.shards(strategy):
        text = (
            f"found {servers}, expected at most {layers}, the number of layers that have parameters"
        )
        yield text, ("strategy", "servers")


def mistakes_of(
    strategy: Strategy, preset: Preset, kernels: str
) -> Iterator[tuple[str, tuple[str, ...]]]:
    """The contradictions between [train.strategy] and its preset: each as a text and the keys below
    [train]."""
    name = strategy.preset
    if preset.shards(strategy) and strategy.variable_batch and strategy.scheme == "a":
        text = (
            "found true with scheme 'a', where all rows are one FC batch, expected another "
            "scheme, such as 'b' or 'c'"
        )
        yield text, ("strategy", "variable_batch")
    yield from _unused(strategy, preset)
    yield from _too_large_team(strategy, preset)
    if preset.exchange:
        yield from _of_exchange(strategy, strategy.exchange or preset.exchange)
    if not strategy.reproducible:
        return
    if preset.averages or preset.races:
        why = "averages models that learn separately" if preset.averages else "lets updates race"
        yield f"found true, but preset '{name}' {why}", ("strategy", "reproducible")
    yield from _shards_that_repeat(strategy, preset)
    if strategy.fan_in != 2:
        text = f"found {strategy.fan_in}, but a reproducible run adds up in pairs: expected 2"
        yield text, ("strategy", "fan_in")
    if strategy.shares == "throughput":
        yield (
            (f"found '{strategy.shares}', but a reproducible run's shares are 'equal'"),
            ("strategy", "shares"),
        )
    if kernels != "compiled":
        text = (
            "found 'numpy', but a reproducible run needs 'compiled': BLAS adds up in an order "
            "that depends on its threads"
        )
        yield text, ("kernels",)


def _unused(strategy: Strategy, preset: Preset) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Find keys that differ from their defaults and that the preset does not use."""
    used = preset.uses | (preset.uses_live if strategy.live else frozenset())
    if not preset.exchange:
        used -= {"exchange", "between"}
    for key in (key for key in Strategy.model_fields if key in SHAPE - used):
        found = getattr(strategy, key)
        if found != Strategy.model_fields[key].default and not (key == "workers" and found == 1):
            why = LIVE_ONLY if key in preset.uses_live else WHY[key]
            said = str(found).lower() if isinstance(found, bool) else repr(found)
            yield f"found {said}, but {why.format(strategy.preset)}", ("strategy", key)


def _too_large_team(strategy: Strategy, preset: Preset) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Find a scheme whose teams have more members than there are workers."""
    count = strategy.scheme[1:]
    if preset.shards(strategy) and count and int(count) > strategy.workers:
        text = (
            f"found '{strategy.scheme}', which needs {count} workers, but workers = "
            f"{strategy.workers}: expected scheme 'c', or a number of at most {strategy.workers}"
        )
        yield text, ("strategy", "scheme")


def _of_exchange(strategy: Strategy, name: str) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Check that the exchange exists, that it has a tree if the fan-in is set, and that a
    reproducible run can use it."""
    try:
        exchange = exchange_called(name)
    except ConfigError as error:
        yield from ((problem, ("strategy", "exchange")) for problem in error.problems)
        return
    if not exchange.fans and strategy.fan_in != Strategy.model_fields["fan_in"].default:
        yield f"found {strategy.fan_in}, but exchange '{name}' has no tree", ("strategy", "fan_in")
    if not exchange.ways and strategy.between != Strategy.model_fields["between"].default:
        text = (
            f"found '{strategy.between}', but exchange '{name}' has no choice of ways between hosts"
        )
        yield text, ("strategy", "between")
    if why := exchange.refuses(strategy.workers):
        yield f"found '{name}' for {strategy.workers} workers, but {why}", ("strategy", "exchange")
    if strategy.reproducible and not exchange.repeats:
        text = (
            f"found true, but exchange '{name}' adds up in its own order, and a reproducible "
            "run adds up in pairs"
        )
        yield text, ("strategy", "reproducible")


def _shards_that_repeat(
    strategy: Strategy, preset: Preset
) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Find settings with which a reproducible run cannot be cut into its parts of units, or does
    not add up all rows before an update."""
    shards = preset.shards(strategy)
    if not shards:
        return
    if MICRO_BATCHES % shards and strategy.servers:
        text = (
            f"found {shards}, but the FC phase of a reproducible run needs 1, 2, 4 or "
            f"{MICRO_BATCHES} servers"
        )
        yield text, ("strategy", "servers")
    if strategy.variable_batch:
        text = (
            "found true, but a reproducible run adds up the gradients of all rows before it updates"
        )
        yield text, ("strategy", "variable_batch")
