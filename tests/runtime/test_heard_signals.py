"""Signals that a process was started to ignore: they stay ignored in every place that handles
signals."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Iterator

import pytest

from runtime.cli.interrupts import Interrupts
from runtime.cli.watch.quit_keys import pressed
from runtime.heard_signals import heard
from runtime.runs.signals import Signals

HANDLED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Run:
    """A run that notes what it is asked for."""

    has_begun = True

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.is_ending = asyncio.Event()

    async def wind_down(self, reason: str = "") -> None:
        self.asked.append(reason)
        self.is_ending.set()

    async def end_now(self) -> None:
        self.asked.append("end")

    async def save(self) -> None:
        self.asked.append("save")


@pytest.fixture(autouse=True)
def background() -> Iterator[None]:
    """The signals as `nohup sh -c "command &"` leaves them: SIGINT and SIGHUP are ignored."""
    before = {number: signal.getsignal(number) for number in HANDLED}
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def test_only_signals_that_are_not_ignored_may_be_handled() -> None:
    assert heard(*HANDLED) == [signal.SIGTERM]


async def test_a_run_in_the_background_goes_on_after_ctrl_c_and_ends_after_sigterm() -> None:
    run = Run()
    with Signals(run) as signals:
        for number in HANDLED:
            os.kill(os.getpid(), number)
        await run.is_ending.wait()
        assert (run.asked, signals.number) == (["SIGTERM"], signal.SIGTERM)
    assert signal.getsignal(signal.SIGINT) == signal.SIG_IGN


async def test_a_live_view_in_the_background_goes_on_after_ctrl_c() -> None:
    with pressed() as ended:
        assert signal.getsignal(signal.SIGINT) == signal.SIG_IGN
        os.kill(os.getpid(), signal.SIGINT)
        assert not ended.is_set()


def test_a_command_in_the_background_goes_on_after_ctrl_c_from_its_first_line_on() -> None:
    Interrupts().hear()
    assert signal.getsignal(signal.SIGINT) == signal.SIG_IGN
    assert signal.getsignal(signal.SIGTERM) != signal.SIG_IGN
