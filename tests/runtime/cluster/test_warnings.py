"""Warnings in a process's log: the person sees each one once, and their number is bounded."""

from __future__ import annotations

import logging

from runtime.cluster.warnings import MOST, WARNING, FirstOfEach, LoggedWarnings


def told_of(*records: tuple[int, str]) -> list[str]:
    told: list[str] = []
    handler = LoggedWarnings(told.append)
    log = logging.getLogger("tests.warnings")
    logging.getLogger().addHandler(handler)
    try:
        for level, text in records:
            log.log(level, "%s", text)
    finally:
        logging.getLogger().removeHandler(handler)
    return told


def test_each_warning_is_passed_on_once_and_no_other_record() -> None:
    warned = (logging.WARNING, "the disk is slow")
    failed = (logging.ERROR, "an actor failed")
    assert told_of(warned, failed, warned, (logging.INFO, "halting")) == ["the disk is slow"]


def test_endless_warnings_of_a_process_are_passed_on_in_a_bounded_number_of_lines() -> None:
    told = told_of(
        *((logging.WARNING, f"message {number} rejected") for number in range(10 * MOST))
    )
    assert told[:MOST] == [f"message {number} rejected" for number in range(MOST)]
    assert told[MOST:] == [f"more than {MOST} different warnings: the others are in its log"]


def test_the_same_warning_of_several_processes_is_passed_on_once() -> None:
    known = FirstOfEach()
    told = [
        known.told(WARNING, {"process": name, "text": text})
        for text in ("a", "b")
        for name in ("p", "q")
    ]
    assert told == [False, True, False, True]
    assert [known.told("progress", {"text": "a"}) for _ in range(2)] == [False, False]
