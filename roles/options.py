"""What cluster.toml may say about training: the [train] section. Only `up` imports this: pydantic
is slow to import."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import AfterValidator, Field, create_model

from roles import registry
from roles.formats.format import FORMATS, Number, Option
from runtime.config.file import Section
from runtime.config.problems import Expected
from runtime.config.sections import Count, Text

Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Amount = Annotated[float, Field(ge=0, le=10, allow_inf_nan=False)]
Fraction = Annotated[float, Field(ge=0, lt=1), Expected("a number >= 0 and < 1")]


# the tuner chooses it while the run goes on (roles.tuning); a preset before it starts
# (roles.choosing)
AUTO = "auto"

# where a topology is laid out the planner has replaced what is "auto" by what the run begins with
if TYPE_CHECKING:
    Batch = int
    Groups = int
    Rate = float
    Momentum = float
else:
    Batch = Annotated[Count | Literal[AUTO], Expected("an integer >= 1, or 'auto'")]
    Groups = Annotated[Count | Literal[AUTO], Expected("an integer >= 1, or 'auto'")]
    Rate = Annotated[Positive | Literal[AUTO], Expected("a finite number > 0, or 'auto'")]
    Momentum = Annotated[Fraction | Literal[AUTO], Expected("a number >= 0 and < 1, or 'auto'")]

DEVICE = r"^(cpu|cuda:[0-9]{1,3}|emulated(:.+)?)$"
DEVICES = "'cpu', 'cuda:N', 'emulated' or 'emulated:PROFILE.json'"
Device = Annotated[str, Field(pattern=DEVICE), Expected(DEVICES)]


if TYPE_CHECKING:
    GradientFormat = str
else:
    GradientFormat = Literal[tuple(FORMATS)]


class GradientLinks(Section):
    """[train.gradients]: how gradients travel. `format` is that of every link but those in `links`,
    a table of "SENDER -> RECEIVER", names or patterns of actors; the first that fits counts. Beside
    them stand the options of formats."""

    format: GradientFormat = "float32"
    links: dict[str, GradientFormat] = Field(default={})

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


MICRO_BATCHES = 8  # of a reproducible run: the largest number of workers in a group


def _preset(name: str) -> str:
    return registry.PRESETS.judged(name, AUTO)


class Strategy(Section):
    """[train.strategy]: the preset and its shape. `preset` "auto": before the run starts, the
    fastest preset that computes what `single` does takes its place (roles.choosing).

    `groups` is omnivore's, singa's and adam's: sync has one, async one per worker; "auto": the run
    begins with one, and the tuner chooses. `servers` share the layers where the FC phase is not
    merged (1 by default, 2 for distbelief). With `shares` "throughput" a group's batch is cut in
    proportion to what its members were seen to compute per second. `live`: groups and workers can
    be changed while it runs. `reproducible`: the same bits with 1, 2, 4 or 8 workers in a group.
    `pipeline`: so many conv workers, of as many groups, share each process. `fan_in` is that of the
    trees, `tau` how many iterations sparknet's and dl4j's workers learn by themselves.

    local-fc-shards shares out the FC phase over `servers` (2 by default). Where that is done,
    `scheme` says of which rows FC batches are made: "a" all at once, "b" one worker's after the
    other's, "c" a part of everyone's at a time; with `variable_batch` each of them is an update.

    Where workers hold replicas, `exchange` says how these add up, if not as the preset has it, and
    `between` which way sums take from host to host; "auto": what is predicted to be the fastest.
    That is by halves, or where the hosts are not 2, 4, 8, ..., large ones round a ring and small
    ones along a tree. `options` are those of a preset that another package brings."""

    preset: Annotated[str, AfterValidator(_preset)] = "omnivore"
    workers: Count = 2
    groups: Groups = 1
    servers: Count | None = None
    fan_in: Annotated[int, Field(ge=2)] = 2
    tau: Count = 10
    shares: Literal["equal", "throughput"] = "equal"
    live: bool = False
    reproducible: bool = False
    pipeline: Count = 1
    scheme: Literal["a", "b", "c"] = "a"
    variable_batch: bool = False
    exchange: Annotated[str, AfterValidator(registry.EXCHANGES.judged)] | None = None
    between: Literal["auto", "tree", "ring", "halving"] = "auto"
    options: dict[str, Any] = Field(default={})

    @property
    def cutting(self) -> dict[str, Any]:
        """How batches are cut among the members of a group (`shares.Shares`)."""
        return {
            "in_proportion": self.shares == "throughput",
            "micro_batches": MICRO_BATCHES if self.reproducible else 0,
        }


class Tuning(Section):
    """[train.tuning]: how the tuner searches what is "auto". All its probes together take at most
    `budget` of the seconds of the training. A probe has `probe_iterations` (10 to 50, as the budget
    allows), an epoch between two searches `epoch_iterations` (as many as pay for the next).
    `momenta` are tried, and the solver's base_lr times `rates`, and the net's batch times
    `batches`. `start` is the tuning.json of another run, whose choice this one begins with. With
    `momentum_by = "closed-loop"` momentum follows what is measured while the run goes on, without
    epochs."""

    budget: Annotated[float, Field(gt=0, le=0.5)] = 0.1
    probe_iterations: Annotated[int, Field(ge=10)] | None = None
    epoch_iterations: Count | None = None
    momenta: Annotated[list[Fraction], Field(min_length=1)] = Field(default=[0.0, 0.3, 0.6, 0.9])
    rates: Annotated[list[Positive], Field(min_length=1)] = Field(default=[0.01, 0.1, 1.0, 10.0])
    batches: Annotated[list[Count], Field(min_length=1)] = Field(default=[1, 2, 4])
    start: Text | None = None
    momentum_by: Literal["probes", "closed-loop"] = "probes"


class Augment(Section):
    """[train.data.augment]: what is done to training images besides crops and mirrors, by chance;
    nothing by default. `brightness`, `contrast` and `saturation` are changed by factors up to so
    much above and below 1; `lighting` is the standard deviation of AlexNet's noise along the
    principal components of colours. With `scale`, the least and the largest share of an image's
    area, a part of that size and of a `ratio` of width to height in these bounds is cut out and
    resized."""

    brightness: Amount = 0.0
    contrast: Amount = 0.0
    saturation: Amount = 0.0
    lighting: Amount = 0.0
    scale: Annotated[list[Positive], Field(min_length=2, max_length=2)] | None = None
    ratio: Annotated[list[Positive], Field(min_length=2, max_length=2)] = Field(
        default=[0.75, 4 / 3]
    )


class Data(Section):
    """[train.data]: where images come from. `train` and `test` are tables with a `format` and that
    format's keys. `test` may be a list of them, one for each test net of the solver. Without
    `shuffle`, a folder with a folder per class is shuffled, and nothing else is. `classes` are the
    names of the classes in the order of their labels, or a file with a name a line; `order` is that
    of the planes of images; both where the format does not know them."""

    train: dict[str, Any] = Field(default={"format": "digits", "split": "train"})
    test: dict[str, Any] | list[dict[str, Any]] | None = None
    shuffle: bool | None = None
    classes: Text | Annotated[list[Text], Field(min_length=1)] | None = None
    order: Literal["bgr", "rgb"] | None = None
    augment: Augment = Augment()


class Stop(Section):
    """[train.stop]: training ends after `patience` tests in a row none of which was better in the
    score `by` than the best before them, by more than `min_delta`."""

    by: Text = "accuracy"
    patience: Count
    min_delta: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.0


class Train(Section):
    """[train]. `net` and `solver` are zoo names or paths of prototxt files, relative to
    cluster.toml. Without `net` a solver's own nets are trained and tested, without `seed` its
    random_seed counts, without `weights` its own.

    `max_iter`, `base_lr`, `momentum` and `batch` override what the files say; `batch` is that of
    one group. The last three may be "auto": the run begins with what the files say, and the tuner
    chooses (`tuning`). `resume` is a checkpoint to go on from; `weights` are first parameters
    (.caffemodel, .h5, .safetensors), matched by layer names. `devices` says where actors compute,
    by name or pattern: { "conv-*" = "cuda:0" }; the first that fits counts, all others are on the
    CPU; "emulated" ones compute nothing and take the time of a profile. `kernels` "numpy" computes
    with plain NumPy, the reference; `precision` lets "compiled" ones use Winograd's larger tiles
    ("fast", errors up to 1e-4) or not ("exact", 1e-5). With "tf32" and "bf16" GPUs multiply rounded
    numbers, and the CPU is "fast". With "double" every number is a float64 and NumPy computes,
    whatever `kernels` says: slow, to see whether two strategies compute the same. With `b_p`,
    convolutions are done by lowering, b_p images at a time, and matrix products (Omnivore's
    trade-off). `cudnn`: GPUs take cuDNN's convolutions where these are right and faster
    ("fastest"), wherever they are right ("deterministic": nothing is timed, so that every run
    chooses alike), or never.
    """

    net: Text = "lenet"
    solver: Text = "lenet_digits_solver"
    seed: Annotated[int, Field(ge=0, lt=2**63)] = 1
    devices: dict[str, Device] = Field(default={})
    kernels: Literal["compiled", "numpy"] = "compiled"
    precision: Literal["exact", "fast", "double", "tf32", "bf16"] = "fast"
    b_p: Count | None = None
    cudnn: Literal["fastest", "deterministic", "off"] = "fastest"
    max_iter: Count | None = None
    base_lr: Rate | None = None
    momentum: Momentum | None = None
    batch: Batch | None = None
    resume: Text | None = None
    weights: Text | None = None
    data: Data = Data(test={"format": "digits", "split": "test"})
    strategy: Strategy = Strategy()
    tuning: Tuning = Tuning()
    stop: Stop | None = None
    gradients: Gradients = Gradients()


class Checkpoint(Section):
    """[checkpoint]: beside those that the solver's `snapshot` asks for, one at least every so many
    `seconds` (0: none), of which the last `keep` stay. On virtual time there are none: nothing is
    lost that takes long to compute again. `best` is a score of the tests: the model that was the
    best by it is kept beside them."""

    seconds: Annotated[
        float, Field(ge=0, allow_inf_nan=False), Expected("seconds >= 0, 0: never")
    ] = 300.0
    keep: Count = 3
    best: Text | None = None


class Options(Section):
    """The built-in program's part of cluster.toml."""

    train: Train = Train()
    checkpoint: Checkpoint = Checkpoint()
