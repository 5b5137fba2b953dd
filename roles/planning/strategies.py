"""The presets by name, and what may be asked of each. A strategy is data: which actors, which links; the roles do not
know it."""

from __future__ import annotations

from collections.abc import Iterator

from roles.options import MICRO_BATCHES, Strategy
from roles.presets.merged import adam, asynchronous, omnivore, sync
from roles.presets.request import Preset
from roles.presets.shards import fc_servers, local_fc_shards, one_weird_trick
from roles.presets.unmerged import (
    chosen,
    distbelief,
    downpour_servers,
    mxnet_async,
    mxnet_sync,
    parameter_server,
    singa,
)
from roles.presets.whole import dl4j, firecaffe, host_accumulate, replicas, single, sparknet

PRESETS: dict[str, Preset] = {
    "single": Preset(single, part="all", joint=True, grouped=False),
    "sync": Preset(sync),
    "async": Preset(asynchronous, groups=lambda strategy: strategy.workers),
    "omnivore": Preset(omnivore, groups=lambda strategy: strategy.groups),
    "replicas": Preset(replicas, part="all", joint=True, grouped=False),
    "mxnet-sync": Preset(mxnet_sync, part="all", servers=chosen),
    "mxnet-async": Preset(mxnet_async, part="all", groups=lambda strategy: strategy.workers, servers=chosen),
    "singa": Preset(singa, part="all", groups=lambda strategy: strategy.groups, servers=chosen),
    "distbelief": Preset(distbelief, part="all", groups=lambda strategy: strategy.workers, servers=downpour_servers),
    "parameter-server": Preset(parameter_server, part="all"),
    "adam": Preset(adam, groups=lambda strategy: strategy.groups),
    "firecaffe": Preset(firecaffe, part="all", joint=True, grouped=False),
    "host-accumulate": Preset(host_accumulate, part="all", joint=True, grouped=False),
    "sparknet": Preset(sparknet, part="all", joint=True, grouped=False, averages=True),
    "dl4j": Preset(dl4j, part="all", joint=True, grouped=False, averages=True),
    "local-fc-shards": Preset(
        local_fc_shards, groups=lambda strategy: strategy.groups, servers=fc_servers, shards=fc_servers
    ),
    "one-weird-trick": Preset(one_weird_trick, grouped=False, shards=lambda strategy: strategy.workers),
}


def mistakes_of(strategy: Strategy, preset: Preset, kernels: str) -> Iterator[tuple[str, tuple[str, ...]]]:
    """What [train.strategy] asks of a preset that does not go together: the text, and the keys below [train]."""
    name = strategy.preset
    if preset.shards(strategy) and strategy.variable_batch and strategy.scheme == "a":
        text = "found true with scheme 'a', where all rows are one FC batch, expected scheme 'b' or 'c'"
        yield text, ("strategy", "variable_batch")
    if strategy.live and not preset.grouped:
        yield f"found true, but the workers of preset '{name}' cannot be changed while it runs", ("strategy", "live")
    if strategy.pipeline > 1 and not preset.grouped:
        text = f"found {strategy.pipeline}, but preset '{name}' has no groups that could share a process"
        yield text, ("strategy", "pipeline")
    if not strategy.reproducible:
        return
    if preset.averages or preset.layout is adam:
        why = "averages models that learnt apart" if preset.averages else "lets updates race"
        yield f"found true, but preset '{name}' {why}", ("strategy", "reproducible")
    yield from _shards_that_repeat(strategy, preset)
    if strategy.fan_in != 2:
        text = f"found {strategy.fan_in}, but a reproducible run adds up in pairs: expected 2"
        yield text, ("strategy", "fan_in")
    if strategy.shares != "equal":
        yield f"found '{strategy.shares}', but a reproducible run's shares are 'equal'", ("strategy", "shares")
    if kernels != "compiled":
        text = "found 'numpy', but a reproducible run needs 'compiled': BLAS adds up as its threads share"
        yield text, ("kernels",)


def _shards_that_repeat(strategy: Strategy, preset: Preset) -> Iterator[tuple[str, tuple[str, ...]]]:
    """What a reproducible run cannot cut into its parts of units and of rows."""
    shards = preset.shards(strategy)
    if not shards:
        return
    if MICRO_BATCHES % shards and strategy.servers:
        text = f"found {shards}, but a reproducible run's FC phase is on 1, 2, 4 or {MICRO_BATCHES} servers"
        yield text, ("strategy", "servers")
    if strategy.variable_batch:
        text = "found true, but a reproducible run adds up the gradients of all rows before it updates"
        yield text, ("strategy", "variable_batch")
    if strategy.scheme == "c" and strategy.workers > 2:
        text = f"found {strategy.workers}: of so many, scheme 'c' takes parts of a reproducible run's micro-batches"
        yield text, ("strategy", "workers")
