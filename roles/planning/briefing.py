"""The briefing of the actors with tests, checkpoints, wire formats and devices: it completes the
options of a laid-out topology."""

from __future__ import annotations

from nets import Net
from nets.data.sources.class_folders import alike, repeated
from roles.base.shapes import Shapes
from roles.checkpoints.checkpoint_timing import lead_told, with_timing
from roles.checkpoints.finished import finished
from roles.checkpoints.watching import CLASSES, other_classes, told_to_lead
from roles.forecasting.regrouped import at_largest
from roles.messages import TRAIN
from roles.planning.devices import Devices, by_machine, default_products
from roles.planning.diagnostics import Diagnostics
from roles.planning.followers import followers_on_gpus, with_device_links
from roles.planning.gradient_links import gradient_links, mistakes, with_formats
from roles.planning.histograms import with_histograms
from roles.planning.job_checks import CheckedJob
from roles.planning.largest import largest_array
from roles.planning.plan_inputs import PlanInputs
from roles.planning.recurrent_nets import batches_of_sequence
from roles.planning.replays import plain_steps
from roles.planning.timed_passes import with_timed_passes
from runtime.config.sections import ClusterConfig
from runtime.errors import ConfigError
from runtime.plan.topology import Topology


def brief(
    topology: Topology, inputs: PlanInputs, checked: CheckedJob, diagnostics: Diagnostics
) -> Topology:
    """Return the same actors with complete options. Raises ConfigError with every mistake that was
    noted."""
    topology = _lead_briefed(topology, inputs, checked, diagnostics)
    diagnostics.stop_if_wrong()
    _check_messages(topology, inputs.config, checked.nets[TRAIN], diagnostics)
    topology = _with_formats(topology, inputs, checked, diagnostics)
    topology = _on_devices(topology, inputs, checked, diagnostics)
    topology = with_histograms(topology, inputs.config.run.histograms)
    return with_timing(topology, inputs.checkpoint, inputs.config)


def _lead_briefed(
    topology: Topology, inputs: PlanInputs, checked: CheckedJob, diagnostics: Diagnostics
) -> Topology:
    """Give the lead the settings of tests, and the facts on tests that checkpoints record."""
    told, wrong = told_to_lead(
        inputs.train, inputs.checkpoint, inputs.base, checked.job, checked.sources, checked.nets
    )
    for text, keys in wrong:
        diagnostics.problem(text, *keys)
    diagnostics.stop_if_wrong()
    classes = told["seen"].classes
    if text := other_classes(checked.job.resume, classes):
        diagnostics.warn(text, "train", "resume")
    named = inputs.train.data.classes
    for text in alike(classes) if named else ():
        diagnostics.warn(f"{text}: rename them if they are one class", *CLASSES)
    # two of ImageNet's classes have the name crane
    for text in repeated(classes) if isinstance(named, str) else ():
        diagnostics.warn(text, *CLASSES)
    topology = lead_told(
        topology, **told, sequence=batches_of_sequence(checked.nets[TRAIN], checked.sources[TRAIN])
    )
    if (over := finished(topology)) is not None:
        diagnostics.warn(over[0], "train", "resume")
    return topology


def _check_messages(
    topology: Topology, config: ClusterConfig, whole: Net, diagnostics: Diagnostics
) -> None:
    """Raise ConfigError if a message may be larger than the links allow, or if a batch that the
    tuner may try is too large for an array."""
    size, what = 0, ""
    with diagnostics.reading("train", "tuning", "batches"):
        size, what = largest_array(Shapes(at_largest(topology)), whole)
    diagnostics.stop_if_wrong()
    if size > (most := config.links.max_message_bytes):
        text = f"found {most}, but {what} has {size} bytes and is sent as one message"
        raise ConfigError([config.raw.problem(("links", "max_message_bytes"), text).text])


def _with_formats(
    topology: Topology, inputs: PlanInputs, checked: CheckedJob, diagnostics: Diagnostics
) -> Topology:
    """Give each sender of gradients the format for each receiver."""
    train = inputs.train
    for text, keys in mistakes(gradient_links(topology), train.gradients, train.strategy.preset):
        diagnostics.problem(text, "train", "gradients", *keys)
    diagnostics.stop_if_wrong()
    return with_formats(topology, train.gradients, checked.layers, checked.job)


def _on_devices(
    topology: Topology, inputs: PlanInputs, checked: CheckedJob, diagnostics: Diagnostics
) -> Topology:
    """Give each actor that computes its device."""
    patterns = by_machine(inputs.train.devices, topology, inputs.config, diagnostics)
    devices = Devices(patterns, checked.sources, inputs.config.simulation.seed, inputs.base)
    for text, keys in devices.mistakes(topology, inputs.train):
        diagnostics.problem(text, "train", *keys)
    diagnostics.stop_if_wrong()
    placed = followers_on_gpus(devices.placed(topology), inputs.config)
    placed = with_timed_passes(with_device_links(placed, inputs.config))
    for text in plain_steps(placed):
        diagnostics.warn(text, "train", "gpu_step")
    for text in default_products(placed):
        diagnostics.fact(text, "train", "precision")
    return placed
