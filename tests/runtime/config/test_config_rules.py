"""Rules between sections: they read typed sections, and a key with a mistake silences only the
rules about that key.
"""

from pathlib import Path

import pytest

from runtime.config.file import judge, load_with_program, parse
from runtime.config.sections import ClusterConfig
from runtime.config.validation import validate
from runtime.errors import ConfigError


@pytest.fixture(autouse=True)
def _in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def problems(text: str) -> list[str]:
    Path("cluster.toml").write_text(text)
    with pytest.raises(ConfigError) as caught:
        load_with_program(Path("cluster.toml"))
    return caught.value.problems


@pytest.mark.parametrize(
    ("readers", "found"),
    [("5", "5 (integer)"), ("0.5", "0.5 (float)"), ("true", "true (boolean)")],
)
def test_readers_of_a_wrong_type_are_a_mistake_at_their_line_also_with_pages_for_other_machines(
    readers: str, found: str
) -> None:
    text = f"[metrics]\naddress = 'machine'\nreaders = {readers}\n"
    assert problems(text) == [
        f"cluster.toml:3: metrics.readers: found {found}, expected an array of non-empty strings"
    ]


def test_a_mistake_in_one_key_hides_no_rule_about_the_others_of_its_section() -> None:
    text = "[simulation]\nseed = -1\nlatency = 0.5\n"
    text += "[[machine]]\ncores = 0\naddress = '10.0.0.1'\n"
    text += "[[process]]\nname = 'p'\nmachine = 'far'\nactors = 5\n"
    text += "[[process]]\nname = 'p'\nactors = ['x']\n"
    assert [line.partition(": ")[2].partition(": ")[0] for line in problems(text)] == [
        "simulation.seed",
        "simulation.latency",
        "machine[0].cores",
        "machine[0].address",
        "process[0].machine",
        "process[0].actors",
        "process[1].name",
    ]


def test_the_rules_also_check_a_process_that_lacks_a_key() -> None:
    text = "[[process]]\nname = 'p'\nmachine = 'far'\n[[process]]\nname = 'p'\n"
    assert [line.partition(": ")[2].partition(": ")[0] for line in problems(text)] == [
        "process[0].actors",
        "process[0].machine",
        "process[1].actors",
        "process[1].name",
    ]


@pytest.mark.parametrize(
    "text",
    [
        "[launcher]\nkind = 5\n[[machine]]\naddress = '10.0.0.1'\n",
        "[links]\ntransport = 5\n[launcher]\nkind = 'ssh'\n[[machine]]\naddress = '10.0.0.1'\n",
        "[[machine]]\naddress = 'x y'\n",
        "[launcher]\nkind = 'kubernetes'\nkubernetes = 5\n",
        "[[machine]]\nname = 'x y'\n[[process]]\nname = 'p'\nactors = ['x']\nmachine = 'x y'\n",
        "[launcher]\nkind = 'ssh'\n[[machine]]\nhosts = 5\n[placement]\nspread = 'n1'\n",
    ],
)
def test_a_key_with_a_mistake_is_reported_once_and_breaks_no_rule(text: str) -> None:
    assert len(problems(text)) == 1


def test_sections_without_mistakes_are_the_whole_configuration_and_those_with_some_are_not() -> (
    None
):
    Path("cluster.toml").write_text("[links]\ncredit_bytes = '1MiB'\n")
    sections = validate(parse(Path("cluster.toml")))
    assert sections.config is not None
    assert sections.config.links == sections.links
    sections = validate(parse(Path("cluster.toml"), ["links.transport=udp"]))
    assert sections.config is None
    assert (sections.links.transport, sections.links.credit_bytes) == (None, 2**20)


@pytest.mark.parametrize("text", ["", "[run]\nname = 3\n"])
def test_every_section_is_at_hand_for_rules_also_beside_a_mistake(text: str) -> None:
    Path("cluster.toml").write_text(text)
    sections = validate(parse(Path("cluster.toml")))
    assert (sections.config is None) == bool(text)
    assert (sections.program, sections.machine, sections.process) == ("roles", (), ())
    empty = ClusterConfig()
    for name in {*ClusterConfig.model_fields} - {"program", "machine", "process", "run"}:
        assert getattr(sections, name) == getattr(empty, name), name
    assert sections.run == (empty.run.model_copy(update={"name": None}) if text else empty.run)


def test_a_judged_configuration_keeps_the_mistakes_of_every_stage() -> None:
    Path("cluster.toml").write_text(
        "[links]\ntransport = 'udp'\n[launcher]\nkind = 'ssh'\n[[machine]]\nhosts = 'n[2-1]'\n"
    )
    judged = judge(parse(Path("cluster.toml"), ["nonsense"]))
    assert judged.config is None
    assert [problem.text.partition(": ")[0] for problem in judged.problems] == [
        "--set nonsense",
        "cluster.toml:2",
        "cluster.toml:6",
    ]


def test_keys_without_effect_are_listed_with_the_loaded_configuration() -> None:
    Path("cluster.toml").write_text("[operators]\nport = 7\n")
    assert load_with_program(Path("cluster.toml")).unused == (
        "cluster.toml:2: operators.port: has no effect without operators.address: nothing listens",
    )


def test_a_process_on_a_machine_without_a_name_is_a_mistake_at_its_line() -> None:
    text = "[[process]]\nname = 'p'\nactors = ['*']\nmachine = ''\n"
    assert problems(text) == [
        "cluster.toml:4: process[0].machine: found '' (string), expected a non-empty string"
    ]
