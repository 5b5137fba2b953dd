"""Run failed tests a second time, alone: `python -m tests.second_chance COMMAND...`, where each
command ends with pytest.

One unsteady test of thousands must not reject a change, and must not stay unseen. So .ci/run
accepts a few tests that pass in the second run, and lists them at the end. As a plugin of pytest
(`-p tests.second_chance --outcomes=FILE`) this module writes the outcomes of a run. Runs of pytest
without the plugin are unchanged.
"""

from __future__ import annotations

import json
import shlex
import signal
import subprocess
import sys
import tempfile
from collections.abc import Generator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import FrameType

import pytest

ACCEPTED = 5  # unsteady tests of all commands together
LAST_LINES = 12
PLUGIN = "tests.second_chance"
TIMED_OUT = "timed out"  # a property of a test


@dataclass
class Outcomes:
    """The outcomes of one run of pytest. `broken` has the reasons against a second run, such as a
    crash or a time-out.
    """

    passed: list[str] = field(default_factory=list)
    # node id -> the last lines of its first failure
    failed: dict[str, str] = field(default_factory=dict)
    broken: list[str] = field(default_factory=list)


class Recorder:
    """Writes the outcomes of a run into a file when the run ends. A pytest that dies leaves no
    file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._outcomes = Outcomes()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            last = report.longreprtext.splitlines()[-LAST_LINES:]
            self._outcomes.failed.setdefault(report.nodeid, "\n".join(last))
        elif report.passed and report.when == "call":
            self._outcomes.passed.append(report.nodeid)
        if report.when == "teardown" and any(
            name == TIMED_OUT for name, _ in report.user_properties
        ):
            self._outcomes.broken.append(f"{report.nodeid} timed out")

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self._outcomes.broken.append(f"{report.nodeid} could not be collected")

    def pytest_internalerror(self, excinfo: pytest.ExceptionInfo[BaseException]) -> None:
        self._outcomes.broken.append(f"internal error of pytest: {excinfo.exconly()}")

    def pytest_keyboard_interrupt(self, excinfo: pytest.ExceptionInfo[BaseException]) -> None:
        self._outcomes.broken.append(f"interrupted: {excinfo.exconly()}")

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: object, error: object) -> None:
        if error:  # None if a worker process ends after its last test
            self._outcomes.broken.append(f"{node!r} crashed: {error}")

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if stopped := session.shouldstop or session.shouldfail:
            self._outcomes.broken.append(f"stopped before the last test: {stopped}")
        self._path.write_text(json.dumps(asdict(self._outcomes)), "utf-8")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--outcomes",
        type=Path,
        metavar="FILE",
        help=("write the outcome of each test into this file"),
    )


def pytest_configure(config: pytest.Config) -> None:
    if (path := config.getoption("outcomes")) and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Recorder(path), "outcomes")


@pytest.hookimpl(wrapper=True, optionalhook=True)
def pytest_timeout_set_timer(item: pytest.Item) -> Generator[None, object, object]:
    """Record a time-out in the process of the test. An event loop may swallow the time-out's
    exception, and another exception then fails the test.
    """
    result = yield
    if callable(handler := signal.getsignal(signal.SIGALRM)):

        def timed_out(number: int, frame: FrameType | None) -> None:
            item.user_properties.append((TIMED_OUT, True))
            handler(number, frame)

        signal.signal(signal.SIGALRM, timed_out)
    return result


def run(command: str) -> tuple[int, Outcomes]:
    """The exit code of a shell command that ends with pytest, and the outcomes of its tests."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "outcomes.json"
        code = subprocess.run(
            f"{command} -p {PLUGIN} --outcomes={shlex.quote(str(path))}", shell=True, check=False
        ).returncode
        if path.exists():
            return code, Outcomes(**json.loads(path.read_text("utf-8")))
    return code, Outcomes(broken=["pytest did not get to its end"])


def again(node_ids: list[str]) -> str:
    """The command that runs these tests alone, without worker processes, slow tests included."""
    return shlex.join([sys.executable, "-m", "pytest", "-n", "0", "-m", "", *node_ids])


def obstacle(code: int, outcomes: Outcomes, left: int) -> str:
    """The reason why the failures of a run are final; "" if its failed tests may run a second
    time.
    """
    if outcomes.broken:
        return "; ".join(outcomes.broken)
    if code != pytest.ExitCode.TESTS_FAILED or not outcomes.failed:
        return f"pytest ended with exit code {code} and {len(outcomes.failed)} failed tests"
    if len(outcomes.failed) > left:
        return f"{len(outcomes.failed)} tests failed, and {left} may be unsteady at most"
    return ""


def accepted(command: str, unsteady: dict[str, str]) -> int:
    """Run a command, then its failed tests a second time; return 0 if all passed. Adds the tests
    that failed once to `unsteady`.
    """
    code, first = run(command)
    if code == 0 and not first.broken:
        return 0
    if reason := obstacle(code, first, ACCEPTED - len(unsteady)):
        say(f"No second run: {reason}.")
        return code if code > 0 else 1
    say(f"Failed tests run once more, alone: {len(first.failed)}.")
    code, second = run(again(list(first.failed)))
    steady = {node_id for node_id in second.passed if node_id not in second.failed}
    unsteady |= {node_id: text for node_id, text in first.failed.items() if node_id in steady}
    if lost := [node_id for node_id in first.failed if node_id not in steady]:
        say("Did not pass in the second run either:", *lost)
    return 1 if code or lost or second.broken else 0


def say(*lines: str) -> None:
    print(*lines, sep="\n  ", flush=True)


def main(commands: list[str]) -> int:
    """Run commands until one is not accepted, then list the unsteady tests of all. Returns the exit
    code of the last one.
    """
    unsteady: dict[str, str] = {}
    code = next((code for command in commands if (code := accepted(command, unsteady))), 0)
    if unsteady:
        say(
            f"Unsteady tests, which failed and then passed alone: {len(unsteady)} "
            f"({ACCEPTED} are accepted at most)."
        )
    for node_id, text in unsteady.items():
        say(f"unsteady: {node_id}", *text.splitlines())
    return code


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:  # pytest has got the signal too, and reports it
        sys.exit(128 + signal.SIGINT)
