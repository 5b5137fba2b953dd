"""The signals that a process may handle. A shell starts a background command with SIGINT ignored,
and `nohup` starts a command with SIGHUP ignored: these signals stay ignored."""

from __future__ import annotations

import signal


def heard(*numbers: signal.Signals) -> list[signal.Signals]:
    """Return those of the signals that this process does not ignore."""
    return [number for number in numbers if signal.getsignal(number) != signal.SIG_IGN]
