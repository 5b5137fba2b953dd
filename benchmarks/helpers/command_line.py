"""The parser of a benchmark's command line."""

from __future__ import annotations

import argparse


def parser_of(name: str, about: str | None) -> argparse.ArgumentParser:
    """A parser whose help shows the docstring of the benchmark `name` as it is written: with each
    part on its own line."""
    return argparse.ArgumentParser(
        prog=f"python -m benchmarks.{name}",
        description=about,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
