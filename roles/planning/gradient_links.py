"""The format of the gradients on each link: from the section [train.gradients] to the options of
the actors.

The formats themselves: `roles.formats`.
"""

from __future__ import annotations

import dataclasses
import fnmatch
from collections import defaultdict
from collections.abc import Iterator

from roles.base.role import GradientOptions, RecoveryOptions, Wires
from roles.coordination.regroup import FIXED
from roles.formats.format import FORMATS
from roles.learning.job import Job
from roles.learning.wire_formats import Layers, WireFormat
from roles.options import Gradients
from roles.planning.refusals import Problem
from runtime.plan.topology import ActorSpec, Link, Topology

ARROW = "->"


def gradient_links(topology: Topology) -> list[Link]:
    """(sender, receiver) of every link on which gradients travel, in the order of the senders."""
    return [
        (actor.name, parent)
        for actor in topology.actors
        if isinstance(actor.options, GradientOptions)
        for parent in actor.options.parents()
    ]


def formats_of(links: list[Link], gradients: Gradients) -> dict[Link, str]:
    """The format of each link: that of the first pattern that fits it, else the common one."""
    found: dict[Link, str] = {}
    for link in links:
        fitting = (name for pattern, name in gradients.links.items() if _fits(link, pattern))
        found[link] = next(fitting, gradients.format)
    return found


def mistakes(links: list[Link], gradients: Gradients, preset: str) -> Iterator[Problem]:
    """Find entries of the section for links that do not exist, and options that no format uses."""
    used = {
        key
        for name in (gradients.format, *gradients.links.values())
        for key in FORMATS[name].options
    }
    for key, value in gradients.of_formats.items():
        if key not in used and value != type(gradients).model_fields[key].default:
            yield f"found {value}, but no gradients travel in a format with this option", (key,)
    if not links:
        unused: list[tuple[str, tuple[str, ...]]] = [
            (name, ("links", link)) for link, name in gradients.links.items()
        ]
        if gradients.format != "float32":
            unused.insert(0, (gradients.format, ("format",)))
        for name, keys in unused:
            yield (
                (
                    f"found '{name}', but with preset '{preset}' no gradients have a format of "
                    "their own"
                ),
                keys,
            )
        return
    for pattern in gradients.links:
        if ARROW not in pattern:
            yield (
                ("expected a link as 'SENDER -> RECEIVER', such as 'conv-* -> reducer-*'"),
                ("links", pattern),
            )
        elif not any(_fits(link, pattern) for link in links):
            listed = ", ".join(f"{sender} {ARROW} {receiver}" for sender, receiver in links)
            yield f"fits no link with gradients; these links are {listed}", ("links", pattern)


def with_formats(topology: Topology, gradients: Gradients, layers: Layers, job: Job) -> Topology:
    """Give each sender the formats of its gradients, and each reducer the formats to expect and the
    kernels to use.

    "float32" stands for numbers as they are, in the job's dtype.
    """
    formats = formats_of(gradient_links(topology), gradients)
    wires = {
        link: WireFormat(job.dtype.name if said == "float32" else said, gradients.of_formats)
        for link, said in formats.items()
    }

    coded = {name for link, said in formats.items() if said != "float32" for name in link}
    parents: defaultdict[str, dict[str, WireFormat]] = defaultdict(dict)
    for (sender, parent), wire in wires.items():
        parents[sender][parent] = wire

    def told(actor: ActorSpec) -> ActorSpec:
        if actor.name not in parents:
            return actor
        said = Wires(parents[actor.name], layers, job.kernels if actor.name in coded else "numpy")
        return dataclasses.replace(actor, options=actor.options.with_wires(said))

    lossy = {sender for (sender, _), said in formats.items() if FORMATS[said].keeps}
    return _with_keepers(
        dataclasses.replace(topology, actors=tuple(told(actor) for actor in topology.actors)),
        lossy | (_workers(topology) if job.recurrent() else set()),
    )


def _workers(topology: Topology) -> set[str]:
    """The workers that the lead has, or may have after a change of the groups."""
    options = next(actor.options for actor in topology.actors if actor.name == topology.lead)
    groups = getattr(options, "groups", ())
    live = getattr(options, "live", FIXED).workers
    return {*live, *(name for members in groups for name in members)}


def _with_keepers(topology: Topology, keeping: set[str]) -> Topology:
    """Name to the lead the actors that keep state in addition to the model, and link the lead to
    them.

    `keeping`: senders whose format leaves out a part of a gradient, which they keep, and workers
    with the states of recurrent layers.
    """
    names = [
        actor.name
        for actor in topology.actors
        if actor.name in keeping
        or (isinstance(actor.options, RecoveryOptions) and actor.options.keeps_beside)
    ]
    lead = topology.lead
    actors = tuple(
        dataclasses.replace(actor, options=dataclasses.replace(actor.options, keepers=tuple(names)))
        if actor.name == lead and names and hasattr(actor.options, "keepers")
        else actor
        for actor in topology.actors
    )
    links = {*topology.links}
    more = [(lead, name) for name in names if not {(lead, name), (name, lead)} & links]
    return dataclasses.replace(topology, actors=actors, links=(*topology.links, *more))


def _fits(link: Link, pattern: str) -> bool:
    sender, arrow, receiver = pattern.partition(ARROW)
    ends = zip(link, (sender.strip(), receiver.strip()), strict=True)
    return bool(arrow) and all(fnmatch.fnmatchcase(name, wanted) for name, wanted in ends)
