"""The presets by name. A strategy is data: which actors, which links; the roles do not know it."""

from __future__ import annotations

from roles.presets.merged import asynchronous, omnivore, sync
from roles.presets.request import Preset
from roles.presets.whole import dl4j, firecaffe, host_accumulate, replicas, single, sparknet

PRESETS: dict[str, Preset] = {
    "single": Preset(single, part="all", joint=True),
    "sync": Preset(sync),
    "async": Preset(asynchronous, groups=lambda strategy: strategy.workers),
    "omnivore": Preset(omnivore, groups=lambda strategy: strategy.groups),
    "replicas": Preset(replicas, part="all", joint=True),
    "firecaffe": Preset(firecaffe, part="all", joint=True),
    "host-accumulate": Preset(host_accumulate, part="all", joint=True),
    "sparknet": Preset(sparknet, part="all", joint=True, averages=True),
    "dl4j": Preset(dl4j, part="all", joint=True, averages=True),
}
