"""The prose of the project: its docstrings, comments, texts for users and pages, and the words in
them that replace a noun.

A sentence such as "what waits for whom" makes the reader guess the nouns. `counted` counts these
words. A high count is a place to look: the remedy is a sentence that names the thing.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Sign:
    """Words that replace a noun, and the number of them that 1 000 words may have."""

    pattern: re.Pattern[str]
    most: float


def _sign(pattern: str, most: float) -> Sign:
    return Sign(re.compile(pattern, re.IGNORECASE), most)


# each limit lies above the counts of h11, httpcore, Pykka and torchtitan
SIGNS = {
    # a question ("what is it?") names its noun in the answer
    "what": _sign(r"\bwhat\b(?!\s+(?:is|are|do|does|did|to)\b[^.?]*\?)", 3.0),
    "who": _sign(r"\b(?:who|whoever|whom)\b", 0.5),
    "nobody": _sign(r"\b(?:nobody|somebody|everybody)\b", 0.3),
    "is no": _sign(r"\b(?:is|are|was|were) (?:no|none)\b", 1.0),
    "anew": _sign(r"\b(?:anew|thereby|therein|thereof|of its own|as well|besides?)\b", 1.5),
    "that of": _sign(r"\b(?:that|those) (?:of|which|who)\b", 2.0),
}
FEW = 2  # hits of a sign that a short text may have
SENTENCE = 5  # words from which on a string of the code is a text for users
QUOTED = re.compile(r"`[^`]*`")
WORD = re.compile(r"[A-Za-z']+")
FENCED = re.compile(r"```.*?```", re.DOTALL)


@dataclass(frozen=True)
class Passage:
    """A docstring, a comment, a text for users or a paragraph of a page, without quoted names."""

    place: str
    text: str

    @property
    def words(self) -> int:
        """The number of its words."""
        return len(WORD.findall(self.text))

    def hits(self, sign: Sign) -> int:
        """How often it has the words of this sign."""
        return len(sign.pattern.findall(self.text))


def passages(path: Path) -> Iterator[Passage]:
    """All passages of a Python file or a Markdown page."""
    text = path.read_text("utf-8")
    found = _paragraphs(text) if path.suffix == ".md" else _texts(text)
    for line, passage in found:
        yield Passage(f"{path}:{line}", QUOTED.sub(" ", passage))


def counted(texts: list[Passage]) -> dict[str, tuple[int, float]]:
    """Sign -> its hits, and its hits per 1 000 words."""
    words = sum(passage.words for passage in texts)
    found = {}
    for name, sign in SIGNS.items():
        hits = sum(passage.hits(sign) for passage in texts)
        found[name] = hits, 1000 * hits / max(words, 1)
    return found


def above(texts: list[Passage]) -> list[str]:
    """A line for each sign that these texts have too often, with the passages that have most."""
    lines = []
    for name, (hits, rate) in counted(texts).items():
        sign = SIGNS[name]
        if hits > FEW and rate > sign.most:
            worst = sorted(texts, key=lambda passage: -passage.hits(sign))[:5]
            places = ", ".join(passage.place for passage in worst if passage.hits(sign))
            lines.append(
                f'"{name}" stands {rate:.1f} times in 1 000 words, at most {sign.most:g}: '
                f"name the noun in {places}"
            )
    return lines


def _paragraphs(text: str) -> Iterator[tuple[int, str]]:
    """(line, paragraph) of a Markdown page, without its blocks of code."""
    line = 1
    plain = FENCED.sub(lambda block: "\n" * block[0].count("\n"), text)
    for part in re.split(r"(\n\s*\n)", plain):
        if part.strip():
            yield line, part
        line += part.count("\n")


def _texts(text: str) -> Iterator[tuple[int, str]]:
    """(line, text) of each docstring, each string with a sentence, and each comment."""
    tree = ast.parse(text)
    kinds = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
    skipped = set[int]()
    for node in ast.walk(tree):
        if isinstance(node, kinds) and (docstring := ast.get_docstring(node)):
            yield node.body[0].lineno, docstring
            skipped.add(id(node.body[0].value))  # type: ignore[attr-defined]  # an ast.Expr
        elif isinstance(node, ast.JoinedStr):
            skipped.update(map(id, node.values))
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            said = " ".join(_part(part) for part in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            said = "" if id(node) in skipped else node.value
        else:
            continue
        if len(WORD.findall(said)) >= SENTENCE and "\n\n" not in said:
            yield node.lineno, said
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string.lstrip("# ")


def _part(part: ast.expr) -> str:
    return str(part.value) if isinstance(part, ast.Constant) else "X"
