"""The sections of cluster.toml about training: [train] and [checkpoint], with all their keys. Only
`up` imports this module, since pydantic is slow to import."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

from pydantic import AfterValidator, Field, PrivateAttr, create_model, model_validator

from roles import registry
from roles.data_options import Data
from roles.formats.format import FORMATS, Number, Option
from roles.graph_options import Onnx
from roles.number_types import (
    BelowOne,
    Epochs,
    Fraction,
    Iterations,
    Part,
    Positive,
    Single,
)
from roles.other_names import TRAIN
from roles.recipes import RECIPES, with_recipe
from roles.solver_options import Ema, Optimizer, Schedule
from runtime.config.file import Section
from runtime.config.problems import Expected
from runtime.config.sections import Count, Text
from runtime.config.value_types import Positive as AboveZero

# the tuner chooses settings while the run goes on (roles.tuning); the preset is chosen before the
# run starts (roles.choosing), with the groups that it may have
AUTO = "auto"
SOLVER = "solver"  # momentum as the solver has it, whatever the number of groups


def is_auto(value: object) -> bool:
    """True if a setting is open."""
    return value == AUTO


# before a topology is laid out, the planner replaces "auto" by the value that the run begins with
if TYPE_CHECKING:
    Batch = int
    Groups = int
    Rate = float
    Momentum = float | Literal["auto", "solver"]
else:
    Batch = Annotated[Count | Literal[AUTO], Expected("an integer >= 1, or 'auto'")]
    Groups = Annotated[Count | Literal[AUTO], Expected("an integer >= 1, or 'auto'")]
    # the validators of a union stand outside: inside, each member would report the value
    Rate = Annotated[AboveZero | Literal[AUTO], Single, Expected("a finite number > 0, or 'auto'")]
    Momentum = Annotated[
        Part | Literal[AUTO, SOLVER],
        BelowOne,
        Expected("a number >= 0 and < 1, 'auto' or 'solver'"),
    ]

DEVICE = r"^(cpu|cuda:[0-9]{1,3}|emulated(:.+)?)$"
DEVICES = "'cpu', 'cuda:N', 'emulated' or 'emulated:PROFILE.json'"
Device = Annotated[str, Field(pattern=DEVICE), Expected(DEVICES)]

SCHEME = r"^(a|b|c([2-9]|[1-9][0-9]{1,3})?)$"
SCHEMES = "'a', 'b', 'c', or 'c' with a number of workers from 2, such as 'c4'"
Scheme = Annotated[str, Field(pattern=SCHEME), Expected(SCHEMES)]


if TYPE_CHECKING:
    GradientFormat = str
else:
    GradientFormat = Literal[tuple(FORMATS)]


class GradientLinks(Section):
    """[train.gradients]: the wire formats of gradients. The options of formats are keys here,
    too."""

    format: GradientFormat = "float32"
    """The wire format of gradients; see the table of formats below."""
    links: dict[str, GradientFormat] = Field(default={})
    """Other formats for some links, by names or patterns of actors. The first pattern that fits
    counts: `{ "conv-* -> reducer-*" = "one-bit" }`."""

    @property
    def of_formats(self) -> dict[str, Number]:
        """The options of formats."""
        return {key: getattr(self, key) for key in _format_options()}


def _format_options() -> dict[str, Option]:
    return {key: option for kind in FORMATS.values() for key, option in kind.options.items()}


def _field(option: Option) -> Any:
    limits = Field(ge=option.least, le=option.most, multiple_of=option.multiple_of)
    return Annotated[type(option.default), limits, Expected(option.expected)], option.default


if TYPE_CHECKING:
    Gradients = GradientLinks
else:
    _fields = {key: _field(option) for key, option in _format_options().items()}
    Gradients = create_model("Gradients", __base__=GradientLinks, **_fields)


MICRO_BATCHES = 8  # in a reproducible run: also the largest number of workers in a group


def _preset(name: str) -> str:
    return registry.PRESETS.judged(name, AUTO)


class Strategy(Section):
    """[train.strategy]: the preset and its shape."""

    preset: Annotated[str, AfterValidator(_preset)] = "omnivore"
    """One of the systems in docs/strategies.md, or of an installed package. `"auto"`: `up` finds
    out which preset that computes the same as `single` is the fastest (docs/tuning.md); with groups
    `"auto"` too, each preset is compared with the groups that make it fastest."""
    workers: Count = 2
    """The number of workers."""
    groups: Groups = 1
    """The number of groups of workers (`omnivore`, `singa`, `adam`, `local-fc-shards`). Their sizes
    differ by at most one worker, or follow the speeds of machines of different kinds
    (docs/cluster.md). `"auto"`: the tuner chooses (docs/tuning.md), also with preset `"auto"`; if
    the chosen preset has no such choice, its one number counts."""
    servers: Count | None = None
    """Default: by preset. The number of model servers of an unmerged preset, or of FC servers of
    `local-fc-shards`."""
    fan_in: Annotated[int, Field(ge=2)] = 2
    """Children of a reducer, of the model server at the end of a single group's tree, or of a node
    of firecaffe's tree."""
    tau: Count = 10
    """Iterations between two averages of parameters in `sparknet` and `dl4j`."""
    shares: Literal["equal", "throughput"] | None = None
    """Default: `"throughput"` if the kinds of the workers' machines, or of a GPU and the processors
    next to it, have different speeds, or else `"equal"`. `"throughput"`: a group's batch is cut in
    proportion to the rows per second that its members have computed so far, at first to the speeds
    of their machines' kinds."""
    live: bool = False
    """Workers and groups can be changed while the run goes on. Reducers and links for any grouping
    are started."""
    reproducible: bool = False
    """The same bits in every preset that computes the same as one process, with 1, 2, 4 or 8
    workers; see below."""
    pipeline: Count = 1
    """The number of conv workers, each of another group, that share a process: one computes while
    another waits for the FC phase."""
    scheme: Scheme = "a"
    """How the FC phase makes its batches from rows (One weird trick): `"a"` all rows at once, `"b"`
    one worker's rows after another's, `"c"` a part of every worker's rows at a time, `"c4"` a part
    of the rows of 4 workers at a time, then of the next 4 (a hybrid of b and c; any number from 2
    to the number of workers)."""
    variable_batch: bool = False
    """With every scheme but a, the FC phase is updated after each of its batches."""
    exchange: Annotated[str, AfterValidator(registry.EXCHANGES.judged)] | None = None
    """Default: the preset's. How workers with replicas sum gradients: `collective`, `tree`, `ring`,
    `halving`, `host`, `per-host`, or an exchange of an installed package (docs/strategies.md)."""
    between: Literal["auto", "tree", "ring", "halving"] = "auto"
    """How the sums of `replicas` and `one-weird-trick` travel from host to host: `"tree"`, `"ring"`
    or `"halving"` (2, 4, 8, ... hosts). `"auto"` takes for each sum the way that is predicted to be
    the fastest (docs/cluster.md)."""
    options: dict[str, Any] = Field(default={})
    """Keys of a preset that an installed package adds."""

    @property
    def cutting(self) -> dict[str, Any]:
        """How batches are cut among the members of a group (`batch_split.Shares`)."""
        return {
            "in_proportion": self.shares == "throughput",
            "micro_batches": MICRO_BATCHES if self.reproducible else 0,
        }


class Tuning(Section):
    """[train.tuning]: how the tuner searches for settings that are `"auto"` (docs/tuning.md)."""

    budget: Annotated[float, Field(gt=0, le=0.5)] = 0.1
    """The share of the training's seconds that all probes may take, at most 0.5."""
    probe_iterations: Annotated[int, Field(ge=10)] | None = None
    """Default: 10 to 50, as the budget allows. Iterations of the shortest probes, at least 10."""
    epoch_iterations: Count | None = None
    """Default: as many as pay for the next search. The approximate number of iterations between two
    searches."""
    momenta: Annotated[list[Fraction], Field(min_length=1)] = Field(default=[0.0, 0.3, 0.6, 0.9])
    """The momenta to try."""
    rates: Annotated[list[Positive], Field(min_length=1)] = Field(default=[0.01, 0.1, 1.0, 10.0])
    """The learning rates to try at the cold start, as factors of the solver's base_lr."""
    batches: Annotated[list[Count], Field(min_length=1)] = Field(default=[1, 2, 4])
    """The batches to try, as factors of the net's batch. The batch at the beginning is always
    tried."""
    start: Text | None = None
    """The tuning.json of another run. The tuner begins with the settings that it chose."""
    learnt: list[Text] = Field(default=[])
    """Default: none. With preset and groups `"auto"`: directories of runs. The iterations in which
    they reached `target` show what an iteration with several groups is worth."""
    target: Text | None = None
    """The value that these runs had to reach: `"loss=0.3"` or a score, `"accuracy=0.985"`."""
    momentum_by: Literal["probes", "closed-loop"] = "probes"
    """`"closed-loop"`: momentum follows measurements of the run, without probes
    (docs/tuning.md#momentum-without-probes)."""


class Stop(Section):
    """[train.stop]: training ends early after tests without improvement
    (docs/predict.md#the-best-model-and-ending-early)."""

    by: Text = "accuracy"
    """The score to compare."""
    patience: Count
    """Training ends after so many tests in a row that are no better than the best test before
    them."""
    min_delta: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.0
    """A test is better only if its score is better by more than this."""


class Train(Section):
    """[train]: the net to train, its solver and data, and how and where actors compute."""

    other_names = TRAIN

    net: Text = "lenet"
    """Default: the solver's nets, else `"lenet"`. A name from the zoo, with numbers for a net in
    Python (`"resnet18(classes=10)"`, docs/weights.md), the path of a Caffe net prototxt, or the
    path of a graph of ONNX, `"model.onnx"` (docs/onnx.md)."""
    recipe: Literal["cifar", "airbench94", "imagenet", "finetune"] | None = None
    """Default: none. Values for keys that are not given (docs/optimizers.md#recipes)."""
    solver: Text | None = None
    """Default: the own solver of a net in Python, such as `"resnet18_solver"`, else
    `"lenet_digits_solver"`. A name from the zoo or the path of a Caffe solver prototxt."""
    seed: Annotated[int, Field(ge=0, lt=2**63)] = 1
    """Default: the solver's `random_seed`, else `1`. The seed of first parameters, shuffling,
    mirroring and dropout."""
    devices: dict[str, Device] = Field(default={})
    """Default: all on the CPU. The devices of actors, by name or pattern; the first pattern that
    fits counts: `{ "conv-*" = "cuda:0" }` (docs/gpu.md). `"emulated:PROFILE.json"` computes nothing
    and takes the time of a profile (docs/simulation.md)."""
    kernels: Literal["compiled", "numpy"] = "compiled"
    """The CPU's kernels: `compiled`, or `numpy`, the reference (always for `double`)."""
    precision: Literal["exact", "fast", "double", "tf32", "bf16"] = "fast"
    """How numbers are multiplied: convolutions within 1e-4 (`fast`) or 1e-5 of the largest value,
    in float64, or with rounded factors (docs/configuration.md#precision)."""
    b_p: Count | None = None
    """Convolve by lowering and matrix products, this many images at a time, which the threads share
    (`1`: Caffe's way). On the CPU at best 24 images of CaffeNet a second, where the chosen kernels
    compute 57 (benchmarks/results/lowering-avx2.md)."""
    cudnn: Literal["fastest", "deterministic", "off"] = "fastest"
    """How GPUs choose convolutions: `fastest` takes cuDNN's where they are right and faster than
    lowering; `deterministic` takes them wherever they are right, without timing; `off` never
    (docs/gpu.md#convolutions-by-cudnn)."""
    gpu_step: Literal["plain", "replay", "graph"] = "plain"
    """How a worker starts the kernels of a training step on a GPU: `plain` runs every layer in
    Python; `replay` repeats the starts of a recorded step; `graph` starts them by one call
    (docs/gpu.md#replayed-steps)."""
    max_iter: Iterations | None = None
    """Default: from the solver. The last iteration."""
    epochs: Epochs | None = None
    """Default: the iterations of `max_iter`. The length of the training in passes over the training
    data."""
    test_epochs: Epochs | None = None
    """Default: the solver's `test_interval`. Epochs between two tests."""
    base_lr: Rate | None = None
    """Default: from the solver. The learning rate; may be `"auto"` (docs/tuning.md)."""
    momentum: Momentum | None = None
    """Default: from the solver, lowered where asynchronous groups act like momentum
    (docs/strategies.md#asynchrony-and-momentum). `"solver"`: the solver's, never lowered. May be
    `"auto"`."""
    batch: Batch | None = None
    """Default: from the net. The batch of one group; may be `"auto"`. A graph of ONNX whose number
    of rows is open or 1 needs it."""
    resume: Text | None = None
    """A checkpoint to resume; `up --resume` finds it by itself."""
    weights: Text | Annotated[list[Text], Field(min_length=1)] | None = None
    """Default: the solver's `weights`, or those of a graph of ONNX. First parameters from a
    `.caffemodel`, `.h5`, `.safetensors`, `.pth` or `.onnx` file, or from a run directory
    (docs/predict.md), matched by layer names, or by the names of torch's modules
    (docs/weights.md). Several files are a list, or one text with commas;
    for a layer in several files the last one counts."""
    fresh: list[Text] = Field(default=[])
    """Names or patterns of layers that take nothing from `weights`, such as the last layer of a net
    for other classes: `["fc8"]` (docs/finetune.md)."""
    freeze: list[Text] = Field(default=[])
    """Names or patterns of layers that stay as `weights` or `resume` have them, running statistics
    included: `["conv*"]` (docs/finetune.md)."""
    lr_scale: dict[Text, Positive] = Field(default={})
    """Factors of the learning rate, by names or patterns of layers; the first pattern that fits
    counts: `{ "conv*" = 0.1 }`."""
    data: Data = Data(test={"format": "digits", "split": "test"})
    strategy: Strategy = Strategy()
    tuning: Tuning = Tuning()
    optimizer: Optimizer | None = None
    schedule: Schedule | None = None
    ema: Ema | None = None
    onnx: Onnx | None = None
    stop: Stop | None = None
    gradients: Gradients = Gradients()

    _by_recipe: dict[str, Any] = PrivateAttr(default_factory=dict)

    @model_validator(mode="wrap")
    @classmethod
    def _completed(cls, given: Any, validate: Callable[[Any], Self]) -> Self:
        """Complete the values that are given by those of the recipe."""
        name = given.get("recipe") if isinstance(given, dict) else None
        if not isinstance(name, str) or name not in RECIPES:
            return validate(given)
        default = {"data": cls.model_fields["data"].default.model_dump(exclude_unset=True)}
        values, told = with_recipe(name, default | given)
        found = validate(values)
        found._by_recipe = told
        return found

    @property
    def by_recipe(self) -> dict[str, Any]:
        """The values that the recipe set, by their dotted keys below [train]."""
        return self._by_recipe

    @property
    def set_momentum(self) -> float | None:
        """The momentum that this section sets; None: the solver's counts."""
        return None if isinstance(self.momentum, str) else self.momentum


class Checkpoint(Section):
    """[checkpoint]: checkpoints in addition to those of the solver's `snapshot`. A run on virtual
    time saves none by time."""

    seconds: Annotated[
        float, Field(ge=0, allow_inf_nan=False), Expected("seconds >= 0, 0: never")
    ] = 300.0
    """Seconds between two checkpoints, more if checkpoints hold up the training; `0`: only the
    solver's; see "Checkpoints" below."""
    keep: Count = 3
    """The number of checkpoints due by time that are kept."""
    epochs: Epochs | None = None
    """Default: the solver's `snapshot`. Epochs between two checkpoints that are never removed."""
    best: Text | None = None
    """A score of the tests. The model with the best score is kept as `best.safetensors`
    (docs/predict.md#the-best-model-and-ending-early)."""


class Options(Section):
    """The sections of cluster.toml that belong to the built-in program."""

    train: Train = Train()
    checkpoint: Checkpoint = Checkpoint()
