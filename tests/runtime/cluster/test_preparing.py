"""Log records of a library while it prepares: they become events, and a record that it will hold
the interpreter's lock is reported.
"""

from __future__ import annotations

import logging
from typing import Any

from ops.holding import holds_lock
from runtime.cluster.preparing import LoggedHold, LoggedPreparation


def test_a_log_record_of_preparation_is_passed_on_with_its_three_fields() -> None:
    told: list[dict[str, Any]] = []
    handler = LoggedPreparation(told.append)
    log = logging.getLogger("tests.preparing")
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    try:
        log.info(
            "reading",
            extra={"preparing": {"done": 1, "total": 4, "what": "reading", "more": "is left out"}},
        )
        log.info("something else")
        log.warning("the disk is slow")
    finally:
        log.removeHandler(handler)
    assert told == [{"what": "reading", "done": 1, "total": 4}]


def test_code_that_will_hold_the_interpreters_lock_goes_on_once_that_is_reported() -> None:
    order: list[str] = []
    handler = LoggedHold(lambda: order.append("heard"))
    log = logging.getLogger("ops.holding")
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    try:
        holds_lock("a library is loaded")
        order.append("loaded")
        log.info("something else")
    finally:
        log.removeHandler(handler)
        log.setLevel(logging.NOTSET)
    assert order == ["heard", "loaded"]
