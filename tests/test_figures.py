"""Figures in the docs: each figure is in the result file that its sentence names, or its sentence
gives the day of a single measurement.

A sentence that quotes a benchmark ends with links to its results, as in
`([messages-avx2](.../messages-avx2.md))`. Every number of the sentence, figures and sizes alike,
must then be in one of these files, rounded as in the quotation.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.helpers.report import Record, write

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results"
DOCS = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
# of vectors, in the names of results and in the machine of each part
WIDTHS = {
    "avx512": "512 bits",
    "avx2": "256 bits",
    "narrowed-to-256-bits": "narrowed to 256 bits",
}
LINK = re.compile(r"\[[^\]]*\]\((?:\.\./)*benchmarks/results/([\w-]+)\.md\)")
NUMBER = re.compile(r"(?<![\w.-])\d+(?: \d{3})*(?:\.\d+)?(?:e[+-]?\d+)?(?![\w-])")
TIMING = re.compile(
    r"\d (?:ms|us|µs)\b|\d times as (?:fast|slow)|\d times "
    r"(?:faster|slower)|% (?:faster|slower)"
)
ONCE = re.compile(r"measured once,\s+\d{4}-\d\d-\d\d")


def blocks_of(path: Path) -> Iterator[str]:
    """The paragraphs, list items and table rows of a page, each on one line."""
    text = re.sub(r"^```.*?^```", "", path.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL)
    for block in re.split(r"\n\s*\n|\n(?=\||- )", text):
        yield " ".join(block.split())


def sentences_of(block: str) -> list[str]:
    """The parts of a block, cut after full stops, colons and semicolons, and at the borders of
    cells.
    """
    return re.split(r"(?<=[.:;])\s+|\s\|\s", block)


def quoted(sentence: str) -> list[str]:
    """The numbers of a sentence, without those in code and in links."""
    return NUMBER.findall(re.sub(r"\[[^\]]*\]\([^)]*\)|`[^`]*`", "", sentence))


def stands_in(number: str, text: str) -> bool:
    """Return whether a number of the text, rounded to the digits of `number`, equals that
    number.
    """
    plain = number.replace(" ", "")
    mantissa, _, exponent = plain.partition("e")
    digits = len(mantissa.partition(".")[2])
    spelling = f".{digits}e" if exponent else f".{digits}f"
    return any(
        float(format(float(of), spelling)) == float(plain)
        for of in re.findall(r"\d+(?:\.\d+)?(?:e[+-]?\d+)?", text)
    )


def quotations() -> list[tuple[str, list[str], list[str]]]:
    """Each sentence that names a result: its place and text, the names of the results, and its
    numbers.
    """
    return [
        (f"{path.relative_to(ROOT)}: {sentence}", LINK.findall(sentence), quoted(sentence))
        for path in DOCS
        for block in blocks_of(path)
        for sentence in sentences_of(block)
        if LINK.search(sentence)
    ]


def test_every_figure_that_the_docs_quote_stands_in_the_result_that_they_name() -> None:
    found = quotations()
    assert len(found) >= 4
    missing = []
    for where, names, numbers in found:
        texts = [(RESULTS / f"{name}.md").read_text("utf-8") for name in names]
        missing += [
            f"{number} in {where}"
            for number in numbers
            if not any(stands_in(number, text) for text in texts)
        ]
    assert missing == []


def test_a_time_in_the_docs_names_its_result_or_the_day_of_its_measurement() -> None:
    bare = [
        f"{path.relative_to(ROOT)}: {block}"
        for path in DOCS
        for block in blocks_of(path)
        if TIMING.search(block) and not LINK.search(block) and not ONCE.search(block)
    ]
    assert bare == []


def test_each_result_is_named_by_benchmark_and_vector_width_and_has_both_forms() -> None:
    names = {path.stem for path in RESULTS.iterdir()}
    assert {path.name for path in RESULTS.iterdir()} == {
        f"{name}.{kind}" for name in names for kind in ("json", "md")
    }
    for name in names:
        (width,) = (each for each in WIDTHS if name.endswith(f"-{each}"))
        assert re.fullmatch(r"[a-z0-9-]+", name)
        assert (RESULTS / f"{name}.md").read_text("utf-8").startswith(f"# {name}\n")
        for part in json.loads((RESULTS / f"{name}.json").read_text("utf-8"))["parts"].values():
            assert re.fullmatch(r"\d{4}-\d\d-\d\d", part["machine"]["date"])
            assert part["machine"]["vectors"] == WIDTHS[width]


@pytest.mark.parametrize(
    ("number", "text", "stands"),
    [
        ("0.72", "| 0.724 |", True),
        ("0.73", "| 0.724 |", False),
        ("58", "57.6 us", True),
        ("431 080", "of 431080", True),
        ("1.6e-4", "| 0.0001649 |", True),
        ("1.7e-4", "| 0.0001649 |", False),
    ],
)
def test_a_quoted_number_is_compared_at_its_own_precision(
    number: str, text: str, stands: bool
) -> None:
    assert stands_in(number, text) == stands


def test_numbers_in_code_and_names_are_not_figures() -> None:
    assert quoted(
        "LeNet-5, `n = 3` and 1.2 to 2 times, 25 570 of AVX2 ([a-2](../benchmarks/results/a-2.md))."
    ) == [
        "1.2",
        "2",
        "25 570",
    ]


def test_a_new_result_replaces_the_parts_that_it_measured_and_keeps_the_others(
    tmp_path: Path,
) -> None:
    def run(day: str, **records: Record) -> Path:
        return write(tmp_path, "trial", {"date": day, "vectors": "256 bits"}, records)[0]

    run("2026-01-01", a=Record("A", "failed"), b=Record("B", "passed"))
    path = run("2026-01-02", a=Record("A", "passed"))
    assert [file.name for file in sorted(tmp_path.iterdir())] == [
        "trial-avx2.json",
        "trial-avx2.md",
    ]
    parts = json.loads(path.read_text())["parts"]
    assert {key: (part["status"], part["machine"]["date"]) for key, part in parts.items()} == {
        "a": ("passed", "2026-01-02"),
        "b": ("passed", "2026-01-01"),
    }
    sections = path.with_suffix(".md").read_text().split("\n## ")
    assert "2026-01-02" in sections[1] and "2026-01-01" in sections[2]
