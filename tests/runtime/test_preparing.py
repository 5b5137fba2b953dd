"""What a library logs of its preparation becomes an event; nothing else does."""

from __future__ import annotations

import logging
from typing import Any

from runtime.cluster.preparing import LoggedPreparation


def test_what_is_logged_of_preparation_is_handed_on_with_its_three_fields() -> None:
    told: list[dict[str, Any]] = []
    handler, log = LoggedPreparation(told.append), logging.getLogger("tests.preparing")
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    try:
        log.info("reading", extra={"preparing": {"done": 1, "total": 4, "what": "reading", "more": "is left out"}})
        log.info("something else")
        log.warning("the disk is slow")
    finally:
        log.removeHandler(handler)
    assert told == [{"what": "reading", "done": 1, "total": 4}]
