"""The list of metrics pages of a run over several machines: each page has the address of its
machine."""

from __future__ import annotations

import asyncio
import json
import platform
import socket
from pathlib import Path

import pytest

from runtime.cli.main import main
from runtime.config.file import load_with_program
from runtime.errors import LaunchError
from runtime.plan.placement import place
from runtime.runs.run import Run
from tests.helpers.adders import Add, Total, adders
from tests.helpers.ports import free_ports
from tests.helpers.support import configure, get

MACHINE = '[[machine]]\nname = "m{number}"\naddress = "127.0.0.{number}"\n'
PROCESS = '[[process]]\nname = "{name}"\nmachine = "m{number}"\nactors = ["{name}"]\n'


async def test_every_page_is_found_at_the_address_of_its_machine(tmp_path: Path) -> None:
    (tmp_path / "adds.py").write_text(
        "from tests.helpers.adders import ROLES, adders\ndef plan(*_): return adders()\n"
    )
    text = f'program = "adds"\n[run]\ndirectory = "{tmp_path}"\n[metrics]\naddress = "machine"\n'
    text += "".join(MACHINE.format(number=number) for number in (2, 3))
    text += "".join(
        PROCESS.format(number=number, name=name) for number, name in ((2, "one"), (3, "two"))
    )
    (tmp_path / "cluster.toml").write_text(text)
    loaded = load_with_program(tmp_path / "cluster.toml")
    async with Run(place(adders(), loaded.config), loaded.config) as run:
        await run.ask("two", Add(number=1), Total)
        listed = json.loads(await asyncio.to_thread(get, run.metrics_url))
        targets = {entry["labels"]["process"]: entry["targets"][0] for entry in listed}
        pages = [
            await asyncio.to_thread(get, f"http://{target}/metrics") for target in targets.values()
        ]
        await run.tell("one", Add(number=20))
    assert {name: target.partition(":")[0] for name, target in targets.items()} == {
        "up": "127.0.0.2",
        "one": "127.0.0.2",
        "two": "127.0.0.3",
    }
    assert [entry["labels"]["machine"] for entry in listed] == [platform.node(), "m2", "m3"]
    assert f"http://{targets['up']}/sd" == run.metrics_url
    assert run.metrics_url.startswith("http://127.0.0.2:")
    assert all("convoy_messages_received_total" in page for page in pages)


@pytest.mark.parametrize(
    ("readers", "code"), [("", 2), ('readers = ["*"]\n', 0), ('readers = ["prometheus"]\n', 2)]
)
def test_pages_that_other_machines_reach_are_public_there_and_need_an_explicit_setting(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    readers: str,
    code: int,
) -> None:
    monkeypatch.chdir(tmp_path)
    more = (
        '[links]\ntransport = "tcp"\n[[machine]]\nname = "n"\nnamespace = "n"\naddress = "eth0"\n'
    )
    configure(tmp_path, "single", more=f'[metrics]\naddress = "machine"\n{readers}{more}')
    assert main(["check"]) == code
    told = capsys.readouterr().err.splitlines()
    assert told == [
        "cluster.toml:2: metrics.address: metrics.readers cannot limit the users of other "
        "machines, since their names are not known here: set metrics.readers = ['*'] to admit all "
        "users"
    ] * (code == 2)


PORTS = """program = "adds"
[run]
directory = "{folder}"
[metrics]
process_ports = {base}
"""


def two_adders(folder: Path, monkeypatch: pytest.MonkeyPatch, base: int) -> Run:
    monkeypatch.syspath_prepend(str(folder))
    (folder / "adds.py").write_text(
        "from tests.helpers.adders import ROLES, adders\ndef plan(*_): return adders()\n"
    )
    (folder / "cluster.toml").write_text(PORTS.format(folder=folder, base=base))
    loaded = load_with_program(folder / "cluster.toml")
    return Run(place(adders(), loaded.config), loaded.config)


async def test_processes_take_the_ports_from_the_wanted_one_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with free_ports(3) as base:
        async with two_adders(tmp_path, monkeypatch, base) as run:
            await run.ask("two", Add(number=1), Total)
            listed = json.loads(await asyncio.to_thread(get, run.metrics_url))
            page = await asyncio.to_thread(get, f"http://127.0.0.1:{base + 1}/metrics")
            await run.tell("one", Add(number=20))
    targets = {entry["labels"]["process"]: entry["targets"][0] for entry in listed}
    assert {name: targets[name] for name in ("one", "two")} == {
        "one": f"127.0.0.1:{base}",
        "two": f"127.0.0.1:{base + 1}",
    }
    assert 'actor="two"' in page


async def test_a_port_of_a_process_that_is_taken_ends_the_start_with_its_number_and_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with (
        free_ports(3) as base,
        socket.create_server(("127.0.0.1", base + 1)),
        pytest.raises(
            LaunchError,
            match=(
                rf"127\.0\.0\.1:{base + 1}: .*in use; choose " rf"another metrics\.process_ports"
            ),
        ),
    ):
        async with two_adders(tmp_path, monkeypatch, base):
            pass
