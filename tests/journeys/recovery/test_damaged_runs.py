"""A run directory with one damaged file: every command that reads it ends in words, and changes
nothing."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from runtime.cli.main import main
from tests.helpers.damage import (
    COMMANDS,
    FILES,
    INSTEAD,
    PART,
    READS,
    Finished,
    Outcome,
    changed,
    finished_run,
    instead,
    is_noticed,
    outcome,
    written_by,
)
from tests.helpers.support import configure, in_the_middle, run_directory

SMALL = (
    "run.json",
    "plan.json",
    "config.toml",
    "said.toml",
    "events.jsonl",
    "usage.jsonl",
    "tuning.json",
)
SMALL += ("service-times.json", "trace/clocks.json", "operator.key", "versions.json", PART)
SLOW = (
    "report",
    "report there",
    "resume",
    "plan --measured",
    "plan --learnt",
    "predict",
    "test",
    "convert",
    "connect",
)
QUICK = tuple(name for name in COMMANDS if name not in SLOW)


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Finished:
    return finished_run(tmp_path_factory.mktemp("damaged"))


@pytest.fixture
def run(finished: Finished, monkeypatch: pytest.MonkeyPatch) -> Iterator[Finished]:
    monkeypatch.chdir(finished.folder)
    yield finished
    for name in FILES:
        finished.restore(name)


def ends_well(name: str, run: Finished, file: str, capsys: pytest.CaptureFixture[str]) -> Outcome:
    """The outcome of a command. It must end in words and change only the files that it is meant to
    write."""
    before = run.contents()
    found = outcome(name, run.path, run.directory / file, run.out, capsys)
    assert not found.trace, f"{name}: {found.trace}"
    assert not found.hung, f"{name} waits for a named pipe"
    assert found.code in (0, 1, 2), f"{name}: {found}"
    assert "Traceback" not in found.out + found.err
    assert set(changed(before, run.contents())) <= written_by(name, found.code)
    for path in written_by(name, found.code):
        run.restore(path)
    return found


def is_named(name: str, kind: str, run: Finished, capsys: pytest.CaptureFixture[str]) -> None:
    """Replace each file that a command reads, one after the other, by something else. The command
    must name the file."""
    for file in READS[name]:
        instead(run.directory / file, kind)
        found = ends_well(name, run, file, capsys)
        if is_noticed(file, kind):
            assert Path(file).name in found.err, f"{name}, {file}: {found}"
        run.restore(file)


@pytest.mark.parametrize("kind", INSTEAD)
@pytest.mark.parametrize("name", [name for name in QUICK if name in READS])
def test_a_command_names_each_file_that_it_reads_if_it_was_replaced(
    run: Finished, capsys: pytest.CaptureFixture[str], name: str, kind: str
) -> None:
    is_named(name, kind, run, capsys)


@pytest.mark.slow  # up to three seconds each
@pytest.mark.parametrize("kind", INSTEAD)
@pytest.mark.parametrize("name", SLOW)
def test_a_slow_command_names_each_file_that_it_reads_if_it_was_replaced(
    run: Finished, capsys: pytest.CaptureFixture[str], name: str, kind: str
) -> None:
    is_named(name, kind, run, capsys)


shares = st.floats(0, 1, exclude_max=True)
damages = st.one_of(
    st.tuples(st.just("cut"), shares, st.just(0)),
    st.tuples(st.just("flip"), shares, st.integers(0, 7)),
    st.tuples(st.just("swap"), shares, st.just(0)),
)


def damage(run: Finished, file: str, damaged: tuple[str, float, int]) -> None:
    """Cut a file at a byte, flip a bit of a byte, or replace the file by another file of the
    run."""
    kind, share, bit = damaged
    content = bytearray((run.spare / file).read_bytes())
    at = int(share * len(content))
    if kind == "cut":
        content = content[:at]
    elif kind == "flip":
        content[at] ^= 1 << bit
    else:
        content = bytearray((run.spare / SMALL[int(share * len(SMALL))]).read_bytes())
    (run.directory / file).write_bytes(content)


def ends_well_after(
    name: str,
    file: str,
    damaged: tuple[str, float, int],
    run: Finished,
    capsys: pytest.CaptureFixture[str],
) -> None:
    damage(run, file, damaged)
    try:
        found = ends_well(name, run, file, capsys)
    finally:
        run.restore(file)
    if found.code:
        usual = ends_well(name, run, "", capsys)
        assert found.err == usual.err or Path(file).name in found.err, f"{name}, {file}: {found}"


def cases(names: Iterable[str]) -> st.SearchStrategy[tuple[str, str]]:
    """A command and a file: one that the command reads, or any file."""
    read = [(name, file) for name in names for file in READS.get(name, ()) if file in SMALL]
    return st.sampled_from(read) | st.tuples(st.sampled_from([*names]), st.sampled_from(SMALL))


@settings(
    max_examples=60,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(case=cases(QUICK), damaged=damages)
def test_a_file_with_a_wrong_byte_or_half_a_file_or_another_file_gives_no_traceback(
    run: Finished,
    capsys: pytest.CaptureFixture[str],
    case: tuple[str, str],
    damaged: tuple[str, float, int],
) -> None:
    ends_well_after(*case, damaged, run, capsys)


@pytest.mark.slow
@pytest.mark.timeout(900)  # up to a second each
@settings(
    max_examples=300,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(case=cases(COMMANDS), damaged=damages)
def test_many_files_with_a_wrong_byte_or_half_of_them_give_no_traceback(
    run: Finished,
    capsys: pytest.CaptureFixture[str],
    case: tuple[str, str],
    damaged: tuple[str, float, int],
) -> None:
    ends_well_after(*case, damaged, run, capsys)


@pytest.mark.slow  # two predictions
@pytest.mark.parametrize("name", ["plan --measured", "plan --learnt"])
def test_a_setting_of_a_run_that_no_plan_could_have_is_reported_with_the_runs_file(
    run: Finished, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    text = (run.spare / "config.toml").read_text()
    assert "\ntau = 10\n" in text  # `sync` refuses any other value
    (run.directory / "config.toml").write_text(text.replace("\ntau = 10\n", "\ntau = 1\n"))
    found = ends_well(name, run, "config.toml", capsys)
    assert found.code == 2
    assert found.err == (
        f"--profile: {run.path}/config.toml: train.strategy.tau: found 1, but the workers of "
        "preset 'sync' do not train separate models\n"
    )


@pytest.mark.parametrize("name", [name for name in QUICK if name in READS])
def test_a_file_without_permission_to_read_it_is_named(
    run: Finished, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    for file in READS[name]:
        (run.directory / file).chmod(0)
        if os.access(run.directory / file, os.R_OK):
            pytest.skip("root reads every file")
        found = outcome(name, run.path, run.directory / file, run.out, capsys)
        (run.directory / file).chmod(0o700)
        assert (found.trace, found.code in (0, 1, 2)) == ("", True), found
        assert Path(file).name in found.err, f"{name}, {file}: {found}"
        for path in (*written_by(name, found.code), file):
            run.restore(path)


@pytest.mark.parametrize(
    "files", [("plan.json",), pytest.param(("plan.json", "run.json"), marks=pytest.mark.slow)]
)
def test_a_live_run_whose_plan_is_damaged_has_a_status_and_is_ended_through_its_lock(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], files: tuple[str, ...]
) -> None:
    cluster = configure(tmp_path, "sync", iterations=1_000_000, paced=True, pace=0.02)
    with in_the_middle(cluster) as (up, _):
        run = run_directory(cluster)
        for name in files:
            (run / name).write_text('{"half')
        assert main(["status", str(run)]) == 0
        said = capsys.readouterr()
        assert f"{run.name}  runs on {platform.node()}, since " in said.out
        assert all(
            (f"{run / name}: it is damaged: not JSON (line 1, column 2)") in said.err
            for name in files
        )
        assert main(["ps", str(run.parent)]) == 0
        assert run.name in capsys.readouterr().out
        assert main(["save", str(run)]) == 2
        assert capsys.readouterr().err.startswith(f"{run / 'plan.json'}: it is damaged: ")
        assert main(["down", str(run)]) == 0
        assert (
            f"{run.name} has ended; last checkpoint: {run}/checkpoint-"
        ) in capsys.readouterr().out
        assert up.wait(timeout=60) == 0


def test_a_run_on_the_virtual_clock_has_a_status_though_no_process_hosts_it(
    run: Finished, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = json.loads((run.spare / "plan.json").read_text())
    (run.directory / "plan.json").write_text(
        json.dumps({"clock": "virtual", "placement": plan["placement"]})
    )
    assert main(["status", str(run.path)]) == 0
    said = capsys.readouterr()
    assert said.err == ""
    assert f"{run.directory.name}  finished, " in said.out
