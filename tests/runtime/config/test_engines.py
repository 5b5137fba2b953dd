"""The keys of [launcher.ray], and the error where Ray is not installed."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from runtime.config.file import load
from runtime.config.recorded import dump
from runtime.errors import ConfigError
from tests.helpers.support import configure, environment, runtime_command

RAY = '[launcher]\nkind = "ray"\n{more}\n[[machine]]\nname = "m0"\naddress = "auto"\n'


def written(folder: Path, text: str) -> Path:
    path = folder / "cluster.toml"
    path.write_text(text)
    return path


def test_the_keys_for_ray_are_read_and_written_again(tmp_path: Path) -> None:
    said = RAY.format(more='ray = { address = "ray://10.0.0.1:10001", resources = { GPU = 1.0 } }')
    config = load(written(tmp_path, said))
    assert config.launcher.ray is not None
    assert (config.launcher.ray.host, config.launcher.ray.resources) == ("10.0.0.1", {"GPU": 1.0})
    assert load(written(tmp_path, dump(config))) == config


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(
            '[launcher]\nkind = "ssh"\nray = { address = "auto" }\n',
            "cluster.toml:3: launcher.ray: has an effect only with launcher.kind = 'ray'",
            id="of another kind",
        ),
        pytest.param(
            RAY.format(more="ray = { resources = { CPU = 2.0 } }"),
            (
                "cluster.toml:3: launcher.ray.resources: expected names of resources and amounts "
                "> 0; CPU is machine.cores"
            ),
            id="cores",
        ),
        pytest.param(
            RAY.format(more='ray = { adress = "auto" }'),
            "cluster.toml:3: launcher.ray.adress: unknown key (did you mean 'address'?)",
            id="misspelt",
        ),
    ],
)
def test_a_table_of_ray_that_is_wrong_or_without_effect_is_refused_at_its_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, expected: str
) -> None:
    monkeypatch.chdir(tmp_path)
    written(tmp_path, text)
    with pytest.raises(ConfigError) as caught:
        load(Path("cluster.toml"))
    assert any(problem.startswith(expected) for problem in caught.value.problems), (
        caught.value.problems
    )


def test_without_ray_the_error_of_up_names_the_package_to_install(tmp_path: Path) -> None:
    # this module is found before any other
    (tmp_path / "ray.py").write_text("raise ModuleNotFoundError('none', name='ray')")
    more = RAY.format(more='address = "127.0.0.1"')
    cluster = configure(tmp_path, "single", iterations=2, more=more)
    command = runtime_command("up", cluster.name)
    done = subprocess.run(
        command, cwd=tmp_path, env=environment(), capture_output=True, text=True, check=False
    )
    missing = "the package 'ray' is not installed here: pip install 'convoy-runtime[ray]'"
    assert (done.returncode, done.stderr) == (3, f"machine 'm0': ray: {missing}\n")
