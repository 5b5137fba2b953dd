"""One broken file, one exact message: the text that the user reads for each kind of mistake."""

import sys
from pathlib import Path
from types import ModuleType
from typing import Annotated, Literal

import pytest
from pydantic import BaseModel, Field, field_validator, model_validator

from runtime.config.file import Section, load, load_with_program, of_script
from runtime.errors import ConfigError


class Plain(Section):
    preset: Literal["single"]


class Grouped(Section):
    preset: Literal["omnivore", "sync"]
    groups: Annotated[int, Field(ge=1)] | Literal["auto"] = "auto"


class Train(Section):
    net: str
    seed: int = 0
    momentum: float = 0.9
    rates: dict[str, float] = Field(default_factory=dict)
    stop: Plain | int = 0
    strategy: Annotated[Plain | Grouped, Field(discriminator="preset")] = Plain(preset="single")

    @field_validator("momentum")
    @classmethod
    def momentum_is_below_one(cls, value: float) -> float:
        if value >= 1:
            raise ValueError("momentum must be below 1")
        return value

    @model_validator(mode="after")
    def seeds_of_lenet_are_even(self) -> "Train":
        if self.net == "lenet" and self.seed % 2:
            raise ValueError("a lenet has an even seed")
        return self


class DemoOptions(Section):
    train: Train = Train(net="lenet")


class LooseOptions(BaseModel):
    train: dict[str, int] = Field(default_factory=dict)


NAME = (
    "expected a name of up to 64 letters, digits, '.', '_', '-' that begins with a letter or digit"
)
SIZE = "expected a size in bytes >= 1, such as 1048576 or '64MiB'"
LOCAL_ONLY = (
    "launcher 'local' starts processes on this machine only, at a loopback address: "
    "set launcher.kind, such as to 'ssh'"
)

RUNTIME_MISTAKES = {
    "[run]\nnam = 'x'": "cluster.toml:2: run.nam: unknown key (did you mean 'name'?)",
    "[links]\nzzz = 1": (
        "cluster.toml:2: links.zzz: unknown key (allowed: bytes_per_second, credit_bytes, "
        "device_memory, encryption, latency, "
        "max_message_bytes, shared_memory, transport)"
    ),
    "[[machine]]\nname = 'a'\ncores = 'two'": (
        "cluster.toml:3: machine[0].cores: found 'two' (string), expected an integer >= 1"
    ),
    "[[machine]]\ncores = 0": (
        "cluster.toml:2: machine[0].cores: found 0 (integer), expected an integer >= 1"
    ),
    "[[machine]]\ncores = true": (
        "cluster.toml:2: machine[0].cores: found true (boolean), expected an integer >= 1"
    ),
    "[[machine]]\n\n[[machine]]\nname = 'b'\nport = 70000": (
        "cluster.toml:5: machine[1].port: found 70000 (integer), expected an integer from 1 "
        "to 65535"
    ),
    "[[machine]]\nthreads = 'auot'": (
        "cluster.toml:2: machine[0].threads: found 'auot' (string), expected an integer >= 1 "
        "or 'auto' "
        "(did you mean 'auto'?)"
    ),
    "[[machine]]\naddress = '10.0.0.7'": (
        f"cluster.toml:2: machine[0].address: machine 'local' has address '10.0.0.7': {LOCAL_ONLY}"
    ),
    "[[machine]]\nname='n1'\naddress = 'node1'": (
        f"cluster.toml:3: machine[0].address: machine 'n1' has address 'node1': {LOCAL_ONLY}"
    ),
    "[[machine]]\nname = 'a'\n[[machine]]\nname = 'a'": (
        "cluster.toml:4: machine[1].name: a machine named 'a' exists already (cluster.toml:2)"
    ),
    "[[machine]]\n[[machine]]": (
        "cluster.toml:2: machine[1].name: a machine named 'local' exists already (cluster.toml:1)"
    ),
    "[[machine]]\nname = 'a b'": f"cluster.toml:2: machine[0].name: found 'a b' (string), {NAME}",
    "[machine]\nname = 'a'": (
        "cluster.toml:1: machine: found a table, expected a non-empty array of tables"
    ),
    "machine = []": "cluster.toml:1: machine: found an array, expected a non-empty array of tables",
    "run = 3": "cluster.toml:1: run: found 3 (integer), expected a table",
    "[[run]]\nname = 'x'": "cluster.toml:1: run: found an array of tables, expected a table",
    "run.directory = ''": (
        "cluster.toml:1: run.directory: found '' (string), expected a non-empty string"
    ),
    "run.name = 2020-01-01": f"cluster.toml:1: run.name: found 2020-01-01 (date or time), {NAME}",
    "[launcher]\nkind = 3": (
        "cluster.toml:2: launcher.kind: found 3 (integer), expected a non-empty string"
    ),
    "[placement]\nprocesses = 'on'": (
        "cluster.toml:2: placement.processes: found 'on' (string), expected 'one-per-actor' "
        "or 'per-device' or 'one' "
        "(did you mean 'one'?)"
    ),
    "[[process]]\nactors = ['a']": f"cluster.toml:1: process[0].name: missing, {NAME}",
    "[[process]]\nname = 'p'": (
        "cluster.toml:1: process[0].actors: missing, expected a non-empty array of non-empty "
        "strings"
    ),
    "[[process]]\nname = 'p'\nactors = []": (
        "cluster.toml:3: process[0].actors: found an array, expected a non-empty array of "
        "non-empty strings"
    ),
    "[[process]]\nname = 'p'\nactors = [\n 'a',\n 3]": (
        "cluster.toml:5: process[0].actors[1]: found 3 (integer), expected a non-empty string"
    ),
    "[[machine]]\nname = 'alpha'\n[[process]]\nname = 'p'\nactors = ['a']\nmachine = 'alhpa'": (
        "cluster.toml:6: process[0].machine: no machine is named 'alhpa' (did you mean 'alpha'?)"
    ),
    "process = [\n{name = 'p', actors = ['a']},\n{name = 'p', actors = ['b']}]": (
        "cluster.toml:3: process[1].name: a process named 'p' exists already (cluster.toml:2)"
    ),
    "links.credit_bytes = '64 potatoes'": (
        f"cluster.toml:1: links.credit_bytes: found '64 potatoes' (string), {SIZE}"
    ),
    "links.credit_bytes = 0": f"cluster.toml:1: links.credit_bytes: found 0 (integer), {SIZE}",
    "links.max_message_bytes = '0.1B'": (
        "cluster.toml:1: links.max_message_bytes: found '0.1B' (string), "
        "expected a size of at least 65536 bytes, such as '64MiB'"
    ),
    "links.credit_bytes = 1.5": f"cluster.toml:1: links.credit_bytes: found 1.5 (float), {SIZE}",
    "[liveness]\nheartbeat_seconds = nan": (
        "cluster.toml:2: liveness.heartbeat_seconds: found nan (float), expected a finite "
        "number > 0"
    ),
    "[liveness]\nmissed = 2.0": (
        "cluster.toml:2: liveness.missed: found 2.0 (float), expected an integer >= 1"
    ),
    "[metrics]\nport = -1": (
        "cluster.toml:2: metrics.port: found -1 (integer), expected an integer from 0 to 65535"
    ),
    "program = 3": "cluster.toml:1: program: found 3 (integer), expected a non-empty string",
    "a = 1\nb = 99999999999999999999": "cluster.toml:2: b: found an integer of more than 64 bits",
    "a = 1\nb 2": (
        "cluster.toml:2: column 3: not TOML: expected '=' after a key in a key/value pair"
    ),
    "[run]\nname = 'a'\nname = 'b'": "cluster.toml:3: not TOML: a key is set twice",
    (
        "[run]\nname = 'a'\n[run]\ndirectory = 'b'"
    ): "cluster.toml:3: not TOML: table run is declared twice",
    "a = 1\nb = '''": "cluster.toml:2: not TOML: expected \"'''\" (the file ends here)",
    "a = " + "9" * 5000: "cluster.toml:1: a number is too long",
    "a = " + "[" * 100_000: "cluster.toml:1: the values are nested too deeply",
    ".".join("a" * 200) + " = 1": "cluster.toml:1: a.a.a...: tables more than 64 deep",
}

PROGRAM_MISTAKES = {
    "trian.net = 'x'": "cluster.toml:2: trian: unknown key (did you mean 'train'?)",
    "seed = 1": "cluster.toml:2: seed: unknown key, expected train.seed or simulation.seed",
    "port = 1": (
        "cluster.toml:2: port: unknown key, expected launcher.port or metrics.port or operators.port"
    ),
    "[lnks]\ntransport = 'tcp'": "cluster.toml:2: lnks: unknown key (did you mean 'links'?)",
    "[train]\nseed = 1": "cluster.toml:2: train.net: missing, expected a string",
    "[train]\nnet = 'x'\nsede = 1": (
        "cluster.toml:4: train.sede: unknown key (did you mean 'seed'?)"
    ),
    "[train]\nnet = 'x'\nmomentum = 1.5": (
        "cluster.toml:4: train.momentum: found 1.5 (float), momentum must be below 1"
    ),
    "[train]\nnet = 'lenet'\nseed = 3": "cluster.toml:2: train: a lenet has an even seed",
    "[train]\nnet = 'x'\n[train.rates]\nfc = 'high'": (
        "cluster.toml:5: train.rates.fc: found 'high' (string), expected a number"
    ),
    "[train]\nnet = 'x'\n[train.strategy]\npreset = 'omnivor'": (
        "cluster.toml:5: train.strategy.preset: found 'omnivor' (string), expected 'single' "
        "or 'omnivore' or "
        "'sync' (did you mean 'omnivore'?)"
    ),
    "[train]\nnet = 'x'\n[train.strategy]\ngroups = 2": (
        "cluster.toml:4: train.strategy.preset: missing, expected 'single' or 'omnivore' or 'sync'"
    ),
    "[train]\nnet = 'x'\nstrategy = {preset = 'sync', group = 2}": (
        "cluster.toml:4: train.strategy.group: unknown key (did you mean 'groups'?)"
    ),
    "[train]\nnet = 'x'\nstrategy = {preset = 'sync', groups = 0}": (
        "cluster.toml:4: train.strategy.groups: found 0 (integer), expected an integer >= 1 "
        "or 'auto'"
    ),
    "[train]\nnet = 'x'\nstop = {preset = 'singel'}": (
        "cluster.toml:4: train.stop.preset: found 'singel' (string), expected 'single' (did "
        "you mean 'single'?)"
    ),
    "[train]\nnet = 'x'\nstop = 'never'": (
        "cluster.toml:4: train.stop: found 'never' (string), expected a table or an integer"
    ),
}

OR_UNSET = ", or KEY= to unset a key"
OVERRIDE_MISTAKES = {
    "train.seed": "--set train.seed: expected KEY=VALUE, such as machine.0.cores=4" + OR_UNSET,
    "=4": "--set =4: expected KEY=VALUE, such as machine.0.cores=4" + OR_UNSET,
    "a..b=4": "--set a..b=4: expected KEY=VALUE, such as machine.0.cores=4" + OR_UNSET,
    "run.nam=x": "--set run.nam=x: run.nam: unknown key (did you mean 'name'?)",
    "rnu.name=x": "--set rnu.name=x: rnu: unknown key (did you mean 'run'?)",
    "train.seed=x": "--set train.seed=x: train.seed: found 'x' (string), expected an integer",
    "machine.0.cores=many": (
        "--set machine.0.cores=many: machine[0].cores: found 'many' (string), expected an "
        "integer >= 1"
    ),
    "machine.2.cores=4": (
        "--set machine.2.cores=4: machine: found index '2', expected 0 to 1 (1 appends)"
    ),
    "machine.first.cores=4": (
        "--set machine.first.cores=4: machine: found index 'first', expected 0 to 1 (1 appends)"
    ),
    "train.net.layers=4": (
        "--set train.net.layers=4: train.net: is a string and has no key 'layers'"
    ),
    "train={}": "--set train={}: train.net: missing, expected a string",
    "run.name=a\nb": f"--set run.name=a\\nb: run.name: found 'a\\nb' (string), {NAME}",
    "run.name=\udcff": "--set run.name=\\udcff: expected KEY=VALUE, such as machine.0.cores=4"
    + OR_UNSET,
}


@pytest.fixture(autouse=True)
def next_to_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    demo = ModuleType("demo_program")
    loose = ModuleType("loose_program")
    bare = ModuleType("bare_program")
    demo.Options = DemoOptions  # type: ignore[attr-defined]
    loose.Options = LooseOptions
    for module in (demo, loose, bare):
        module.plan = lambda config, options: None  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.chdir(tmp_path)


def problems(text: str, *overrides: str, program: str = "") -> list[str]:
    Path("cluster.toml").write_text(f"program = '{program}'\n{text}" if program else text)
    with pytest.raises(ConfigError) as caught:
        (load_with_program if program else load)(Path("cluster.toml"), overrides)
    return caught.value.problems


@pytest.mark.parametrize("text", RUNTIME_MISTAKES, ids=lambda text: text[:40])
def test_a_mistake_in_a_runtime_section_has_one_exact_message(text: str) -> None:
    assert problems(text) == [RUNTIME_MISTAKES[text]]


@pytest.mark.parametrize("text", PROGRAM_MISTAKES)
def test_a_mistake_in_the_programs_sections_has_one_exact_message(text: str) -> None:
    assert problems(text, program="demo_program") == [PROGRAM_MISTAKES[text]]


@pytest.mark.parametrize("override", OVERRIDE_MISTAKES, ids=ascii)
def test_a_mistake_in_an_override_is_shown_as_the_override(override: str) -> None:
    text = "[train]\nnet = 'x'\n[[machine]]\ncores = 2"
    assert problems(text, override, program="demo_program") == [OVERRIDE_MISTAKES[override]]


def test_all_mistakes_of_runtime_program_and_overrides_come_at_once_in_line_order() -> None:
    text = "[train]\nnet = 5\n[links]\ntransport = 'udp'\n[train.strategy]\npreset = 'x'\n"
    text += "[[machine]]\naddress = '1.2.3.4'"
    found = problems(text, "nonsense", "metrics.port=x", program="demo_program")
    assert [line.split(": ")[0] for line in found] == [
        "cluster.toml:3",
        "cluster.toml:5",
        "cluster.toml:7",
        "cluster.toml:9",
        "--set nonsense",
        "--set metrics.port=x",
    ]


def test_a_program_without_options_accepts_no_further_sections() -> None:
    assert problems("[train]\nseed = 1", program="bare_program") == [
        "cluster.toml:2: train: unknown key (allowed: launcher, links, liveness, machine, "
        "metrics, operators, placement, "
        "process, program, recovery, run, simulation)"
    ]


def test_an_unknown_section_is_refused_even_if_the_programs_model_would_ignore_it() -> None:
    assert problems("[trian]\nseed = 1", program="loose_program") == [
        "cluster.toml:2: trian: unknown key (did you mean 'train'?)"
    ]


def test_a_file_that_cannot_be_read_is_one_problem(tmp_path: Path) -> None:
    for path, message in {
        Path("absent.toml"): "absent.toml: no such file",
        tmp_path: f"{tmp_path}: found a folder, expected a file in it, such as cluster.toml",
        Path("a\0b"): "a\\x00b: cannot be read: not a file name",
    }.items():
        with pytest.raises(ConfigError) as caught:
            load(path)
        assert str(caught.value) == message


def test_a_file_that_is_not_utf8_names_the_line() -> None:
    Path("cluster.toml").write_bytes(b"[run]\nname = '\xff'")
    with pytest.raises(ConfigError, match=r"^cluster\.toml:2: not UTF-8 text$"):
        load(Path("cluster.toml"))


BROKEN_PROGRAMS = {
    "from runtime import Actor\nclass Mine(Actor):\n    steps = 3\ndef plan(c, o): ...": (
        "program 'user_program' cannot be imported: NameTaken: Mine defines steps, which the "
        "runtime uses itself on every actor: call it something else, such as my_steps, "
        'or declare overrides=("steps",) if you mean to redefine it (user_program.py:2)'
    ),
    "from runtime import Actor, Save\nclass Mine(Actor):\n  async def on_save(self, m: Save): ...": (
        "program 'user_program' cannot be imported: TypeError: Mine.on_save: the runtime calls it as "
        "on_save(message, envelope): too many positional arguments; write `async def "
        "on_save(self, message, envelope)` (user_program.py:2)"
    ),
    "def plan(c, o): ...\nCOMMANDS = ['x']": (
        "program 'user_program': COMMANDS is list, expected a table of command names and "
        "'module:function'"
    ),
    "x = 1": "program 'user_program' has no function plan()",
    "def plan(c, o): pass\nOptions = 3": (
        "program 'user_program': Options is int, expected a pydantic model class"
    ),
    "\nimport convoy_absent": (
        "program 'user_program' cannot be imported: ModuleNotFoundError: No module named "
        "'convoy_absent' "
        "(user_program.py:2)"
    ),
    "def plan(:": "program 'user_program' cannot be imported: invalid syntax (user_program.py:1)",
    "raise SystemExit(3)": (
        "program 'user_program' cannot be imported: SystemExit: 3 (user_program.py:1)"
    ),
    "1 / 0": (
        "program 'user_program' cannot be imported: ZeroDivisionError: division by "
        "zero (user_program.py:1)"
    ),
}


@pytest.mark.parametrize("code", BROKEN_PROGRAMS)
def test_a_program_that_cannot_be_used_is_reported_at_its_key(
    code: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    Path("user_program.py").write_text(code)
    found = problems("", program="user_program")
    sys.modules.pop("user_program", None)
    assert found == [f"cluster.toml:1: program: {BROKEN_PROGRAMS[code]}"]


def test_a_program_that_does_not_exist_and_other_mistakes_come_together() -> None:
    assert problems("run.nam = 'x'", program="absent_program") == [
        (
            "cluster.toml:1: program: no module named 'absent_program' on Python's path or "
            "next to the file"
        ),
        "cluster.toml:2: run.nam: unknown key (did you mean 'name'?)",
    ]


def test_a_program_name_that_is_not_a_module_name_is_refused() -> None:
    assert problems("", program="../roles.py") == [
        (
            "cluster.toml:1: program: found '../roles.py' (string), expected the name of a "
            "Python module, such as 'roles'"
        )
    ]


def test_a_path_that_is_not_utf_8_is_refused_for_its_bytes(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        of_script("launch()", {"run": {"directory": "caf\udce9"}}, tmp_path)
    assert caught.value.problems == [
        "launch(): run.directory: found 'caf\\udce9' (string), which has bytes that are not UTF-8"
    ]
