"""The times of `plan`: from a profile of this machine, from the profile of a run, or for machines
that could be rented."""

from __future__ import annotations

import json
import os
import re
import xml.etree.ElementTree as ET
from pathlib import Path
from statistics import mean

import pytest

import roles
from runtime.cli.main import main
from runtime.plan.prospects import Prospects, Wanted
from runtime.runs.checking import check
from tests.helpers.support import configure, train
from tests.runtime.plan.test_placement import homes

TIMES = {
    "conv_compute/forward *": {"mean": 0.004, "rows": 16},
    "conv_compute/backward *": {"mean": 0.008, "rows": 16},
    "fc_server/fc TRAIN": {"mean": 0.012, "rows": 64},
    "*/*": 0,
}
VIRTUAL = '[simulation]\nclock = "virtual"\nlatency = 0.0001\nbytes_per_second = "12.5MB"\n'
NOTHING = "there are no predictions to draw: give --profile FILE or --machine NAME"
FREE = "found 0 (integer), expected a finite number > 0"
EMULATED = '[train.devices]\n"*" = "emulated:times.json"\n'


def found(cluster: Path, wanted: Wanted | None = None, *settings: str) -> Prospects:
    checked = check(cluster, settings)
    assert isinstance(checked.loaded.options, roles.Options)
    return roles.prospects(
        checked.loaded.config, checked.loaded.options, checked.placement, wanted or Wanted()
    )


def seconds(cluster: Path, wanted: Wanted | None = None, *settings: str) -> dict[int, float]:
    return {choice.number: choice.seconds for choice in found(cluster, wanted, *settings).choices}


def told(capsys: pytest.CaptureFixture[str], *words: str, code: int = 0) -> str:
    assert main(["plan", *words]) == code
    out, err = capsys.readouterr()
    return err if code else out


def test_without_a_profile_and_a_machine_plan_explains_how_to_get_one_and_shows_no_time(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = told(capsys, str(configure(tmp_path, "sync", workers=2)))
    last = out.splitlines()[-1]
    assert "`python -m runtime time --profile FILE`" in last
    assert "`--machine NAME`" in last
    assert "seconds per" not in out


@pytest.mark.parametrize("groups", [1, 4])
def test_a_run_on_the_virtual_clock_takes_the_time_that_plan_predicts(
    tmp_path: Path, groups: int
) -> None:
    more = VIRTUAL + EMULATED
    cluster = configure(
        tmp_path, "omnivore", workers=4, groups=groups, iterations=32, batch=64, more=more
    )
    (tmp_path / "times.json").write_text(json.dumps(TIMES))
    # by the profile of its devices, over the network of [simulation]
    predicted = seconds(cluster)[groups]
    taken = [
        64 / fields["images_per_second"] for fields in train_over(cluster)
    ]  # when all groups report at almost the same time
    assert mean(taken[8:]) == pytest.approx(predicted, rel=0.1)


def train_over(cluster: Path) -> list[dict[str, float]]:
    """Train on the network of [simulation]. Returns the progress reports."""
    from runtime.runs.virtual_run import network_of

    checked = check(cluster)
    network = network_of(checked.placement, checked.loaded.config)
    return train(cluster, network=network, checkpoint=False).journal.of("progress")


def test_plan_reads_a_profile_that_time_writes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    configure(tmp_path, "omnivore", workers=2)
    assert (
        main(["time", "--iterations", "1", "--profile", "times.json", "--set", "train.batch=8"])
        == 0
    )
    last = capsys.readouterr().out.splitlines()[-1]
    assert re.fullmatch(
        (r"times.json: 7 kinds of work, layers timed with 4 and 8 rows and \d " r"threads?"), last
    )
    table = json.loads(Path("times.json").read_text())
    assert table["fc_server/fc TRAIN"]["rows"] == 8
    assert table["conv_compute/backward conv2"]["mean"] > 0
    assert table["conv_model/update conv2"]["mean"] > 0
    out = told(capsys, "--profile", "times.json", "--set", "train.batch=8")
    assert re.search(r"\* +1 group of 2 +[\d.e-]+ +[\d.]+ ", out)
    assert re.search(r"10 iterations as configured \(\*\) take [\d.]+ m?s$", out, re.MULTILINE)


def test_threads_of_a_profile_are_the_threads_of_the_processes_that_compute(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CONVOY_THREADS", "2")
    configure(tmp_path, "sync", workers=2, more="[[machine]]\nthreads = 1\n")
    assert main(["time", "--iterations", "1", "--profile", "t.json", "--set", "train.batch=8"]) == 0
    assert capsys.readouterr().out.splitlines()[-1].endswith("and 1 thread")
    assert os.environ["CONVOY_THREADS"] == "2"


def run_directory(directory: Path, cluster: Path, groups: int) -> Path:
    """Write a run directory as a run leaves it: its configuration, its events, and durations of its
    work without rows."""
    directory.mkdir()
    text = cluster.read_text().replace("groups = 1", f"groups = {groups}")
    (directory / "config.toml").write_text(text)
    events = [
        {"t": 2.0 + 0.5 * n, "event": "progress", "iteration": f"{5 * n}/10"} for n in range(3)
    ]
    (directory / "events.jsonl").write_text(
        "".join(f"{json.dumps({'actor': 'lead', **event})}\n" for event in events)
    )
    labels = [
        f"conv_compute/{way} {layer}"
        for way in ("forward", "backward")
        for layer in ("conv1", "conv2")
    ]
    durations = {label: [0.03, 0.03] for label in labels} | {
        "fc_server/fc TRAIN": [0.001],
        "conv_compute/read": [0.0],
    }
    (directory / "service-times.json").write_text(json.dumps(durations))
    return directory


def test_a_runs_own_profile_counts_for_the_rows_that_its_workers_had(tmp_path: Path) -> None:
    cluster = configure(tmp_path, "omnivore", workers=2, batch=64)
    run = run_directory(tmp_path / "run", cluster, groups=2)  # on 64 rows each
    one = seconds(cluster, Wanted(profile=run / "service-times.json"))[1]
    assert one == pytest.approx(4 * 0.03 / 2 + 0.001, rel=0.05)
    alone = tmp_path / "times.json"
    alone.write_text((run / "service-times.json").read_text())
    # the profile has no rows, so the rows of this plan's workers are assumed: 32
    supposed = found(cluster, Wanted(profile=alone))
    assert supposed.of_chosen.seconds == pytest.approx(4 * 0.03 + 0.001, rel=0.05)
    assert any("it does not say on how many rows" in note for note in supposed.notes)


def test_measured_runs_are_in_the_chart_next_to_the_prediction(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster = configure(tmp_path, "omnivore", workers=2, batch=64)
    runs = [run_directory(tmp_path / f"run-{groups}", cluster, groups) for groups in (1, 2)]
    chart = tmp_path / "he.svg"
    words = [word for run in runs for word in ("--measured", str(run))]
    told(
        capsys,
        str(cluster),
        "--profile",
        str(runs[0] / "service-times.json"),
        "--chart",
        str(chart),
        *words,
    )
    titles = [of.text for of in ET.parse(chart).getroot().iter("{http://www.w3.org/2000/svg}title")]
    assert {"1: 0.1 s measured", "2: 0.1 s measured"} <= set(titles)


def test_a_run_that_chose_its_groups_is_measured_with_each_of_them_and_not_while_it_was_held(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster = configure(tmp_path, "omnivore", workers=2, iterations=1000)
    run = run_directory(tmp_path / "run", cluster, 1)
    for file in (cluster, run / "config.toml"):
        file.write_text(
            file.read_text().replace("groups = 1", 'groups = "auto"')
            + "[train.tuning]\nbudget = 0.5\n"
        )
    said: list[tuple[float, str, dict[str, object]]] = []
    for n in range(6):  # the run is held for 100 s after each iteration
        said.append((100.2 * n, "progress", {"iteration": f"{n + 1}/20"}))
        said += [(100.2 * n + 0.1, "held", {}), (100.2 * n + 100.1, "released", {})]
    said += [(600.0, "regrouped", {"groups": 2})]
    said += [(600.0 + 0.1 * n, "progress", {"iteration": f"{n + 6}/20"}) for n in range(1, 5)]
    # with another batch, no iteration belongs to this plan
    said += [(601.0, "regrouped", {"groups": 2, "batch": 128})]
    said += [(601.0 + 0.7 * n, "progress", {"iteration": f"{n + 10}/20"}) for n in range(1, 9)]
    lines = [
        json.dumps({"t": t, "actor": "lead", "event": name, **fields}) for t, name, fields in said
    ]
    (run / "events.jsonl").write_text("".join(f"{line}\n" for line in lines))
    chart = tmp_path / "he.svg"
    words = (
        "--profile",
        str(run / "service-times.json"),
        "--chart",
        str(chart),
        "--measured",
        str(run),
    )
    out = told(capsys, str(cluster), *words)
    titles = [of.text for of in ET.parse(chart).getroot().iter("{http://www.w3.org/2000/svg}title")]
    assert {title for title in titles if title and "measured" in title} == {
        "1: 0.2 s measured",
        "2: 0.1 s measured",
    }
    assert "the run of this profile tried several numbers of groups" in out
    assert "*  1 group of 2" in out  # the run begins with this number of groups


def test_rented_machines_are_one_for_each_process_that_computes_and_the_others_live_with_them(
    tmp_path: Path,
) -> None:
    placement = check(configure(tmp_path, "omnivore", workers=4), starts=False, rented=True)
    at = homes(placement.placement)
    assert at == {
        "machine-1": "coordinator conv_model reducer-0 reducer-2 conv-0-0",
        "machine-2": "conv-0-1",
        "machine-3": "reducer-1 conv-0-2",
        "machine-4": "conv-0-3",
        "machine-5": "fc_server",
    }  # Omnivore, Figure 5a and appendix D.4.2


def test_a_rented_machine_computes_by_its_flops_and_costs_its_price(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster = configure(tmp_path, "async", workers=2)
    slow = seconds(cluster, Wanted(machine="c4.4xlarge"))[2]
    (tmp_path / "m.toml").write_text(
        "[machine.twice]\nflops = 1484e9\nshare = 0.56\nbytes_per_second = "
        "'250MB'\nprice_per_hour = 3600.0\n"
    )
    wanted = Wanted(machine="twice", machines=tmp_path / "m.toml")
    assert seconds(cluster, wanted)[2] == pytest.approx(slow / 2, rel=0.02)
    out = told(capsys, str(cluster), "--machine", "twice", "--machines", str(tmp_path / "m.toml"))
    assert "3 x twice at 3600 an hour" in out
    cheaper = told(
        capsys, str(cluster), "--machine", "twice", "--machines", str(tmp_path / "m.toml"),
        "--set", "machine.0.price_per_hour=7.5",
    )  # fmt: skip
    assert "3 x twice at 7.5 an hour" in cheaper


def test_unknown_facts_are_named(tmp_path: Path) -> None:
    notes = "\n".join(
        found(configure(tmp_path, "sync", workers=2), Wanted(machine="g2.2xlarge")).notes
    )
    for words in (
        "rate of g2.2xlarge",
        "latency of g2.2xlarge",
        "updates",
        "tests and checkpoints",
        "iterations to a target",
    ):
        assert words in notes


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (
            ["--machine", "c4.4xlarg"],
            ("--machine c4.4xlarg: no such kind in the catalogue (did you mean 'c4.4xlarge'?)"),
        ),
        (
            ["--profile", "no.json"],
            ("no.json: service times cannot be read: No such file or directory"),
        ),
        (
            ["--profile", "list.json"],
            ("list.json: found list, expected a JSON table of service times"),
        ),
        (
            ["--profile", "wrong.json"],
            ("wrong.json: 'a/b': mean: found -1, expected a finite number >= 0"),
        ),
        (
            ["--profile", "other.json"],
            "other.json: no entry fits 'fc_server/fc TRAIN' and 4 others: it is of another "
            "net or preset; "
            "`python -m runtime time --profile FILE` writes one for this plan",
        ),
        (["--machines", "m.toml"], "--machines m.toml: has no effect without --machine NAME"),
        (["--measured", "."], "--measured: has no effect without --profile FILE or --machine NAME"),
        (
            ["--machine", "c4.4xlarge", "--measured", "."],
            "--measured .: not a run directory: it has no config.toml and events.jsonl",
        ),
        (
            ["--chart", "c.svg"],
            f"--chart c.svg: {NOTHING}",
        ),
        (
            ["--chart", "c.svg", "--profile", "zero.json"],
            (
                "--chart c.svg: an iteration is predicted to take 0 s: the profile "
                "has no times but 0"
            ),
        ),
        (
            ["--chart", "no/c.svg", "--machine", "c4.4xlarge"],
            "--chart no/c.svg: cannot be written: No such file or directory",
        ),
        (
            ["--set", "machine.0.price_per_hour=0"],
            f"--set machine.0.price_per_hour=0: machine[0].price_per_hour: {FREE}",
        ),
    ],
)
def test_a_mistake_is_one_line_and_exit_2(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    words: list[str],
    line: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    configure(tmp_path, "omnivore", workers=2)
    for name, text in (
        ("list", "[]"),
        ("wrong", '{"a/b": {"mean": -1}}'),
        ("other", '{"replica/*": 1}'),
    ):
        Path(f"{name}.json").write_text(text)
    Path("zero.json").write_text('{"*/*": 0}')
    assert told(capsys, *words, code=2) == f"{line}\n"


def test_a_run_of_another_shape_does_not_count_as_a_measurement_of_this_plan(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster = configure(tmp_path, "omnivore", workers=2)
    run = run_directory(tmp_path / "run", cluster, groups=2)
    words = ("--machine", "c4.4xlarge", "--measured", str(run), "--set", "train.strategy.workers=4")
    line = (
        f"--measured {run}: config.toml: train.strategy.workers: found 2, expected this plan's 4\n"
    )
    assert told(capsys, str(cluster), *words, code=2) == line


def test_a_program_without_predictions_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("cluster.toml").write_text('program = "examples.wordcount"\nfiles = ["x"]\n')
    line = "program 'examples.wordcount' predicts no time: it has no prospects()\n"
    assert told(capsys, "--machine", "c4.4xlarge", code=2) == line


def test_emulated_devices_have_no_work_to_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    configure(tmp_path, "sync", workers=2, more='[train.devices]\n"*" = "emulated"\n')
    assert main(["time", "--iterations", "1", "--profile", "t.json"]) == 2
    assert ("devices are emulated, so there is no computation to time") in capsys.readouterr().err


def test_a_warning_of_the_plan_is_printed_once_however_many_groups_are_tried(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    cluster = configure(tmp_path, "omnivore", workers=4)
    found(cluster, Wanted(machine="c4.4xlarge"), "simulation.seed=2")
    assert [
        record.message
        for record in caplog.records
        if "no service times are drawn" in record.message
    ] != []
    assert len(caplog.records) == len({record.message for record in caplog.records})


def test_processes_behind_one_interface_reach_one_another_at_once(tmp_path: Path) -> None:
    more = VIRTUAL.replace("12.5MB", "1MB") + EMULATED
    cluster = configure(tmp_path, "omnivore", workers=2, more=more)
    (tmp_path / "times.json").write_text(json.dumps(TIMES))
    apart = seconds(cluster)[1]
    together = seconds(cluster, None, "simulation.interfaces=machine")[1]
    assert together < 0.5 * apart


def test_a_profile_on_rented_machines_counts_their_network_and_its_own_times(
    tmp_path: Path,
) -> None:
    cluster = configure(tmp_path, "omnivore", workers=2)
    (tmp_path / "times.json").write_text(json.dumps(TIMES))
    here = seconds(cluster, Wanted(profile=tmp_path / "times.json"))[1]
    there = found(cluster, Wanted(profile=tmp_path / "times.json", machine="c4.4xlarge"))
    assert there.of_chosen.seconds > here  # 1 Gbit/s between them
    assert there.basis == (
        f"machines of kind c4.4xlarge, 125 MB/s each way, times of {tmp_path / 'times.json'}"
    )
    assert there.price_per_hour() == pytest.approx(3 * 0.84)
