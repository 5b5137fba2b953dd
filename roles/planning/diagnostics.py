"""The mistakes, warnings and facts that a plan finds in cluster.toml and its files: one line each,
with file, line and key."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from nets import NetError
from roles.options import Train
from runtime.config.toml_source import RawConfig
from runtime.errors import ConfigError

# what to do about a key that the recipe has set
OTHERWISE = " (give a key of your own, or the recipe's other keys in place of the recipe)"


class Diagnostics:
    """Notes mistakes as they are found, so that one run shows them all. `stop_if_wrong` then raises
    them. A line about a key that the recipe has set names the recipe."""

    def __init__(self, raw: RawConfig, train: Train) -> None:
        self._raw = raw
        self._train = train
        self.problems: list[str] = []
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
        if not any(problem.endswith(f": {text}") for problem in self.problems):
            self.problems.append(self._line(text, keys, OTHERWISE))

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

    def _line(self, text: str, keys: tuple[str, ...], advice: str = "") -> str:
        dotted = ".".join(keys[1:])
        by_recipe = any(f"{key}.".startswith(f"{dotted}.") for key in self._train.by_recipe)
        if not by_recipe or keys in self._raw.origins:
            return self._raw.problem(keys, text).text
        lead = f"'{self._train.recipe}' sets {'.'.join(keys)}{advice}"
        return self._raw.problem(("train", "recipe"), f"{lead}: {text}").text

    def tell(self) -> None:
        """Log the warnings."""
        for line in self.warnings:
            logging.getLogger("roles").warning("%s", line)

    def stop_if_wrong(self) -> None:
        """Raise ConfigError with all mistakes so far, if there are any."""
        if self.problems:
            raise ConfigError(self.problems)
