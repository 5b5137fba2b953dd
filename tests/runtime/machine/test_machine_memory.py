"""Memory figures from the system's files: of the machine, of control groups of both versions, and
of kills.
"""

from __future__ import annotations

from pathlib import Path

from runtime.machine.memory import MachineMemory

MEMINFO = (
    "MemTotal:       16000 kB\nMemFree:  10 kB\nMemAvailable:    9000 "
    "kB\nHugePages_Total:       0\n"
)


def machine(root: Path, files: dict[str, str]) -> Path:
    for name, text in {"proc/meminfo": MEMINFO, **files}.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


def test_without_control_groups_the_machine_counts(tmp_path: Path) -> None:
    memory = MachineMemory(machine(tmp_path, {"proc/vmstat": "oom_kill 3\n"}))
    assert (memory.total, memory.available) == (16000 * 1024, 9000 * 1024)
    assert memory.killed() is False
    machine(tmp_path, {"proc/vmstat": "oom_kill 4\n"})
    assert memory.killed() is True


def test_the_tightest_of_nested_control_groups_counts(tmp_path: Path) -> None:
    group = "sys/fs/cgroup"
    files = {
        "proc/self/cgroup": "0::/job/run\n",
        f"{group}/job/memory.max": "4000000\n",
        f"{group}/job/memory.current": "3500000\n",
        f"{group}/job/memory.stat": "anon 1\ninactive_file 400000\nactive_file 100000\n",
        f"{group}/job/run/memory.max": "max\n",
        f"{group}/job/run/memory.current": "10\n",
        f"{group}/job/run/memory.events": "low 0\noom 1\noom_kill 0\n",
        "proc/vmstat": "oom_kill 3\n",
    }
    memory = MachineMemory(machine(tmp_path, files))
    assert (memory.total, memory.available) == (4000000, 1000000)
    machine(tmp_path, {"proc/vmstat": "oom_kill 9\n"})
    assert memory.killed() is False  # a process of another control group was killed
    machine(tmp_path, {f"{group}/job/run/memory.events": "oom_kill 1\n"})
    assert memory.killed() is True
    assert repr(memory) == "<memory: 4000000 bytes, 1000000 available>"


def test_control_groups_of_version_1_count_too_and_a_huge_limit_means_no_limit(
    tmp_path: Path,
) -> None:
    group = "sys/fs/cgroup/memory"
    files = {
        "proc/self/cgroup": "5:cpu:/x\n4:memory:/job\n0::/\n",
        f"{group}/memory.limit_in_bytes": "9223372036854771712\n",
        f"{group}/memory.usage_in_bytes": "5\n",
        f"{group}/job/memory.limit_in_bytes": "2000000\n",
        f"{group}/job/memory.usage_in_bytes": "500000\n",
        f"{group}/job/memory.oom_control": "oom_kill_disable 0\nunder_oom 0\noom_kill 0\n",
    }
    memory = MachineMemory(machine(tmp_path, files))
    assert (memory.total, memory.available) == (2000000, 1500000)
    machine(tmp_path, {f"{group}/job/memory.oom_control": "oom_kill 1\n"})
    assert memory.killed() is True


def test_figures_without_readable_files_are_none(tmp_path: Path) -> None:
    memory = MachineMemory(tmp_path)
    assert (memory.total, memory.available, memory.killed()) == (None, None, None)


def test_this_machine_has_memory() -> None:
    total = MachineMemory().total
    assert total is None or total > 1 << 26
