"""Part `weird-trick` of `benchmarks.tuning`: which scheme may be slower than which, and AlexNet on
machines of One weird trick on the virtual clock."""

from __future__ import annotations

import pytest

from benchmarks.tuning.weird_trick import WORST, Case, Machines, cases, run, slower


def test_a_scheme_c_that_is_slower_than_b_and_a_scheme_b_that_is_slower_than_a_are_reported() -> (
    None
):
    found = {Case(8, scheme): seconds for scheme, seconds in (("a", 1.0), ("b", 1.1), ("c", 1.2))}
    assert list(slower(8, found)) == [
        "8 workers: scheme c takes 1.2 s, b 1.1 s",
        "8 workers: scheme b takes 1.1 s, a 1 s",
    ]
    assert list(slower(8, found | {Case(8, "b"): 1.04, Case(8, "c"): 1.04})) == []


def test_all_hybrids_are_compared_and_the_paper_is_known_for_scheme_b() -> None:
    schemes = [case.scheme for case in cases(8)]
    assert schemes == ["a", "b", "c2", "c4", "c", "b"]
    assert [case.scheme for case in cases(8) if case.paper] == ["b", "b"]
    alone, eight = Case(1, "").paper, Case(8, "b").paper
    assert alone is not None and eight is not None
    assert 8 * alone / eight == pytest.approx(6.25, abs=0.005)


@pytest.mark.few("[4]")
@pytest.mark.parametrize("workers", [4, 8])
def test_on_k20_scheme_c_is_as_fast_as_b_and_b_as_a_and_plan_predicts_all_of_them(
    workers: int,
) -> None:
    found = {case: run(case) for case in cases(workers) if not case.variable}
    assert list(slower(workers, {case: one.seconds for case, one in found.items()})) == []
    for one in found.values():
        assert one.planned == pytest.approx(one.seconds, rel=WORST)


def test_links_between_the_halves_of_the_papers_machine_share_half_of_an_interface() -> None:
    text = Machines(across=0.5).wanted(Case(4, "b")).more
    assert '"worker-0 -> worker-2" = { bytes_per_second = 1500000000 }' in text
    assert '"worker-0 -> worker-1"' not in text
