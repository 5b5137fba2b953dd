"""The answers to a preset that cannot be laid out as requested: one line that names the key, and
exit 2."""

from __future__ import annotations

from pathlib import Path

import pytest

from runtime.cli.main import main

# name -> (cluster.toml, the exact line)
BROKEN = {
    "more groups than workers of an unmerged preset": (
        "[train.strategy]\npreset = 'singa'\nworkers = 2\ngroups = 3\n",
        "cluster.toml:4: train.strategy.groups: found 3, expected at most 2, the number of workers",
    ),
    "more model servers than layers": (
        "[train.strategy]\npreset = 'mxnet-sync'\nservers = 5\n",
        "cluster.toml:3: train.strategy.servers: found 5, expected at most 4, "
        "the number of layers that have parameters",
    ),
    "no model servers": (
        "[train.strategy]\npreset = 'distbelief'\nservers = 0\n",
        "cluster.toml:3: train.strategy.servers: found 0 (integer), expected an integer >= 1",
    ),
    "model servers where there is one": (
        "[train.strategy]\npreset = 'parameter-server'\nservers = 2\n",
        "cluster.toml:3: train.strategy.servers: found 2, "
        "but preset 'parameter-server' does not let you choose the number",
    ),
    "a live change of equals": (
        "[train.strategy]\npreset = 'firecaffe'\nlive = true\n",
        "cluster.toml:3: train.strategy.live: found true, "
        "but the workers of preset 'firecaffe' cannot be changed while it runs",
    ),
    "an island's option out of its range": (
        "[train.strategy]\npreset = 'islands'\n[train.strategy.options]\nsteps = 'speed'\n"
        "period = -3\n",
        "cluster.toml:5: train.strategy.options.period: found -3, expected an integer >= 0",
    ),
    "an island's speed that is not a number": (
        "[train.strategy]\npreset = 'islands'\n[train.strategy.options]\nspeeds = [1, 'fast']\n",
        "cluster.toml:4: train.strategy.options.speeds: [1]: found str, expected float",
    ),
    "a pipeline without groups": (
        "[train.strategy]\npreset = 'one-weird-trick'\npipeline = 2\n",
        "cluster.toml:3: train.strategy.pipeline: found 2, "
        "but preset 'one-weird-trick' has no groups that could share a process",
    ),
    "reproducible means": (
        "[train.strategy]\npreset = 'dl4j'\nreproducible = true\n",
        (
            "cluster.toml:3: train.strategy.reproducible: found true, but preset 'dl4j' averages "
            "models that learn separately"
        ),
    ),
    "reproducible gradients that are rounded where members send them": (
        "[train.gradients]\nformat = 'float16'\n[train.strategy]\nreproducible = true\n",
        "cluster.toml:2: train.gradients.format: found 'float16', "
        "but in a reproducible run gradients travel as they are",
    ),
    "a reproducible run on a graphics card": (
        "[train]\ndevices = { 'conv-*' = 'cuda:0' }\n[train.strategy]\nreproducible = true\n",
        (
            "cluster.toml:2: train.devices.'conv-*': found 'cuda:0', but in a reproducible run "
            "only the CPU computes"
        ),
    ),
    "reproducible races": (
        "[train.strategy]\npreset = 'adam'\nreproducible = true\n",
        (
            "cluster.toml:3: train.strategy.reproducible: found true, but preset 'adam' lets "
            "updates race"
        ),
    ),
    "a reproducible FC phase on three servers": (
        "[train.strategy]\npreset = 'local-fc-shards'\nservers = 3\nreproducible = true\n",
        (
            "cluster.toml:3: train.strategy.servers: found 3, but the FC phase of a "
            "reproducible run needs 1, 2, 4 or 8 servers"
        ),
    ),
    "reproducible updates after parts": (
        (
            "[train.strategy]\npreset = 'one-weird-trick'\nscheme = 'b'\nvariable_batch = "
            "true\nreproducible = true\n"
        ),
        "cluster.toml:4: train.strategy.variable_batch: found true, "
        "but a reproducible run adds up the gradients of all rows before it updates",
    ),
    "a team of more members than workers": (
        "[train.strategy]\npreset = 'one-weird-trick'\nscheme = 'c5'\nworkers = 4\n",
        "cluster.toml:3: train.strategy.scheme: found 'c5', which needs 5 workers, but workers = "
        "4: expected scheme 'c', or a number of at most 4",
    ),
    "a team of one": (
        "[train.strategy]\npreset = 'one-weird-trick'\nscheme = 'c1'\n",
        "cluster.toml:3: train.strategy.scheme: found 'c1' (string), expected 'a', 'b', 'c', or 'c' with "
        "a number of workers from 2, such as 'c4'",
    ),
    "reproducible sums of three": (
        "[train.strategy]\nfan_in = 3\nreproducible = true\n",
        (
            "cluster.toml:2: train.strategy.fan_in: found 3, but a reproducible run adds up in "
            "pairs: expected 2"
        ),
    ),
    "reproducible shares of different sizes": (
        "[train.strategy]\nshares = 'throughput'\nreproducible = true\n",
        (
            "cluster.toml:2: train.strategy.shares: found 'throughput', but a reproducible run's "
            "shares are 'equal'"
        ),
    ),
    "a reproducible group of three": (
        "[train.strategy]\npreset = 'sync'\nworkers = 3\nreproducible = true\n",
        (
            "cluster.toml:3: train.strategy.workers: found 3: a reproducible run's groups have "
            "1, 2, 4 or 8 workers, not 3"
        ),
    ),
    "a reproducible batch of fewer rows than micro-batches": (
        "[train]\nbatch = 3\n[train.strategy]\npreset = 'single'\nreproducible = true\n",
        "cluster.toml:5: train.strategy.reproducible: found true, but a reproducible run needs "
        "batches of 8 rows or more, not 3: images, or streams of a recurrent net",
    ),
    "several small batches of one": (
        "[train.strategy]\npreset = 'one-weird-trick'\nscheme = 'a'\nvariable_batch = true\n",
        "cluster.toml:4: train.strategy.variable_batch: found true with scheme 'a', where "
        "all rows are one FC batch, "
        "expected another scheme, such as 'b' or 'c'",
    ),
    "a GPU's precision on the CPU": (
        "[train]\nprecision = 'tf32'\n",
        "cluster.toml:2: train.precision: found 'tf32', a precision of GPUs, but "
        "every actor computes on the "
        "CPU; 'fast', 'exact' and 'bf16' are the CPU's; train.devices names GPUs",
    ),
    "a graphics card in double precision": (
        "[train]\nprecision = 'double'\ndevices = { 'conv-*' = 'cuda:0' }\n",
        (
            "cluster.toml:3: train.devices.'conv-*': found 'cuda:0', but with precision 'double' "
            "only the CPU computes"
        ),
    ),
    "an emulated device in double precision": (
        "[train]\nprecision = 'double'\ndevices = { '*' = 'emulated' }\n",
        (
            "cluster.toml:3: train.devices.'*': found 'emulated', but with precision 'double' "
            "only the CPU computes"
        ),
    ),
    "a format in double precision": (
        "[train]\nprecision = 'double'\n[train.gradients]\nformat = 'float16'\n",
        "cluster.toml:4: train.gradients.format: found 'float16', "
        "but with precision 'double' gradients travel as they are",
    ),
    "a link's format in double precision": (
        "[train]\nprecision = 'double'\n[train.gradients]\nlinks = { 'conv-* -> *' = 'one-bit' }\n",
        "cluster.toml:4: train.gradients.links.'conv-* -> *': found 'one-bit', "
        "but with precision 'double' gradients travel as they are",
    ),
    "a reproducible run in double precision": (
        "[train]\nprecision = 'double'\n[train.strategy]\nreproducible = true\n",
        "cluster.toml:4: train.strategy.reproducible: found true, "
        "but a reproducible run needs compiled kernels, and precision 'double' computes with NumPy",
    ),
    "an unmerged group larger than its batch": (
        "[train]\nbatch = 2\n[train.strategy]\npreset='mxnet-sync'\nworkers = 3\n",
        (
            "cluster.toml:5: train.strategy.workers: found 3: a group of 3 workers cannot share "
            "a batch of 2 images"
        ),
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_an_impossible_strategy_gets_its_exact_message(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    toml, expected = BROKEN[name]
    monkeypatch.chdir(tmp_path)
    Path("cluster.toml").write_text(toml)
    assert main(["check", "cluster.toml"]) == 2
    assert capsys.readouterr().err.splitlines() == [expected]
