"""The GPU benchmark command: all its parts at small sizes on NumPy, and its messages about missing
hardware and packages."""

from __future__ import annotations

import dataclasses
import json
import math
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest

from benchmarks import gpu_wheels
from benchmarks.gpu import gpu
from benchmarks.gpu import parts as gpu_parts
from benchmarks.gpu import sides as gpu_sides
from benchmarks.gpu import sizes as gpu_sizes
from benchmarks.gpu import steps as gpu_steps
from benchmarks.gpu.sizes import Work
from benchmarks.helpers import report
from benchmarks.helpers.report import ROOT, Record, Table
from benchmarks.kernels import conv_reference, convolutions, kernels
from benchmarks.kernels.bounds import Bounds
from benchmarks.kernels.kinds import KINDS
from nets import NetError
from ops import BFLOAT16, ConvGeometry, get_backend
from ops.cpu.conv.algorithm import ConvShape
from tests.fake_cuda.processes import here, on_fake_cuda
from tests.helpers.support import environment


def rehearsed(folder: Path, env: dict[str, str]) -> tuple[dict[str, dict], str]:
    """Run a rehearsal. Returns the record of each part, and the Markdown results."""
    command = [sys.executable, "-m", "benchmarks.gpu", "--rehearse", "--results", str(folder)]
    done = subprocess.run(
        command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=390, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    (as_json,) = folder.glob("rehearsal-*.json")
    parts = json.loads(as_json.read_text())["parts"]
    assert {name: part["status"] for name, part in parts.items()} == dict.fromkeys(
        gpu.USUAL, "passed"
    )
    assert parts["contract"]["facts"]["passed"] > 0
    assert [row[1] for row in parts["runs"]["tables"][0]["rows"]] == [
        "single",
        "omnivore",
        "host-accumulate",
    ]
    rows = [row for row in parts["convolutions"]["tables"][0]["rows"] if row[5] == "float32"]
    assert [row[3] for row in rows[:3]] == ["forward", "backward-weights", "forward"]
    assert all(row[7] < 1e-4 for row in rows if row[3])
    assert parts["speed"]["tables"][0]["rows"][0][3] > 0
    assert parts["growth"]["tables"][0]["rows"][-1][0] == 12
    return parts, as_json.with_suffix(".md").read_text()


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_a_rehearsal_runs_every_part_on_numpy_and_writes_both_results(tmp_path: Path) -> None:
    _, text = rehearsed(tmp_path, environment())
    assert (
        "| cifar10_quick | 1 | 4 x 3 x 32 x 32, 32 of 5 x 5 | forward | lowering | float32 |"
    ) in text


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_a_rehearsal_runs_every_part_on_cupy_without_a_gpu(tmp_path: Path) -> None:
    parts, _ = rehearsed(tmp_path, on_fake_cuda(here(build=True)))
    assert parts["facts"]["facts"]["GPU"] == "a processor that stands in for a GPU"
    plain, replayed, graph = parts["replays"]["tables"][0]["rows"]
    assert plain[:4] == ["cifar10_quick", 4, "plain", 0] and graph[2:4] == ["graph", 1]
    assert replayed[2] == "replay" and replayed[3] > 40
    assert min(*plain[4:], *replayed[4:], *graph[4:]) > 0


def test_wheels_that_travel_are_unpacked_for_this_python_alone(monkeypatch, tmp_path: Path) -> None:
    mine = f"cp{sys.version_info[0]}{sys.version_info[1]}"
    names = {
        "pure": "py3-none-any",
        "mine": f"{mine}-{mine}-linux_x86_64",
        "other": "cp27-cp27m-linux_x86_64",
    }
    for name, tags in names.items():
        with zipfile.ZipFile(tmp_path / f"{name}-1.0-{tags}.whl", "w") as wheel:
            wheel.writestr(f"travelled_{name}.py", "")
    monkeypatch.setattr(sys, "path", sys.path.copy())
    monkeypatch.setenv("PYTHONPATH", "before")
    into = tmp_path / "unpacked"
    assert gpu_wheels.unpack(into, tmp_path) == "wheels: 2 of 3 unpacked"
    assert os.environ["PYTHONPATH"] == f"{into}{os.pathsep}before"
    assert report.missing({f"travelled_{name}": name for name in names}) == ["other"]
    assert gpu_wheels.unpack(into, tmp_path / "none") == ""


def test_a_machine_is_described_without_the_compiler_of_the_kernels(monkeypatch) -> None:
    with_it = report.machine()["vectors"]
    monkeypatch.setitem(sys.modules, "ops.cpu.codegen.target", None)
    assert report.machine()["vectors"] == with_it


def test_the_wheels_are_for_the_package_and_its_tests_without_installed_ones() -> None:
    wanted = gpu_wheels.wanted()
    assert {"pyzmq", "pydantic", "msgspec", "cyclopts", "pytest"} <= {
        one.split(">")[0].split(";")[0] for one in wanted
    }
    assert not any(one.startswith(("numpy", "numba")) for one in wanted)
    assert [one.partition(">")[0] for one in gpu_wheels.frontend()] == list(gpu_wheels.FRONTEND)


def test_without_a_gpu_the_command_reports_it_in_one_line_and_ends_with_3(
    monkeypatch, capsys
) -> None:
    monkeypatch.setattr(gpu, "without_gpu", lambda: "no driver")
    assert gpu.main([]) == gpu.NO_GPU == 3
    assert capsys.readouterr().out.count("\n") == 1


def test_a_driver_that_does_not_start_is_reported_too(monkeypatch, capsys) -> None:
    def hangs(*command: object, timeout: float, **options: object) -> None:
        raise subprocess.TimeoutExpired("python", timeout)

    monkeypatch.setattr(gpu.subprocess, "run", hangs)
    assert gpu.main([]) == gpu.NO_GPU
    assert (
        "no GPU: the driver or its libraries have not started within 20 s"
    ) in capsys.readouterr().out


def test_a_pytorch_that_cannot_be_imported_leaves_its_columns_empty(
    monkeypatch, tmp_path: Path
) -> None:
    (tmp_path / "torch.py").write_text(
        "raise OSError('libcudart.so.12: cannot open shared object file')"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    record = Record("speed")
    assert gpu_sides.here(record) is None
    told = "cannot be imported (OSError: libcudart.so.12: cannot open shared object file)"
    assert record.notes == [f"PyTorch {told}: its columns are empty"]
    assert gpu_parts._torch() == told


def test_a_part_whose_process_is_killed_is_reported_and_the_next_runs(
    monkeypatch, tmp_path: Path
) -> None:
    real = subprocess.Popen

    def started(command: list[str], **options: object) -> subprocess.Popen[bytes]:
        crash = [sys.executable, "-c", "import os; os.kill(os.getpid(), 11)"]
        return real(crash if "growth" in command else command, **options)  # type: ignore[call-overload, no-any-return]

    monkeypatch.setattr(gpu.subprocess, "Popen", started)
    assert gpu.run_all(["growth", "facts"], tmp_path, "rehearsal", rehearse=True) == 1
    (as_json,) = tmp_path.glob("*.json")
    parts = json.loads(as_json.read_text())["parts"]
    assert parts["growth"]["notes"] == ["ended with -11"] and parts["facts"]["status"] == "passed"


def test_a_part_that_runs_out_of_time_fails_and_the_others_go_on(
    monkeypatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(gpu, "PLANS", gpu.PLANS | {"speed": gpu.Plan("slow", 0, {}, "steps:speed")})
    assert gpu.run_all(["speed", "facts"], tmp_path, "rehearsal", rehearse=True) == 1
    (as_json,) = tmp_path.glob("*.json")
    parts = json.loads(as_json.read_text())["parts"]
    assert "out of time after 0 s" in parts["speed"]["notes"][0]
    assert parts["facts"]["status"] == "passed"


def test_a_second_start_leaves_out_the_parts_that_passed_at_this_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = report.machine()
    older = {**known, "commit": "0ld"}
    report.write(tmp_path, "rehearsal", older, {"growth": Record("growth", "passed")})
    now = {"facts": Record("facts", "passed"), "speed": Record("speed", "failed")}
    report.write(tmp_path, "rehearsal", known, now)
    started: list[list[str]] = []
    monkeypatch.setattr(gpu, "run_all", lambda names, *_, **__: started.append(names) or 0)
    gpu.main(["--rehearse", "--go-on", "--results", str(tmp_path)])
    assert started == [[part for part in gpu.USUAL if part != "facts"]]


def test_layers_that_read_a_layer_that_is_left_out_read_what_it_reads() -> None:
    whole = gpu_sides.training_net(get_backend("numpy"), "caffenet", 1, gpu_sizes.CAFFENET)
    net = gpu_sides.training_net(get_backend("numpy"), "caffenet", 1, gpu_sizes.CAFFENET, "LRN")
    left = [node.layer.proto.name for node in net.nodes]
    before = [node.layer.proto.name for node in whole.nodes]
    assert [name for name in before if name not in left] == ["norm1", "norm2"]
    bottoms = {node.layer.proto.name: list(node.layer.proto.bottom) for node in net.nodes}
    assert (bottoms["conv2"], bottoms["conv3"]) == (["pool1"], ["pool2"])


def test_rows_that_time_did_not_reach_stand_in_the_record(monkeypatch: pytest.MonkeyPatch) -> None:
    works = (
        Work("lenet", 2, gpu_sizes.LENET, 10, "float32"),
        Work("none", 1, gpu_sizes.LENET, 10, "float32"),
    )
    record = Record("speed")
    sizes = dataclasses.replace(gpu_sizes.rehearsal(), backend="numpy", steps=works)
    with pytest.raises(NetError):
        gpu_steps.speed(record, sizes)
    assert [row[0] for row in record.tables[0].rows] == ["lenet"]
    assert record.facts == {gpu_steps.MISSING: "none 1 float32"}


def test_a_part_without_its_packages_is_skipped_by_name_and_nothing_fails(
    monkeypatch, tmp_path: Path, capsys
) -> None:
    monkeypatch.setattr(
        gpu, "PLANS", {"runs": gpu.Plan("runs", 9, {"no_such.module": "no-such-package"}, "")}
    )
    assert gpu.run_all(["runs"], tmp_path, "rehearsal", rehearse=True) == 0
    assert (
        "missing: no-such-package; install with: python -m pip install 'no-such-package'"
    ) in capsys.readouterr().out


def test_an_exception_in_a_part_is_in_its_record(monkeypatch, tmp_path: Path) -> None:
    def breaks(record: Record, sizes: gpu_sizes.Sizes) -> None:
        record.table("half", "a")
        record.row(1)
        raise ValueError("the reason")

    monkeypatch.setattr(gpu_parts, "facts", breaks)
    path = tmp_path / "facts.json"
    Record("facts", path=path).save()
    assert gpu.run_here("facts", path, rehearse=True) == 1
    record = Record.load(path)
    assert (
        record.status == "failed"
        and "the reason" in record.notes[0]
        and record.tables[0].rows == [[1]]
    )


def test_outcomes_are_counted_in_a_log_that_is_cut_off(tmp_path: Path) -> None:
    log = tmp_path / "contract.log"
    one = "t.py::a[cupy-x 1, (2, 3)] PASSED [ 5%]\nt.py::b[cupy-y] FAILED [ 9%]\nt.py::c[cu"
    several = (
        "[gw1] [  5%] PASSED t.py::a[cupy-x 1, (2, 3)] \n[gw0] [  9%] FAILED "
        "t.py::b[cupy-y] \n[gw1] [ 9"
    )
    for text in (one, several):
        log.write_text(text)
        record = Record("contract")
        gpu_parts.counted(record, log)
        assert record.facts == {"passed": 1, "failed": 1, "skipped": 0}
        assert record.notes == ["failed: b[cupy-y]"]


@pytest.mark.slow
def test_lowering_is_measured_for_every_b_p_together_with_the_kernels_and_plain_products(
    tmp_path: Path,
) -> None:
    command = [
        sys.executable,
        "-m",
        "benchmarks.lowering",
        "--net",
        "lenet",
        "--batch",
        "6",
        "--sgemm",
        "64",
    ]
    command += ["--seconds", "1", "--threads", "2", "--results", str(tmp_path)]
    done = subprocess.run(
        command, cwd=ROOT, env=environment(), capture_output=True, text=True, timeout=100
    )
    assert done.returncode == 0, done.stdout + done.stderr
    (as_json,) = tmp_path.glob("lowering-*.json")
    part = json.loads(as_json.read_text())["parts"]["lowering"]
    whole, layers = (table["rows"] for table in part["tables"])
    assert [row[0] for row in whole[2:]] == ["b_p 1", "b_p 2", "b_p 4", "b_p 6", "chosen kernels"]
    assert all(row[1] > 0 for row in whole)
    assert [row[0] for row in layers] == ["conv1", "conv2"]


def test_all_usual_budgets_together_are_under_nine_minutes() -> None:
    assert gpu.START_SECONDS + sum(gpu.PLANS[name].seconds for name in gpu.USUAL) < 540


@pytest.mark.parametrize(
    ("ticks", "expected"), [([0, 1, 1, 4, 4, 6], 2.0), ([0, 5, 5, 5, 5, 6], 1.0)]
)
def test_a_time_is_the_median_and_the_device_is_waited_for_on_both_sides(
    monkeypatch, ticks, expected
) -> None:
    said = iter(ticks)
    order = []
    monkeypatch.setattr(report.time, "perf_counter", lambda: next(said))
    taken = report.seconds_of(
        lambda: order.append("work"), repeats=3, synchronize=lambda: order.append("wait")
    )
    assert math.isclose(taken, expected)
    assert order == ["work", *["wait", "work", "wait"] * 3]


def test_a_table_shows_four_digits_and_keeps_its_columns() -> None:
    table = Table("t", ["a", "b"], [[1.23456, "x|y"]])
    assert table.markdown() == "**t**\n\n| a | b |\n| --- | --- |\n| 1.235 | x/y |"


GEOMETRIES = [
    ConvGeometry((3, 3), pad=(1, 1)),
    ConvGeometry((5, 3), (2, 1), (2, 0)),
    ConvGeometry((3, 3), dilation=(2, 2), groups=2),
]


@pytest.mark.parametrize("geometry", GEOMETRIES, ids=str)
def test_errors_of_convolutions_follow_their_definition(geometry: ConvGeometry) -> None:
    layer = convolutions.Layer(ConvShape((3, 20, 9, 8), 24, geometry), first=False, bias=True)
    plain = get_backend("numpy")
    made = convolutions.made_up(layer, plain)
    given = {name: made[name].astype(np.float64) for name in ("x", "w", "b", "dy")}
    arrays = given | {name: np.empty(made[name].shape) for name in convolutions.PASSES}
    for name, run in convolutions.our_passes(layer, plain, arrays).items():
        run()
        assert conv_reference.error(layer.shape, name, arrays) < 1e-12
        arrays[name][0, 0, 0, 0] += 0.5 * np.abs(arrays[name]).max() + 1
        # for other layers only the last group is compared
        planted = layer.shape.geometry.groups == 1
        assert (conv_reference.error(layer.shape, name, arrays) > 0.01) == planted
        arrays[name].fill(np.nan)
        assert math.isnan(conv_reference.error(layer.shape, name, arrays))


def test_the_convolutions_of_a_net_are_counted_once_each_and_the_first_needs_no_gradient_of_images() -> (
    None
):
    found = convolutions.layers_of("vgg16", get_backend("cpu"))
    assert sum(found.values()) == 13
    assert len(found) == 9
    assert [len(layer.passes) for layer in found] == [2] + [3] * 8
    assert str(next(iter(found))) == "8 x 3 x 224 x 224, 64 of 3 x 3"
    assert next(iter(found)).flops == 2 * 8 * 64 * 224 * 224 * 27
    assert next(iter(found)).bytes() == 4 * 8 * (3 + 64) * 224 * 224
    assert next(iter(found)).bytes(BFLOAT16) == 8 * (4 * 3 + 2 * 64) * 224 * 224


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_of_convolutions_has_layers_of_this_kind(kind: str) -> None:
    groups = {layer.shape.geometry.groups for layer in KINDS[kind]}
    assert {layer.depthwise for layer in KINDS[kind]} == {kind == "depthwise"}
    assert {layer.first for layer in KINDS[kind]} == {kind == "few channels"}
    assert (groups == {1}) == (kind in ("dense", "few channels"))


def test_the_bound_of_a_kernel_is_the_longer_of_its_products_and_its_bytes() -> None:
    bound = Bounds(copied=10.0, multiplied=200.0, plain=100.0)
    assert bound.seconds(400e9, 10e9) == 2.0
    assert bound.seconds(400e9, 10e9, plain=True) == 4.0
    assert bound.seconds(400e9, 30e9) == 3.0


def test_slow_passes_and_errors_above_their_bound_are_listed_at_the_end() -> None:
    record = Record("fast, 1 threads")
    record.table("t")
    for shape, ratio, error in (
        ("s", 0.89, 1e-6),
        ("s", 2.0, 2e-4),
        ("t", 1.0, 1e-6),
        ("t", 1.0, math.nan),
    ):
        record.row("n", 1, shape, "forward", "Direct", 1, 1, 1.0, ratio, 1.0, 1.0, 1.0, error)
    kernels.conclude(record, {"n": [2.0, 1.0]}, kernels.ERRORS["fast"])
    assert record.status == "failed"
    assert record.notes == [
        "0 of 2 layers below 0.9, their passes taken together; the least 1.00",
        "0.89 of PyTorch: n, s, forward, Direct",
        "error 2.0e-04 above 1e-04: n, s, forward, Direct",
        "error nan above 1e-04: n, t, forward, Direct",
    ]
    assert record.tables[1].rows == [["n", 2000.0, 1000.0, 2.0]]
    assert record.tables[2].rows == [["n", "s", pytest.approx((0.89 + 2.0) / 2)], ["n", "t", 1.0]]


def test_sides_take_turns_and_each_round_has_a_time_of_each() -> None:
    order: list[str] = []
    taken = report.rounds(
        {"a": lambda: order.append("a"), "b": lambda: order.append("b")}, 0, least=2, most=9
    )
    assert {label: len(times) for label, times in taken.items()} == {"a": 2, "b": 2}
    assert order[:4] == ["a", "b", "a", "b"]
    assert order.count("a") >= 3 and order.count("b") >= 3
    assert report.medians({"a": [3.0, 1.0, 2.0]}) == {"a": 2.0}


def test_a_ratio_pairs_the_rounds_so_that_a_slow_time_of_the_machine_does_not_count() -> None:
    # The machine is three times slower in two rounds of five. The medians of the two sides come
    # from different rounds.
    assert report.ratio([2.0, 2.0, 6.0, 6.0, 2.0], [1.0, 1.0, 3.0, 3.0, 1.0]) == 2.0
    assert report.ratio([1.0, 3.0, 3.0], [1.0, 1.0, 3.0]) == 1.0


@pytest.mark.parametrize(
    ("found", "bar", "text", "status"),
    [
        (-0.1, {"most": 0.05}, "n: -0.1, bar at most 0.05", "running"),
        (0.1, {"most": 0.05}, "MISSED n: 0.1, bar at most 0.05", "failed"),
        (-0.1, {"most": 0.0}, "n: -0.1, bar at most 0", "running"),
        (-0.1, {"least": 0.0}, "MISSED n: -0.1, bar at least 0", "failed"),
        (math.nan, {"most": 0.05}, "MISSED n: nan, bar at most 0.05", "failed"),
    ],
)
def test_a_figure_below_0_meets_a_bar_from_above(
    found: float, bar: dict[str, float], text: str, status: str
) -> None:
    record = Record("r")
    record.judge("n", found, **bar)
    assert (record.notes, record.status) == ([text], status)
