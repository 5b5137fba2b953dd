"""The choice among several reports of one death: the report that explains the others is shown."""

from __future__ import annotations

import pytest

from runtime.cluster.launcher import LOST, describe_exit
from runtime.cluster.supervising.causes import FAILURE_SECONDS, Causes, cut
from runtime.errors import LaunchError, RoleDied

ENDED = RoleDied("a exited with status 7")
LOST_PEER = RoleDied("b cannot send to a")
OWN_WORDS = LaunchError("a cannot listen")


def test_a_failure_waits_for_an_exit_that_explains_it_and_is_shown_if_none_comes() -> None:
    causes = Causes()
    assert not causes
    causes.failed("b", LOST_PEER, 10.0)
    assert causes
    assert causes.told(10.0 + 0.9 * FAILURE_SECONDS) is None
    assert causes.told(10.0 + FAILURE_SECONDS) is LOST_PEER


@pytest.mark.parametrize("exit_first", [True, False])
def test_an_exit_explains_the_failure_of_another_process_whichever_is_reported_first(
    exit_first: bool,
) -> None:
    causes = Causes()
    if exit_first:
        causes.exited("a", ENDED, 0.0)
    causes.failed("b", LOST_PEER, 0.1)
    if not exit_first:
        causes.exited("a", ENDED, 0.4)
    assert causes.told(1.0) is ENDED


def test_the_own_error_of_a_process_that_ended_is_shown_if_it_reported_one() -> None:
    causes = Causes()
    causes.failed("b", LOST_PEER, 0.0)
    causes.exited("a", ENDED, 0.1)
    causes.failed("a", OWN_WORDS, 0.2)
    assert causes.told(1.0) is OWN_WORDS


def test_of_several_failures_and_of_several_exits_the_first_is_shown() -> None:
    causes = Causes()
    causes.failed("b", LOST_PEER, 0.0)
    causes.failed("b", OWN_WORDS, 0.1)
    causes.failed("c", OWN_WORDS, 0.1)
    assert causes.told(1.0) is LOST_PEER
    assert repr(causes) == "<causes: 2 failures, 0 exits>"
    causes.exited("d", ENDED, 0.2)
    causes.exited("e", OWN_WORDS, 0.3)
    assert causes.told(1.0) is ENDED


@pytest.mark.parametrize(
    ("status", "out_of_memory", "told"),
    [
        (-9, False, "killed by SIGKILL"),
        (-9, True, "killed by the kernel for memory (out of memory)"),
        (-9, None, "killed by SIGKILL: often the kernel, for memory"),
        (-11, True, "killed by SIGSEGV"),
        (-200, None, "killed by signal 200"),
        (3, None, "exited with status 3"),
        (LOST, False, "is lost: the process it was forked from was killed"),
        (
            LOST,
            True,
            "is lost: the process it was forked from was killed by the kernel for memory "
            "(out of memory)",
        ),
    ],
)
def test_an_exit_is_described_in_words_and_names_memory_if_the_kernel_reports_it(
    status: int, out_of_memory: bool | None, told: str
) -> None:
    assert describe_exit(status, out_of_memory) == told


@pytest.mark.parametrize("silent", [[], ["b"]])
def test_the_network_is_not_blamed_for_a_link_inside_a_host(silent: list[str]) -> None:
    ends = {"a": "m0 (one, pid 1)", "b": "m0 (one, pid 2)"}
    text = cut(ends, silent, 6.0, both=True, one_host=True)
    assert "network" not in text
    assert text.endswith(
        "both are on one host: look at its load and at the logs of the two, or raise "
        "liveness.link_seconds"
    )


def test_a_lost_link_is_described_with_both_ends_and_their_hosts() -> None:
    ends = {"a": "m0 (one, pid 1)", "b": "m1 (two, pid 2)"}
    begins = (
        "the link from a to b is lost: its connection broke, or carried no sign of life for 6 s"
    )
    both = "a on m0 (one, pid 1) and b on m1 (two, pid 2)"
    text = f"{begins} (liveness.link_seconds). Both ends report it. "
    text += f"Both processes live: {both}; look at the network between them"
    assert cut(ends, [], 6.0, both=True, one_host=False) == text
    one = cut(ends, ["b"], 6.0, both=False, one_host=False)
    assert (
        f"a alone reports it. No sign of life comes from b either: {both}; look at the hosts and"
        in one
    )
