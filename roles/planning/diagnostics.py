"""The mistakes and warnings that a plan finds in cluster.toml and its files: one line each, with
file, line and key."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from nets import NetError
from runtime.config.toml_source import RawConfig
from runtime.errors import ConfigError


class Diagnostics:
    """Notes mistakes as they are found, so that one run shows them all. `stop_if_wrong` then raises
    them."""

    def __init__(self, raw: RawConfig) -> None:
        self._raw = raw
        self.problems: list[str] = []
        self.warnings: list[str] = []

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
            self.problems.append(self._raw.problem(keys, text).text)

    def warn(self, text: str, *keys: str) -> None:
        """Note a warning for the user, once."""
        line = self._raw.problem(keys, text).text
        if line not in self.warnings:
            self.warnings.append(line)

    def tell(self) -> None:
        """Log the warnings."""
        for line in self.warnings:
            logging.getLogger("roles").warning("%s", line)

    def stop_if_wrong(self) -> None:
        """Raise ConfigError with all mistakes so far, if there are any."""
        if self.problems:
            raise ConfigError(self.problems)
