"""The host names under which pages may be requested: a request with a stranger's name, which
resolves to this machine, gets nothing.
"""

from __future__ import annotations

import socket
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from runtime.actors.metrics import Metrics, Pages
from runtime.config.file import of_script
from runtime.runs.pages import names_of
from runtime.serving.hosts import Hosts, own_names

EVIL = [
    "evil.example",
    "evil.example:9464",
    "localhost.evil.example",
    "127.0.0.1.evil.example:80",
    "EVIL.example.:1",
]
EVIL += [
    "10.0.0.1@evil.example",
    "evil.example:80:80",
    "[evil.example]:80",
    "node7.evil.example",
    "a b",
    "*",
    "local",
]


def hosts(*names: str) -> Hosts:
    return Hosts(names, lambda: ["node7", "Node7.Example.org."])


@pytest.mark.parametrize("header", EVIL)
def test_a_name_that_is_not_the_machines_is_refused(header: str) -> None:
    assert not hosts("other.example").admits(header)
    assert hosts("*").admits(header)


@pytest.mark.parametrize(
    "header", ["127.0.0.1:9464", "10.1.2.3", "[::1]:9464", "[fe80::1]", "::1", "10.244.3.9:9500"]
)
def test_an_address_is_admitted_as_prometheus_scrapes_by_it(header: str) -> None:
    assert hosts().admits(header)


@pytest.mark.parametrize(
    "header",
    [
        "localhost",
        "LOCALHOST:80",
        "localhost.",
        "node7:9500",
        "node7.example.ORG:1",
        "node7.example.org.",
    ],
)
def test_the_machines_own_names_are_admitted_in_any_writing(header: str) -> None:
    assert hosts().admits(header)


def test_a_name_of_cluster_toml_is_admitted_and_so_is_a_request_without_a_host() -> None:
    assert hosts("Convoy.Monitoring.svc").admits("convoy.monitoring.svc:9464")
    assert hosts().admits("")


def test_a_machine_also_has_the_aliases_of_its_name_in_the_files_of_its_system(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(socket, "gethostname", lambda: "Node7")
    assert list(own_names(tmp_path)) == ["node7"]  # without these files
    (tmp_path / "hosts").write_text(
        "127.0.0.1 localhost ads.example\n10.0.0.7 node7.rack node7 # n7\n\n10.0.0.8 node8\n"
    )
    (tmp_path / "resolv.conf").write_bytes(
        b"# \xff\nnameserver 10.0.0.1\nsearch lab.example ns.svc.cluster.local\nsearch\n"
    )
    assert set(own_names(tmp_path)) == {
        "node7",
        "node7.rack",
        "node7.lab.example",
        "node7.ns.svc.cluster.local",
    }
    monkeypatch.setattr(socket, "gethostname", lambda: "node7.rack")
    assert set(own_names(tmp_path)) == {"node7", "node7.rack"}


def test_hosts_of_machines_are_names_of_their_pages() -> None:
    machines = [{"name": "a", "host": "user@node7.example"}, {"name": "b", "host": "node8"}]
    tables = {
        "machine": machines,
        "metrics": {"hosts": ["more.example"]},
        "launcher": {"kind": "ssh"},
    }
    assert {"more.example", "node7.example", "node8"} <= {
        *names_of(of_script("launch()", tables, Path()))
    }


@pytest.fixture
def pages() -> Iterator[Pages]:
    made = Pages(Metrics(), "127.0.0.1", 0, names=["more.example"], sd=list)
    yield made
    made.close()


@pytest.mark.parametrize("path", ["metrics", "sd", "", "anything"])
def test_every_page_is_refused_to_a_strangers_name_and_shown_by_address_and_names(
    pages: Pages, path: str
) -> None:
    def status(host: str) -> tuple[int, str]:
        request = urllib.request.Request(
            f"http://127.0.0.1:{pages.port}/{path}", headers={"Host": host}
        )
        try:
            with urllib.request.urlopen(request, timeout=10) as answer:
                return answer.status, ""
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    code, said = status("evil.example:9464")
    assert code == 403
    assert said == (
        "These pages are not served under the name evil.example:9464: use the machine's address "
        "or name, or add that name to metrics.hosts.\n"
    )
    assert not pages.visits.expected(path, 0.0)
    for host in (f"127.0.0.1:{pages.port}", "localhost", socket.gethostname(), "more.example:80"):
        assert status(host) == (200, "")
