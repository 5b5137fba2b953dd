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
    """[train.gradients]: how gradients travel. The options of formats stand here, too."""

    format: GradientFormat = "float32"
    """The wire format of gradients, see the table of formats below."""
    links: dict[str, GradientFormat] = Field(default={})
    """Other formats for some links, by names or patterns of actors; the first that fits counts: `{
    "conv-* -> reducer-*" = "one-bit" }`."""

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
    """[train.strategy]: the preset and its shape."""

    preset: Annotated[str, AfterValidator(_preset)] = "omnivore"
    """One of the systems in docs/strategies.md, or of an installed package; `"auto"`: `up` finds
    out which of those that compute what `single` does is the fastest (docs/tuning.md)."""
    workers: Count = 2
    """The number of workers."""
    groups: Groups = 1
    """Groups (`omnivore`, `singa`, `adam`, `local-fc-shards`); sizes differ by one where they must;
    `"auto"`: the tuner chooses (docs/tuning.md)."""
    servers: Count | None = None
    """Default: by preset. Model servers of an unmerged preset, FC servers of `local-fc-shards`."""
    fan_in: Annotated[int, Field(ge=2)] = 2
    """Children of a reducer, of the model server at the end of a single group's tree, or of a node
    of firecaffe's tree."""
    tau: Count = 10
    """Iterations that `sparknet` and `dl4j` learn apart."""
    shares: Literal["equal", "throughput"] = "equal"
    """`"throughput"`: a group's batch is cut in proportion to the rows per second that its members
    were seen to compute."""
    live: bool = False
    """Workers and groups can be changed while the run goes on: reducers and links for any grouping
    are started."""
    reproducible: bool = False
    """The same bits in every preset that computes what one process does, with 1, 2, 4 or 8 workers,
    see below."""
    pipeline: Count = 1
    """So many conv workers, of as many groups, share each process: one computes while the other
    waits for the FC phase."""
    scheme: Literal["a", "b", "c"] = "a"
    """Of which rows the FC phase makes its batches (One weird trick): `"a"` all at once, `"b"` one
    worker's after the other's, `"c"` a part of everyone's at a time."""
    variable_batch: bool = False
    """With scheme b or c the FC phase is updated after each of the parts."""
    exchange: Annotated[str, AfterValidator(registry.EXCHANGES.judged)] | None = None
    """Default: the preset's. How workers with replicas add up: `collective`, `tree`, `ring`,
    `halving`, `host`, `per-host`, or one of an installed package (docs/strategies.md)."""
    between: Literal["auto", "tree", "ring", "halving"] = "auto"
    """How the sums of `replicas` and `one-weird-trick` travel from host to host: `"tree"`,
    `"ring"`, `"halving"` (2, 4, 8, ... hosts), or for each the one that is predicted to be the
    fastest (docs/cluster.md)."""
    options: dict[str, Any] = Field(default={})
    """Keys of a preset that an installed package brings."""

    @property
    def cutting(self) -> dict[str, Any]:
        """How batches are cut among the members of a group (`shares.Shares`)."""
        return {
            "in_proportion": self.shares == "throughput",
            "micro_batches": MICRO_BATCHES if self.reproducible else 0,
        }


class Tuning(Section):
    """[train.tuning]: how the tuner searches what is `"auto"` (docs/tuning.md)."""

    budget: Annotated[float, Field(gt=0, le=0.5)] = 0.1
    """The share of the training's seconds that all probes may take, at most 0.5."""
    probe_iterations: Annotated[int, Field(ge=10)] | None = None
    """Default: 10 to 50, as the budget allows. Iterations of the shortest probes, at least 10."""
    epoch_iterations: Count | None = None
    """Default: as many as pay for the next search. About so many iterations between two
    searches."""
    momenta: Annotated[list[Fraction], Field(min_length=1)] = Field(default=[0.0, 0.3, 0.6, 0.9])
    """What is tried as momentum."""
    rates: Annotated[list[Positive], Field(min_length=1)] = Field(default=[0.01, 0.1, 1.0, 10.0])
    """What is tried at the cold start, times the solver's base_lr."""
    batches: Annotated[list[Count], Field(min_length=1)] = Field(default=[1, 2, 4])
    """What is tried as batch, times the net's; the batch of the beginning always is."""
    start: Text | None = None
    """The tuning.json of another run, whose choice this one begins with."""
    momentum_by: Literal["probes", "closed-loop"] = "probes"
    """`"closed-loop"`: momentum follows what is measured, without probes
    (docs/tuning.md#momentum-without-probes)."""


class Augment(Section):
    """[train.data.augment]: changes of training images by chance, besides crops and mirrors
    (docs/data.md#augmentation)."""

    brightness: Amount = 0.0
    """Brightness changes by factors up to so much above and below 1."""
    contrast: Amount = 0.0
    """Contrast, likewise."""
    saturation: Amount = 0.0
    """Saturation, likewise."""
    lighting: Amount = 0.0
    """The standard deviation of AlexNet's noise along the principal components of colours."""
    scale: Annotated[list[Positive], Field(min_length=2, max_length=2)] | None = None
    """The least and the largest share of an image's area that is cut out and resized."""
    ratio: Annotated[list[Positive], Field(min_length=2, max_length=2)] = Field(
        default=[0.75, 4 / 3]
    )
    """The least and the largest ratio of width to height of what is cut out."""


class Data(Section):
    """[train.data]: where images come from (docs/data.md)."""

    train: dict[str, Any] = Field(default={"format": "digits", "split": "train"})
    """Default: the digits. A table with a `format` and the keys of that format."""
    test: dict[str, Any] | list[dict[str, Any]] | None = None
    """Default: the digits. Likewise; without it nothing is tested. A list of tables is one for each
    test net of the solver."""
    shuffle: bool | None = None
    """Default: `true` for a folder per class, else `false`. A new order every epoch; otherwise the
    order of the file, as Caffe."""
    classes: Text | Annotated[list[Text], Field(min_length=1)] | None = None
    """Default: as the format knows. The names of the classes in the order of their labels, a list
    or a file with one a line (docs/predict.md)."""
    order: Literal["bgr", "rgb"] | None = None
    """Default: as the format knows. The order of planes: `"bgr"` or `"rgb"` (docs/predict.md)."""
    augment: Augment = Augment()


class Stop(Section):
    """[train.stop]: training ends after tests that are not better
    (docs/predict.md#the-best-model-and-ending-early)."""

    by: Text = "accuracy"
    """The score that counts."""
    patience: Count
    """Training ends after so many tests in a row, none of which was better than the best before
    them."""
    min_delta: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.0
    """A test is better if it is so by more than this."""


class Train(Section):
    """[train]: what is trained, and what computes it."""

    net: Text = "lenet"
    """Default: the solver's nets, else `"lenet"`. A name from the zoo or the path of a Caffe net
    prototxt."""
    solver: Text = "lenet_digits_solver"
    """A name from the zoo or the path of a Caffe solver prototxt."""
    seed: Annotated[int, Field(ge=0, lt=2**63)] = 1
    """Default: the solver's `random_seed`, else `1`. Of first parameters, shuffling, mirroring and
    dropout."""
    devices: dict[str, Device] = Field(default={})
    """Default: all on the CPU. Where actors compute, by name or pattern; the first that fits
    counts: `{ "conv-*" = "cuda:0" }` (docs/gpu.md); `"emulated:PROFILE.json"` computes nothing and
    takes the time of a profile (docs/simulation.md)."""
    kernels: Literal["compiled", "numpy"] = "compiled"
    """How the CPU computes: `compiled` kernels, or `numpy`, the reference; `precision = "double"`
    is always NumPy's."""
    precision: Literal["exact", "fast", "double", "tf32", "bf16"] = "fast"
    """`fast` lets convolutions use Winograd's larger tiles (errors up to 1e-4 of the largest
    value); `exact` stays within 1e-5; `double` is the same run in float64, see below; `tf32` and
    `bf16` are how GPUs multiply (docs/gpu.md)."""
    b_p: Count | None = None
    """Convolve by lowering and matrix products instead of the chosen kernels, this many images at a
    time, shared by the threads (`1`: Caffe's way, one after the other); on the CPU 24 images of
    CaffeNet a second at best, where the chosen kernels compute 57
    (benchmarks/results/lowering-avx2.md)."""
    cudnn: Literal["fastest", "deterministic", "off"] = "fastest"
    """How GPUs choose convolutions: `fastest` takes cuDNN's where they are right and faster than
    lowering, `deterministic` wherever they are right, without timing, `off` never
    (docs/gpu.md#convolutions-by-cudnn)."""
    max_iter: Count | None = None
    """Default: as the solver says. The last iteration."""
    base_lr: Rate | None = None
    """Default: as the solver says. The learning rate; may be `"auto"` (docs/tuning.md)."""
    momentum: Momentum | None = None
    """Default: as the solver says. May be `"auto"`."""
    batch: Batch | None = None
    """Default: as the net says. The batch of one group; may be `"auto"`."""
    resume: Text | None = None
    """A checkpoint to go on from; `up --resume` finds it by itself."""
    weights: Text | None = None
    """Default: the solver's `weights`. First parameters from `.caffemodel`, `.h5`, `.safetensors`,
    or from a run directory (docs/predict.md), matched by layer names."""
    data: Data = Data(test={"format": "digits", "split": "test"})
    strategy: Strategy = Strategy()
    tuning: Tuning = Tuning()
    stop: Stop | None = None
    gradients: Gradients = Gradients()


class Checkpoint(Section):
    """[checkpoint]: checkpoints besides those that the solver's `snapshot` asks for. On virtual
    time there are none."""

    seconds: Annotated[
        float, Field(ge=0, allow_inf_nan=False), Expected("seconds >= 0, 0: never")
    ] = 300.0
    """One at least so often; `0`: only those of the solver; see "Checkpoints" below."""
    keep: Count = 3
    """So many of those that came by time stay."""
    best: Text | None = None
    """A score of the tests: the model that was the best by it is kept as `best.safetensors`
    (docs/predict.md#the-best-model-and-ending-early)."""


class Options(Section):
    """The built-in program's part of cluster.toml."""

    train: Train = Train()
    checkpoint: Checkpoint = Checkpoint()
