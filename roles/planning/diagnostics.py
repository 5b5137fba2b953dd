"""The mistakes, warnings and facts that a plan finds in cluster.toml and its files: one line each,
with file, line and key."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from nets import NetError
from roles.options import Train
from runtime.config.toml_source import RawConfig
from runtime.errors import ConfigError


class Diagnostics:
    """Notes mistakes as they are found, so that one run shows them all. `stop_if_wrong` then raises
    them. A line about a key that the recipe has set names the recipe."""

    def __init__(self, raw: RawConfig, train: Train) -> None:
        self._raw = raw
        self._train = train
        self.problems: list[str] = []
        self._found: set[str] = set()  # the texts of the problems, without place and key
        self.warnings: list[str] = []
        self.facts: list[str] = []

    @contextmanager
    def reading(self, *keys: str) -> Iterator[None]:
        """Turn an error into problems that name the key of cluster.toml that it comes from."""
        try:
            yield
        except (NetError, ConfigError) as error:
            for problem in error.problems:
                self.problem(problem, *keys)

    def problem(self, text: str, *keys: str) -> None:
        """Note a mistake under the key where it was found first. Each later reader of the file,
        such as the solver's, finds it again."""
        if not any(f": {known}".endswith(f": {text}") for known in self._found):
            self._found.add(text)
            self.problems.append(self._line(text, keys, advise=True))

    def options(self, text: str, given: Mapping[str, Any]) -> None:
        """Note mistakes in the preset's own options, each where its key stands. A line of `text` is
        like "period: found -3, expected ...", or "speeds[2]: found ..."."""
        for line in text.splitlines():
            where, _, rest = line.partition(": ")
            name, bracket, index = where.partition("[")
            if name in given:
                told = f"[{index}: {rest}" if bracket else rest
                self.problem(told, "train", "strategy", "options", name)
            else:
                self.problem(line, "train", "strategy", "options")

    def warn(self, text: str, *keys: str) -> None:
        """Note a warning for the user, once."""
        self._once(self.warnings, text, keys)

    def fact(self, text: str, *keys: str) -> None:
        """Note, once, a setting that follows from what the user asked for."""
        self._once(self.facts, text, keys)

    def _once(self, lines: list[str], text: str, keys: tuple[str, ...]) -> None:
        line = self._line(text, keys)
        if line not in lines:
            lines.append(line)

    def _line(self, text: str, keys: tuple[str, ...], *, advise: bool = False) -> str:
        dotted = ".".join(keys[1:])
        by_recipe = any(f"{key}.".startswith(f"{dotted}.") for key in self._train.by_recipe)
        if not by_recipe or keys in self._raw.origins:
            return self._raw.problem(keys, text).text
        key = ".".join(keys)
        advice = f"; give {key} yourself, or write the recipe's other keys in place of the recipe"
        line = f"'{self._train.recipe}' sets {key}: {text}{advice if advise else ''}"
        return self._raw.problem(("train", "recipe"), line).text

    def tell(self) -> None:
        """Log the warnings."""
        for line in self.warnings:
            logging.getLogger("roles").warning("%s", line)

    def stop_if_wrong(self) -> None:
        """Raise ConfigError with all mistakes so far, if there are any."""
        if self.problems:
            raise ConfigError(self.problems)
