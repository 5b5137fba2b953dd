"""Defaults of keys of cluster.toml that packages below the configuration also use. Each default is
written only here."""

from __future__ import annotations

from dataclasses import dataclass

CREDIT_BYTES = 64 << 20  # links.credit_bytes
MESSAGE_BYTES = 1 << 30  # links.max_message_bytes


@dataclass(frozen=True)
class LivenessTimes:
    """[liveness], in seconds; see `runtime.config.sections.Liveness`."""

    heartbeat_seconds: float = 0.25
    missed: int = 9
    link_seconds: float = 6.0
    progress_seconds: float = 10.0
    start_seconds: float = 30.0
    prepare_seconds: float = 300.0
    standstill_seconds: float = 30.0


LIVENESS = LivenessTimes()
