"""Plans of runs with replayed steps and graphs: the settings with which they have no effect, which
`check` reports, and their memory."""

from __future__ import annotations

from pathlib import Path

import pytest

from roles.forecasting.plan_forecast import forecast
from runtime.runs.checking import check
from tests.helpers.support import configure


def told(folder: Path, preset: str, lines: str) -> list[str]:
    """The warnings of `check` about a run on the digits with these lines in [train]."""
    cluster = configure(folder, preset)
    cluster.write_text(cluster.read_text().replace("[train]\n", f"[train]\n{lines}\n"))
    return [text for text in check(cluster, starts=False).warnings if "gpu_step" in text]


ON_GPU = 'devices = { "*" = "cuda:0" }\ngpu_step = "replay"'


@pytest.mark.parametrize("how", ["replay", "graph"])
@pytest.mark.parametrize("preset", ["single", "replicas", "sync", "mxnet-sync", "sparknet"])
def test_workers_on_a_gpu_replay_their_steps(preset: str, how: str, tmp_path: Path) -> None:
    assert told(tmp_path, preset, ON_GPU.replace("replay", how)) == []


def test_an_update_apart_from_the_pass_may_clip(tmp_path: Path) -> None:
    assert told(tmp_path, "replicas", f"optimizer = {{ clip_norm = 1.0 }}\n{ON_GPU}") == []


CASES = {
    "no gpu": ("single", 'gpu_step = "replay"', "every actor computes on the CPU; train.devices"),
    "no gpu for graphs": ("single", 'gpu_step = "graph"', "found 'graph', but every actor"),
    "shards": ("one-weird-trick", ON_GPU, "steps are plain on fc-0: a shard's pass waits"),
    "averages": ("single", f"ema = {{ decay = 0.9 }}\n{ON_GPU}", "[train.ema] averages"),
    "clipping": (
        "single",
        f"optimizer = {{ clip_norm = 1.0 }}\n{ON_GPU}",
        "clip_gradients needs a norm on the host",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_settings_that_keep_steps_plain_are_reported_with_their_line(
    case: str, tmp_path: Path
) -> None:
    preset, lines, expected = CASES[case]
    (line,) = told(tmp_path, preset, lines)
    assert "cluster.toml" in line and expected in line


@pytest.mark.parametrize("preset", ["replicas", "sync"])
def test_a_plan_counts_the_gradients_of_a_recorded_pass_and_those_that_leave(
    preset: str, tmp_path: Path
) -> None:
    held = {}
    for how in ("plain", "replay", "graph"):
        cluster = configure(tmp_path / how, preset, workers=2)
        lines = ON_GPU.replace("replay", how)
        cluster.write_text(cluster.read_text().replace("[train]\n", f"[train]\n{lines}\n"))
        memory = forecast(check(cluster, starts=False).placement.topology).memory
        held[how] = sum(of.get("gradients", 0) for of in memory.values())
    assert held["plain"] < held["replay"] == held["graph"]
