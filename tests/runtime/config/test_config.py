"""The meaning of a correct cluster.toml: defaults, overrides, the program, and the resolved file.
And mutations of a full sample, none of which ends in a traceback.
"""

import copy
import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import Field

from runtime.config.file import (
    ClusterConfig,
    Section,
    load,
    load_program,
    load_with_program,
    program_options,
)
from runtime.config.recorded import dump
from runtime.config.sections import parse_bytes
from runtime.config.toml_write import dumps
from runtime.errors import ConfigError

SAMPLE = """
program = "sample_program"

[run]
directory = "runs"
name = "first"

[[machine]]
name = "local"
address = "127.0.0.1"
cores = 2
threads = "auto"
port = 7000

[[machine]]
name = "second"
address = "127.0.0.2"
threads = 2

[launcher]
kind = "local"

[placement]
processes = "one"

[[process]]
name = "servers"
machine = "second"
actors = ["conv_model", "fc_*"]

[links]
transport = "tcp"
credit_bytes = "1MiB"
max_message_bytes = 65536

[liveness]
heartbeat_seconds = 0.25
missed = 4
progress_seconds = 5
start_seconds = 60.0

[metrics]
address = "127.0.0.1"
port = 9000

[train]
net = "lenet"
seed = 3

[train.strategy]
groups = 2
"""


class Strategy(Section):
    groups: int = 1
    pipeline: bool = True


class Train(Section):
    net: str
    seed: int = 0
    strategy: Strategy = Strategy()


class Options(Section):
    train: Train


@pytest.fixture(autouse=True)
def next_to_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("sample_program")
    module.plan = lambda config, options: None  # type: ignore[attr-defined]
    module.Options = Options
    monkeypatch.setitem(sys.modules, "sample_program", module)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    monkeypatch.chdir(tmp_path)


def write(text: str) -> Path:
    path = Path("cluster.toml")
    path.write_text(text, encoding="utf-8")
    return path


def test_an_empty_file_is_the_defaults_on_this_machine() -> None:
    config = load(write(""))
    assert config == ClusterConfig()
    assert config.program == "roles"
    assert [(m.name, m.address, m.threads) for m in config.machine] == [
        ("local", "127.0.0.1", "auto")
    ]
    assert (config.links.credit_bytes, config.links.max_message_bytes) == (64 * 1024**2, 1024**3)
    assert config.program_section == {}


def test_a_full_file_is_read_as_written() -> None:
    loaded = load_with_program(write(SAMPLE))
    config = loaded.config
    assert [(m.name, m.cores, m.threads, m.port) for m in config.machine] == [
        ("local", 2, "auto", 7000),
        ("second", None, 2, None),
    ]
    assert config.process[0].actors == ("conv_model", "fc_*")
    assert config.links.credit_bytes == 2**20
    assert config.liveness.progress_seconds == 5.0
    assert config.program_section == {
        "train": {"net": "lenet", "seed": 3, "strategy": {"groups": 2}}
    }
    assert loaded.options == Options(train=Train(net="lenet", seed=3, strategy=Strategy(groups=2)))
    assert program_options(config, Options) == loaded.options


def test_a_configuration_cannot_be_changed_after_reading() -> None:
    config = load(write(""))
    with pytest.raises(ValueError, match="frozen"):
        config.links.transport = "tcp"


def test_program_options_names_the_line_of_each_mistake() -> None:
    config = load(write("[train]\nseed = 'x'"))
    with pytest.raises(ConfigError) as caught:
        program_options(config, Options)
    assert caught.value.problems == [
        "cluster.toml:1: train.net: missing, expected a string",
        "cluster.toml:2: train.seed: found 'x' (string), expected an integer",
    ]


@pytest.mark.parametrize(
    ("override", "path", "value"),
    [
        ("machine.0.cores=4", ("machine", 0, "cores"), 4),
        ("machine.1.name=other", ("machine", 1, "name"), "other"),
        ("process.0.actors=['a', 'b']", ("process", 0, "actors"), ("a", "b")),
        ("process.0.actors.2=c", ("process", 0, "actors"), ("conv_model", "fc_*", "c")),
        ("links.credit_bytes=2MiB", ("links", "credit_bytes"), 2**21),
        ("run.name='7'", ("run", "name"), "7"),
        ("run.directory=a=b # c", ("run", "directory"), "a=b # c"),
        ("run.directory='a'\nb = 1", ("run", "directory"), "'a'\nb = 1"),
        ("liveness={missed = 9}", ("liveness", "missed"), 9),
        ("train.strategy.groups=4", ("program_section", "train", "strategy", "groups"), 4),
        ("train.'a.b'.c=true", ("program_section", "train", "a.b", "c"), True),
    ],
)
def test_an_override_sets_one_value(override: str, path: tuple[str | int, ...], value: Any) -> None:
    text = (
        SAMPLE if not override.startswith("machine.1") else SAMPLE.replace('machine = "second"', "")
    )
    node: Any = load(write(text), [override])
    for step in path:
        node = getattr(node, step) if isinstance(step, str) and hasattr(node, step) else node[step]
    assert node == value


@pytest.mark.parametrize("empty", ["", " "])
def test_an_override_without_a_value_unsets_the_key(empty: str) -> None:
    text = "[metrics]\nport = 7\n[train]\nmomentum = 'x'\n[train.data]\na = 1\n"
    config = load(write(text), [f"metrics.port={empty}", f"train.momentum={empty}"])
    default = load(write(""))
    assert config.metrics.port == default.metrics.port
    assert config.program_section.get("train") == {"data": {"a": 1}}
    assert load(write(text), [f"train={empty}"]).program_section.get("train") is None


def test_an_empty_string_is_set_by_its_quotes() -> None:
    config = load(write("[train]\nnet = 'x'\n"), ["train.net=''"])
    assert config.program_section.get("train") == {"net": ""}


def test_an_item_of_an_array_is_unset_and_the_later_ones_keep_their_lines() -> None:
    text = "[[machine]]\nname = 'a'\n[[machine]]\nname = 'b'\n[[machine]]\nname = 'c'\n"
    config = load(write(text), ["machine.1="])
    assert [machine.name for machine in config.machine] == ["a", "c"]
    with pytest.raises(ConfigError, match=r"^cluster.toml:6: machine\[1\]\.cores: found 'x'"):
        load(write(f"{text}cores = 'x'\n".replace("name = 'c'\ncores", "cores")), ["machine.1="])


def test_a_key_that_is_not_there_to_be_unset_is_reported(
    caplog: pytest.LogCaptureFixture,
) -> None:
    for override in ("metrics.prot=", "trian.momentum=", "machine.1="):
        load(write("[metrics]\nport = 7\n[[machine]]\nname = 'a'\n"), [override])
        assert f"--set {override}: " in caplog.text
    assert "metrics.prot: is not set, so there is nothing to unset" in caplog.text
    with pytest.raises(ConfigError, match=r"metrics\.port: is a integer and has no key 'x'"):
        load(write("[metrics]\nport = 7\n"), ["metrics.port.x="])


def test_an_index_reaches_the_default_machine_of_a_file_without_machines() -> None:
    config = load(write(""), ["machine.0.cores=3"])
    assert [(m.name, m.cores) for m in config.machine] == [("local", 3)]


def test_of_two_overrides_of_one_key_the_last_wins() -> None:
    assert load(write(""), ["metrics.port=1", "metrics.port=2"]).metrics.port == 2


def test_a_value_that_replaces_a_table_forgets_the_tables_lines() -> None:
    with pytest.raises(ConfigError, match=r"^--set run=\{nam = 1\}: run\.nam: unknown key"):
        load(write("[run]\nnam = 2"), ["run={nam = 1}"])


@pytest.mark.parametrize(
    ("text", "count"),
    [("7B", 7), ("1kB", 1000), ("1.5 KiB", 1536), ("2GB", 2 * 10**9), ("1TiB", 2**40)],
)
def test_sizes_have_units(text: str, count: int) -> None:
    assert parse_bytes(text) == count


def test_a_program_next_to_the_file_is_found_and_can_import_its_neighbours() -> None:
    Path("neighbour_of_convoy.py").write_text("NAME = 'x'\n")
    Path("program_of_convoy.py").write_text(
        "def plan(config, options):\n    import neighbour_of_convoy as n\n    return n.NAME\n"
    )
    loaded = load_with_program(write("program = 'program_of_convoy'"))
    assert loaded.program.plan(loaded.config, loaded.options) == "x"
    assert loaded.options is None
    for name in ("program_of_convoy", "neighbour_of_convoy"):
        del sys.modules[name]


def test_a_program_is_looked_for_in_the_search_directory_too(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "far_program.py").write_text("def plan(config, options): ...\n")
    assert load_program("far_program", tmp_path / "elsewhere").name == "far_program"
    del sys.modules["far_program"]
    with pytest.raises(ConfigError, match=r"^program: no module named 'farther_program'"):
        load_program("farther_program", tmp_path)


def test_the_resolved_file_holds_every_default_and_reads_back_equal() -> None:
    loaded = load_with_program(write(SAMPLE))
    text = dump(loaded.config, loaded.options)
    assert tomllib.loads(text)["train"]["strategy"] == {"groups": 2, "pipeline": True}
    again = load_with_program(write(text))
    assert again.config.machine == loaded.config.machine
    assert again.options == loaded.options
    assert dump(again.config, again.options) == text


class Renamed(Section):
    rate: float = Field(default=0.5, alias="learning-rate")


def test_keys_that_python_cannot_spell_are_suggested_and_written_as_in_the_file() -> None:
    options = program_options(load(write("learning-rate = 0.1")), Renamed)
    assert tomllib.loads(dump(load(write("")), options))["learning-rate"] == 0.1
    with pytest.raises(
        ConfigError, match=(r"1: lerning-rate: unknown key \(did you mean " r"'learning-rate'\?\)$")
    ):
        program_options(load(write("lerning-rate = 0.1")), Renamed)


NAMES = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._-]{0,9}", fullmatch=True)
WORDS = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=6)


def _name(machine: Any) -> str:
    return str(machine["name"])


MACHINES: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {"name": NAMES},
    optional={
        "cores": st.integers(1, 2**63 - 1),
        "threads": st.one_of(st.just("auto"), st.integers(1, 64)),
        "port": st.integers(1, 65535),
    },
)
CONFIGS = st.fixed_dictionaries(
    {},
    optional={
        "run": st.fixed_dictionaries({"directory": WORDS}, optional={"name": NAMES}),
        "machine": st.lists(
            MACHINES,
            min_size=1,
            max_size=3,
            unique_by=_name,
        ),
        "links": st.fixed_dictionaries(
            {"credit_bytes": st.one_of(st.integers(1, 2**40), st.just("3KiB"))}
        ),
        "liveness": st.fixed_dictionaries(
            {"start_seconds": st.floats(min_value=1e-9, allow_infinity=False)}
        ),
        "train": st.dictionaries(
            WORDS, st.one_of(WORDS, st.booleans(), st.lists(st.integers(0, 9), max_size=2))
        ),
    },
)


@settings(max_examples=50)
@given(CONFIGS)
def test_any_resolved_configuration_reads_back_equal(data: dict[str, Any]) -> None:
    config = load(write(dumps(data)))
    assert load(write(dump(config))) == config


def every_path(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    items = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    )
    for name, item in items:
        yield (*path, name)
        yield from every_path(item, (*path, name))


def mutants(data: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Each key dropped, renamed, and given a value of every other type."""
    others = [
        -1,
        0,
        10**6,
        0.5,
        float("nan"),
        "",
        "x y",
        "\x00",
        True,
        [],
        {},
        [1],
        [[]],
        [{}],
        {"a": 1},
        {"": []},
    ]
    for path in every_path(data):
        for number in range(len(others) + 2):
            changed = copy.deepcopy(data)
            parent: Any = changed
            for step in path[:-1]:
                parent = parent[step]
            if number < len(others):
                parent[path[-1]] = others[number]
            else:
                value = parent.pop(path[-1])
                if number == len(others) and isinstance(parent, dict):
                    parent[f"{path[-1]}x"] = value
            yield f"{path} mutation {number}", changed


def test_no_mutation_of_a_full_file_ends_in_anything_but_located_problems() -> None:
    refused = 0
    for label, data in mutants(tomllib.loads(SAMPLE)):
        try:
            load_with_program(write(dumps(data)))
        except ConfigError as error:
            refused += 1
            for problem in error.problems:
                assert re.match(r"cluster\.toml:[1-9]\d*: \S", problem), (label, problem)
                assert "\n" not in problem, label
                assert "pydantic" not in problem and "Input should" not in problem, (label, problem)
    assert refused > 500


@pytest.mark.parametrize(
    "section", ["run", "links", "liveness", "metrics", "placement", "launcher", "train"]
)
def test_every_renamed_key_is_refused_at_its_own_line(section: str) -> None:
    lines = SAMPLE.splitlines()
    start = lines.index(f"[{section}]")
    for number in range(start + 1, len(lines)):
        if "=" not in lines[number]:
            break
        key = lines[number].split()[0]
        broken = [*lines[:number], f"{key}s{lines[number][len(key) :]}", *lines[number + 1 :]]
        with pytest.raises(ConfigError) as caught:
            load_with_program(write("\n".join(broken)))
        expected = (
            f"cluster.toml:{number + 1}: {section}.{key}s: unknown key (did you mean '{key}'?)"
        )
        assert expected in caught.value.problems


@settings(max_examples=60)
@given(
    st.one_of(st.binary(max_size=40), st.text("[]{}=.\"'#,a1\n \\", max_size=30).map(str.encode)),
    st.text(max_size=20),
)
def test_no_bytes_and_no_override_end_in_a_traceback(content: bytes, override: str) -> None:
    Path("cluster.toml").write_bytes(content)
    try:
        load(Path("cluster.toml"), [override])
    except ConfigError as error:
        assert error.problems
        assert all("\n" not in problem for problem in error.problems)
