"""The rules by which a process counts as dead, and every step of a process's life, legal or not."""

from __future__ import annotations

import pytest

from runtime.cluster.lifecycle import Heartbeat, LifeStage
from runtime.cluster.supervising.supervision import Liveness, Supervision
from runtime.errors import MessageError
from runtime.plan.topology import SUPERVISOR

EVENTS = ("hello", "ready", "begin", "halt", "exit", "reborn")
TICK = 0.25

# stage -> the next stage for each of EVENTS; None if the event is refused. It is the diagram at the
# top of `lifecycle`.
S = LifeStage
TABLE: dict[LifeStage, tuple[LifeStage | None, ...]] = {
    S.STARTING: (S.GREETED, None, None, S.HALTING, S.GONE, S.GREETED),
    S.GREETED: (None, S.READY, None, S.HALTING, S.GONE, S.GREETED),
    S.READY: (None, None, S.RUNNING, S.HALTING, S.GONE, S.GREETED),
    S.RUNNING: (None, None, None, S.HALTING, S.GONE, S.GREETED),
    S.HALTING: (None, None, None, S.HALTING, S.GONE, None),
    S.GONE: (None, None, None, None, S.GONE, S.GREETED),
}


def beat(
    process: str = "p",
    busy: float = 0.0,
    usual: float = 0.0,
    progress: int = 1,
    holds_lock: bool = False,
) -> Heartbeat:
    return Heartbeat(
        period=0.5,
        process=process,
        progress=progress,
        busy_seconds=busy,
        usual_seconds=usual,
        busy_with="worker conv1",
        loop_lag=0.0,
        actors={},
        holds_lock=holds_lock,
    )


def at_stage(stage: LifeStage, liveness: Liveness | None = None) -> Supervision:
    """The supervision of one process "p" that has reached a stage at time 0."""
    made = Supervision(["p"], liveness or Liveness(), 0.0)
    ways = {
        S.GREETED: ["hello"],
        S.READY: ["hello", "ready"],
        S.RUNNING: ["hello", "ready", "begin"],
    }
    for event in ways.get(stage, {S.HALTING: ["halt"], S.GONE: ["exit"]}.get(stage, [])):
        made.note("p", event, 0.0)
    assert made.at(stage) == ["p"]
    return made


def watched(
    made: Supervision, until: float, *, beats: Heartbeat | None = None
) -> list[tuple[str, str]]:
    """Check at every tick up to a time, with or without heartbeats; return the verdict of the last
    check.
    """
    verdict: list[tuple[str, str]] = []
    for tick in range(1, round(until / TICK) + 1):
        if beats is not None:
            made.beat(beats, tick * TICK)
        verdict = made.check(tick * TICK)
        if verdict and tick * TICK < until:
            return [("early", f"at {tick * TICK}")]
    return verdict


STEPS = [
    (stage, event, to)
    for stage, row in TABLE.items()
    for event, to in zip(EVENTS, row, strict=True)
]


@pytest.mark.parametrize(("stage", "event", "to"), STEPS)
def test_a_step_of_a_life_is_legal_if_the_table_has_it_and_changes_nothing_otherwise(
    stage: LifeStage, event: str, to: LifeStage | None
) -> None:
    made = at_stage(stage)
    if to is None:
        with pytest.raises(
            MessageError, match=(f"'{event}' of process 'p', which is {stage.value}")
        ) as caught:
            made.note("p", event, 1.0)
        assert caught.value.reason == "illegal_step"
        assert made.at(stage) == ["p"]
        assert made.processes["p"].last_heard == 0.0
    else:
        made.note("p", event, 1.0)
        assert made.at(to) == ["p"]
        assert made.processes["p"].last_heard == 1.0


@pytest.mark.parametrize("stage", [stage for stage in S if stage is not S.HALTING])
def test_the_hello_of_a_higher_incarnation_begins_a_life_and_former_lives_are_refused(
    stage: LifeStage,
) -> None:
    made = at_stage(stage)
    made.note("p", "hello", 1.0, 2)
    assert made.at(S.GREETED) == ["p"]
    for event, life in (("hello", 1), ("ready", 1), ("exit", 1), ("ready", 3)):
        with pytest.raises(MessageError, match=f"'{event}' of life {life} of 'p', now in 2"):
            made.note("p", event, 2.0, life)
    with pytest.raises(MessageError, match="'hello' of process 'p', which is greeted"):
        made.note("p", "hello", 2.0, 2)
    made.note("p", "ready", 2.0, 2)
    assert made.at(S.READY) == ["p"]


def test_no_process_is_reborn_into_a_run_that_ends() -> None:
    made = at_stage(S.HALTING)
    with pytest.raises(MessageError, match="'reborn' of process 'p', which is halting"):
        made.note("p", "hello", 1.0, 2)


@pytest.mark.parametrize("process", ["stranger", ""])
@pytest.mark.parametrize("event", [*EVENTS, "dance"])
def test_a_step_of_a_process_that_is_not_of_this_run_is_refused(process: str, event: str) -> None:
    with pytest.raises(MessageError, match="not in this run"):
        Supervision(["p"], Liveness(), 0.0).note(process, event, 0.0)


def test_a_heartbeat_of_a_stranger_is_ignored() -> None:
    made = at_stage(LifeStage.RUNNING)
    made.beat(beat("stranger"), 1.0)
    assert list(made.processes) == ["p"]


def test_all_have_reached_a_stage_only_when_each_is_exactly_there() -> None:
    made = Supervision(["p", "q"], Liveness(), 0.0)
    made.note("p", "hello", 0.0)
    assert not made.all_reached(LifeStage.GREETED)
    made.note("q", "hello", 0.0)
    assert made.all_reached(LifeStage.GREETED)
    made.note("q", "ready", 0.0)
    assert not made.all_reached(LifeStage.GREETED)
    assert made.at(LifeStage.GREETED, LifeStage.READY) == ["p", "q"]
    assert repr(made) == "<supervision p greeted, q ready>"


@pytest.mark.parametrize("stage", [S.GREETED, S.READY, S.RUNNING])
def test_a_silent_process_is_dead_after_the_missed_beats_and_one_more_never_before(
    stage: LifeStage,
) -> None:
    assert watched(at_stage(stage), 2.5) == []
    ((process, why),) = watched(at_stage(stage), 2.75)
    assert process == "p"
    assert "no heartbeat for 2.8 s" in why


def test_a_process_can_be_reached_from_its_greeting_until_it_falls_silent() -> None:
    assert not at_stage(S.STARTING).hears("p", 0.0)
    made = at_stage(S.GREETED)
    assert made.hears("p", 2.5)
    assert not made.hears("p", 2.75)


def test_a_link_between_a_living_process_and_the_supervisor_is_broken_after_the_grace() -> None:
    made = at_stage(S.RUNNING)
    made.link_lost(SUPERVISOR, "p", 5.0)
    assert made.broken(5.9) is None
    assert made.broken(6.0) == (SUPERVISOR, "p")
    assert not made.is_silent(SUPERVISOR, 60.0)
    made.note("p", "exit", 6.0)
    assert made.broken(7.0) is None


def test_a_link_that_a_former_life_lost_does_not_count_for_the_present_life() -> None:
    made = at_stage(S.RUNNING)
    made.link_lost(SUPERVISOR, "p", 5.0)
    made.note("p", "exit", 5.1)
    made.note("p", "hello", 5.2, 2)
    assert made.broken(9.0) is None


def test_a_process_on_another_host_may_also_be_silent_for_as_long_as_its_link() -> None:
    made = at_stage(S.RUNNING)
    made.is_far("p")
    assert watched(made, 8.5) == []
    assert made.is_silent("p", 2.75)
    assert not made.is_silent("p", 2.5)
    ((_, why),) = made.check(8.75)
    assert "no heartbeat for 8.8 s" in why
    assert why.endswith("or its host or the network to it is down")


@pytest.mark.parametrize("stage", [S.HALTING, S.GONE])
def test_a_process_that_ends_may_be_silent(stage: LifeStage) -> None:
    assert watched(at_stage(stage), 100.0) == []


def test_a_process_that_beats_lives_for_ever() -> None:
    assert watched(at_stage(LifeStage.RUNNING), 500.0, beats=beat()) == []


def test_other_settings_make_other_deadlines() -> None:
    slow = Liveness(heartbeat_seconds=1.0, missed=9)
    assert watched(at_stage(LifeStage.RUNNING, slow), 10.0) == []
    assert watched(at_stage(LifeStage.RUNNING, slow), 10.25) != []


def test_a_process_that_does_not_report_after_its_start_is_dead_by_its_own_deadline() -> None:
    assert watched(at_stage(LifeStage.STARTING), 30.0) == []
    ((_, why),) = watched(at_stage(LifeStage.STARTING), 30.25)
    assert "did not report within 30 s of its start" in why


@pytest.mark.parametrize(
    ("busy", "usual", "stuck"),
    [
        (9.9, 0.001, False),
        (10.1, 0.001, True),
        (10.1, 2.0, False),
        (19.9, 2.0, False),
        (20.1, 2.0, True),
        (0, 0, False),
    ],
)
def test_array_work_is_stuck_at_ten_times_the_usual_but_never_under_the_floor(
    busy: float, usual: float, stuck: bool
) -> None:
    verdict = watched(at_stage(LifeStage.RUNNING), TICK, beats=beat(busy=busy, usual=usual))
    assert bool(verdict) == stuck
    if stuck:
        assert "has been computing 'worker conv1'" in verdict[0][1]
        assert "it is stuck" in verdict[0][1]


@pytest.mark.parametrize(("busy", "stuck"), [(299.0, False), (301.0, True)])
def test_preparing_has_a_separate_limit_since_kernels_compile_then(
    busy: float, stuck: bool
) -> None:
    verdict = watched(at_stage(LifeStage.GREETED), TICK, beats=beat(busy=busy, usual=0.0))
    assert bool(verdict) == stuck


@pytest.mark.parametrize("stage", [LifeStage.GREETED, LifeStage.RUNNING])
def test_a_process_that_reported_a_held_interpreter_lock_may_be_silent_for_prepare_seconds(
    stage: LifeStage,
) -> None:
    made = at_stage(stage)
    made.beat(beat(holds_lock=True), 0.0)
    assert watched(made, Liveness().prepare_seconds + 2.5) == []
    ((_, why),) = made.check(Liveness().prepare_seconds + 2.75)
    assert "sent no heartbeat for 302.8 s" in why


def test_the_next_beat_ends_the_time_for_a_held_lock() -> None:
    made = at_stage(LifeStage.RUNNING)
    made.beat(beat(holds_lock=True), 0.0)
    assert watched(made, 60.0) == []
    # the same piece of work goes on, which is not stuck
    made.beat(beat(busy=60.0, holds_lock=True), 60.0)
    assert made.check(60.25) == []
    made.beat(beat(), 60.25)
    assert [bool(made.check(60.25 + tick * TICK)) for tick in range(1, 12)] == [False] * 10 + [True]


def test_a_beat_from_the_preparation_does_not_condemn_the_process_afterwards() -> None:
    made = at_stage(LifeStage.GREETED)
    made.beat(beat(busy=60.0, usual=0.0), 0.0)
    made.note("p", "ready", 0.1)
    made.note("p", "begin", 0.2)
    assert made.check(TICK) == []  # the next beat has not come yet
    made.beat(beat(busy=60.0, usual=0.0), 0.3)
    assert made.check(2 * TICK) != []


def test_every_dead_process_is_named() -> None:
    made = Supervision(["p", "q", "r"], Liveness(), 0.0)
    for name in ("p", "q", "r"):
        made.note(name, "hello", 0.0)
    assert watched(made, 2.75, beats=beat("q"))[0][0] == "p"
    assert [name for name, _ in made.check(3.0)] == ["p", "r"]


def test_a_supervisor_that_was_itself_stopped_names_no_process_but_goes_on_watching() -> None:
    made = at_stage(LifeStage.RUNNING)
    assert watched(made, 1.0) == []
    assert made.check(61.0) == []
    dead_after = next(tick * TICK for tick in range(1, 20) if made.check(61.0 + tick * TICK))
    assert dead_after == 2.75


def test_a_check_that_comes_a_little_late_still_finds_a_stuck_process() -> None:
    made = at_stage(LifeStage.RUNNING)
    made.beat(beat(busy=100.0), 0.9)
    assert made.check(0.9) != []


@pytest.mark.parametrize(
    ("progress", "busy", "dead"), [(0, 0.0, True), (1, 0.0, False), (0, 20.0, False)]
)
def test_a_process_that_does_not_begin_to_prepare_is_named_after_start_seconds(
    progress: int, busy: float, dead: bool
) -> None:
    limit = Liveness().start_seconds
    made = at_stage(LifeStage.GREETED)
    verdict = watched(made, limit + TICK, beats=beat(progress=progress, busy=busy))
    why = f"has not begun to prepare {limit:.0f} s after it was told to: messages do not reach it"
    assert verdict == ([("p", why)] if dead else [])


def test_a_process_that_waits_for_one_that_reports_late_is_not_named() -> None:
    made = Supervision(["early", "late"], Liveness(), 0.0)
    made.note("early", "hello", 1.0)
    made.note("late", "hello", 29.0)
    for tick in range(1, 200):
        for name in ("early", "late"):
            made.beat(beat(name, progress=0), tick * TICK)
        assert made.check(tick * TICK) == []


def test_a_process_that_never_reports_is_named_and_those_that_wait_for_it_are_not() -> None:
    limit = Liveness().start_seconds
    made = Supervision(["early", "never"], Liveness(), 0.0)
    made.note("early", "hello", 1.0)
    made.launched("never", 2.0)  # later than all other processes have reported
    named = []
    for tick in range(1, round((2.0 + limit) / TICK) + 3):
        made.beat(beat("early", progress=0), tick * TICK)
        named += made.check(tick * TICK)
    assert {process for process, _ in named} == {"never"}


def linked(*stages: LifeStage) -> Supervision:
    made = Supervision(["p", "q"], Liveness(), 0.0)
    for name, stage in zip(("p", "q"), stages, strict=True):
        made.processes[name].stage = stage
    made.link_lost("p", "q", 5.0)
    return made


def test_a_broken_link_between_two_living_processes_is_reported_if_no_death_explains_it() -> None:
    made = linked(S.RUNNING, S.READY)
    assert made.broken(5.9) is None
    assert made.broken(6.0) == ("p", "q")


@pytest.mark.parametrize("end", [S.HALTING, S.GONE])
def test_a_link_to_or_of_a_process_that_ends_may_break(end: LifeStage) -> None:
    assert linked(S.RUNNING, end).broken(100.0) is None
    assert linked(end, S.RUNNING).broken(100.0) is None


def test_one_end_of_a_link_or_both_may_report_that_it_broke() -> None:
    made = linked(S.RUNNING, S.RUNNING)
    assert not made.both_report("p", "q")
    made.link_lost("q", "p", 5.5)
    assert made.both_report("p", "q") and made.both_report("q", "p")
    assert made.broken(6.0) == ("p", "q")
