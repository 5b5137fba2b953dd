"""The presets by name. A strategy is data: which actors, which links; the roles do not know it."""

from __future__ import annotations

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
    "single": Preset(single, part="all", joint=True),
    "sync": Preset(sync),
    "async": Preset(asynchronous, groups=lambda strategy: strategy.workers),
    "omnivore": Preset(omnivore, groups=lambda strategy: strategy.groups),
    "replicas": Preset(replicas, part="all", joint=True),
    "mxnet-sync": Preset(mxnet_sync, part="all", servers=chosen),
    "mxnet-async": Preset(mxnet_async, part="all", groups=lambda strategy: strategy.workers, servers=chosen),
    "singa": Preset(singa, part="all", groups=lambda strategy: strategy.groups, servers=chosen),
    "distbelief": Preset(distbelief, part="all", groups=lambda strategy: strategy.workers, servers=downpour_servers),
    "parameter-server": Preset(parameter_server, part="all"),
    "adam": Preset(adam, groups=lambda strategy: strategy.groups),
    "firecaffe": Preset(firecaffe, part="all", joint=True),
    "host-accumulate": Preset(host_accumulate, part="all", joint=True),
    "sparknet": Preset(sparknet, part="all", joint=True, averages=True),
    "dl4j": Preset(dl4j, part="all", joint=True, averages=True),
    "local-fc-shards": Preset(
        local_fc_shards, groups=lambda strategy: strategy.groups, servers=fc_servers, shards=fc_servers
    ),
    "one-weird-trick": Preset(one_weird_trick, shards=lambda strategy: strategy.workers),
}
