"""Lists and files of hosts, and the machines for which a [[machine]] entry stands."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from runtime.config.file import load
from runtime.config.hostfile import Host, expanded, matching, of_file
from runtime.config.recorded import dump
from runtime.errors import ConfigError

ELSEWHERE = "[launcher]\nkind = 'ssh'\n"


@pytest.mark.parametrize(
    ("text", "hosts"),
    [
        ("gpu", "gpu"),
        ("node[1-3]", "node1 node2 node3"),
        ("node[01-03,7],gpu[1,3-5]", "node01 node02 node03 node7 gpu1 gpu3 gpu4 gpu5"),
        ("node[8-11]", "node8 node9 node10 node11"),
        ("rack[0-1]n[1-2].lan, head", "rack0n1.lan rack0n2.lan rack1n1.lan rack1n2.lan head"),
        ("me@node[1-2]", "me@node1 me@node2"),
    ],
)
def test_a_list_of_hosts_is_expanded_as_slurm_does_it(text: str, hosts: str) -> None:
    assert expanded(text) == hosts.split()


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "found nothing between two commas, expected a host"),
        ("a,,b", "found nothing between two commas, expected a host"),
        (
            "node[1-",
            ("found 'node[1-', expected hosts such as 'node[1-8]' or 'node[01-16],gpu[1,3-5]'"),
        ),
        (
            "node 1",
            ("found 'node 1', expected hosts such as 'node[1-8]' or 'node[01-16],gpu[1,3-5]'"),
        ),
        ("node[3-1]", "the range '3-1' in 'node[3-1]' ends before it begins"),
        ("node[a]", "found 'a' in 'node[a]', expected a number or a range such as 1-8"),
        ("node[1-999999999]", "'node[1-999999999]' stands for more than 100000 hosts"),
        ("a[1-500]b[1-500]", "'a[1-500]b[1-500]' stands for more than 100000 hosts"),
    ],
)
def test_a_malformed_list_is_refused_with_the_part_that_is_wrong(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(why)}$"):
        expanded(text)


def test_a_text_means_machines_by_name_by_list_or_by_pattern_and_keeps_their_order() -> None:
    names = ["head", "node1", "node2", "node10", "a[1]"]
    assert matching("head", names) == ("head",)
    assert matching("a[1]", names) == ("a[1]",)
    assert matching("node[1-2]", names) == ("node1", "node2")
    assert matching("node*,head", names) == ("head", "node1", "node2", "node10")
    assert matching("node?", names) == ("node1", "node2")
    with pytest.raises(ValueError, match=r"^node3$"):
        matching("node[1-3]", names)
    with pytest.raises(ValueError, match=r"^gpu\*$"):
        matching("head,gpu*", names)


def test_a_file_of_hosts_may_be_open_mpis_or_mpichs_and_repeat_a_host_for_each_slot() -> None:
    text = (
        "# the rack\nnode1\n\nnode2 slots=4 max_slots=8  # large\nnode3:2\nnode2 "
        "slots=1\npbs\npbs\npbs\n"
    )
    assert of_file(text) == [Host("node1"), Host("node2", 5), Host("node3", 2), Host("pbs", 3)]


@pytest.mark.parametrize(
    "line", ["node1 slots=x", "node1 cpu=3", "node1:", "slots=3 node1", "no de"]
)
def test_a_line_that_names_no_host_is_refused_with_its_number(line: str) -> None:
    with pytest.raises(ValueError, match="line 2: found '") as caught:
        of_file(f"good\n{line}\n")
    assert str(caught.value).endswith("expected a host, such as 'node1' or 'node1 slots=4'")


# -- in cluster.toml


def written(folder: Path, text: str) -> Path:
    path = folder / "cluster.toml"
    path.write_text(text)
    return path


def problems(path: Path) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        load(path)
    return [problem.replace(f"{path.parent}/", "") for problem in caught.value.problems]


def test_one_entry_is_a_machine_for_each_host_with_all_its_other_keys(tmp_path: Path) -> None:
    text = f"{ELSEWHERE}[[machine]]\nname = 'head'\nhost = 'me@10.0.0.1'\naddress = 'eth1'\n"
    text += (
        "[[machine]]\nhosts = 'me@node[1-2]'\ncores = 8\npython = "
        "'/opt/bin/python'\ndata = '/scratch'\n"
    )
    text += "environment = { OMP_PLACES = 'cores' }\n"
    config = load(written(tmp_path, text))
    shown = [
        (m.name, m.host, m.address, m.cores, m.python, m.data, m.entry) for m in config.machine
    ]
    assert shown == [
        ("head", "me@10.0.0.1", "eth1", None, None, None, 0),
        ("node1", "me@node1", "auto", 8, "/opt/bin/python", "/scratch", 1),
        ("node2", "me@node2", "auto", 8, "/opt/bin/python", "/scratch", 1),
    ]
    assert config.machine[2].environment == {"OMP_PLACES": "cores"}
    again = load(written(tmp_path, dump(config)))
    assert again == config


def test_hosts_come_from_a_list_the_environment_or_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLURM_NODELIST", "n[01-02],m1")
    (tmp_path / "hosts").write_text("big slots=8\nsmall\n")
    text = "[[machine]]\nhosts = ['a', 'b[1-2]']\n[[machine]]\nhosts = '$SLURM_NODELIST'\n"
    text += "[[machine]]\nhostfile = 'hosts'\n"
    config = load(written(tmp_path, ELSEWHERE + text))
    assert [m.name for m in config.machine] == ["a", "b1", "b2", "n01", "n02", "m1", "big", "small"]
    assert [m.cores for m in config.machine[-2:]] == [8, None]


MISTAKES = {
    "[[machine]]\nhosts = '$NO_SUCH_LIST'": (
        "cluster.toml:4: machine[0].hosts: found '$NO_SUCH_LIST', but the environment has no "
        "NO_SUCH_LIST: "
        "start this inside the allocation"
    ),
    "[[machine]]\nhosts = 'node[1-'": (
        "cluster.toml:4: machine[0].hosts: found 'node[1-', expected hosts such as 'node[1-8]' or "
        "'node[01-16],gpu[1,3-5]'"
    ),
    "[[machine]]\nhosts = []": (
        "cluster.toml:4: machine[0].hosts: found an array without a host, expected at least one"
    ),
    "[[machine]]\nhosts = 3": (
        "cluster.toml:4: machine[0].hosts: found 3 (integer), expected hosts such as "
        "'node[1-8]', '$SLURM_NODELIST', "
        "or an array of them"
    ),
    "[[machine]]\nhosts = 'a,b,a'": (
        "cluster.toml:4: machine[0].hosts: found 'a' twice, expected each host once"
    ),
    "[[machine]]\nhosts = 'node*'": (
        "cluster.toml:4: machine[0].hosts: found the host 'node*', expected a name of up to "
        "64 letters, digits, '.', "
        "'_', '-' that begins with a letter or digit"
    ),
    "[[machine]]\nname = 'n'\nhosts = 'a'": (
        "cluster.toml:4: machine[0].name: cannot be given with hosts, whose machines are "
        "named after their hosts"
    ),
    "[[machine]]\nname = 'n2'\n[[machine]]\nhosts = 'n[1-2]'": (
        "cluster.toml:6: machine[1].hosts: a machine named 'n2' exists already (cluster.toml:4)"
    ),
    "[[machine]]\nhostfile = 'absent'": (
        "cluster.toml:4: machine[0].hostfile: absent: cannot be read: No such file or directory"
    ),
    "[[machine]]\nhostfile = 'bad'": (
        "cluster.toml:4: machine[0].hostfile: bad: line 1: found 'a b', expected a host, "
        "such as 'node1' or "
        "'node1 slots=4'"
    ),
    (
        "[[machine]]\nhosts = 'n[1-30]'\n[[process]]\nname = 'p'\nactors = ['x']\nmachine = "
        "'n[29-31]'"
    ): ("cluster.toml:8: process[0].machine: no machine is named 'n31' (did you mean 'n3'?)"),
    "[[machine]]\nhosts = 'n[1-2]'\n[placement]\nspread = 'm*'": (
        "cluster.toml:6: placement.spread: no machine is named 'm*' (allowed: n1, n2)"
    ),
    "[[machine]]\naddress = '10.0.0.0/33'": (
        "cluster.toml:4: machine[0].address: found '10.0.0.0/33' (string), expected a "
        "network such as '10.0.0.0/8'"
    ),
    "[[machine]]\naddress = '0.0.0.0'": (
        "cluster.toml:4: machine[0].address: found '0.0.0.0' (string), others cannot reach "
        "it: give a network, such as "
        "'10.0.0.0/8', or an interface"
    ),
    "[[machine]]\ndata = 'here'": (
        "cluster.toml:4: machine[0].data: found 'here' (string), expected an absolute path, "
        "or one that begins with "
        "'~/'"
    ),
    "[[machine]]\nenvironment = { 'A B' = 'x' }": (
        "cluster.toml:4: machine[0].environment: found the name 'A B', expected the name of a "
        "variable"
    ),
    "[[machine]]\nenvironment = { A = 1 }": (
        "cluster.toml:4: machine[0].environment.A: found 1 (integer), expected a string"
    ),
}


@pytest.mark.parametrize("text", MISTAKES, ids=lambda text: text.replace("\n", " ")[:60])
def test_a_mistake_in_a_machine_has_one_exact_message(tmp_path: Path, text: str) -> None:
    (tmp_path / "bad").write_text("a b\n")
    assert problems(written(tmp_path, f"{ELSEWHERE}{text}\n")) == [MISTAKES[text]]


@pytest.mark.parametrize(
    ("key", "value", "found"),
    [
        ("hosts", "'n[1-2]'", "machine[0] has hosts 'n[1-2]'"),
        ("hosts", "['n1', 'n2']", "machine[0] has hosts 'n1', 'n2'"),
        ("hostfile", "'two'", "machine[0] has hostfile 'two'"),
        ("host", "'n1'", "machine 'local' has host 'n1'"),
    ],
)
def test_machines_elsewhere_are_named_by_the_key_that_the_user_wrote(
    tmp_path: Path, key: str, value: str, found: str
) -> None:
    (tmp_path / "two").write_text("n1\nn2\n")
    (line,) = problems(written(tmp_path, f"[[machine]]\n{key} = {value}\n"))
    assert line.startswith(f"cluster.toml:2: machine[0].{key}: {found}: launcher 'local' starts")


def test_hosts_elsewhere_need_a_launcher_that_reaches_them_unless_no_process_is_started(
    tmp_path: Path,
) -> None:
    text = "[[machine]]\nhosts = 'n[1-2]'\n"
    only = (
        "launcher 'local' starts processes on this machine only, at a loopback address: set "
        "launcher.kind, such as to 'ssh'"
    )
    assert problems(written(tmp_path, text)) == [
        f"cluster.toml:2: machine[0].hosts: machine[0] has hosts 'n[1-2]': {only}"
    ]
    load(written(tmp_path, f"{text}address = '127.0.0.1'\n"))
    virtual = load(written(tmp_path, f"{text}[simulation]\nclock = 'virtual'\n"))
    assert [m.name for m in virtual.machine] == ["n1", "n2"]
