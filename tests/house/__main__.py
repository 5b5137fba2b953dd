"""`python -m tests.house`: the lists that are not as the code says; `--write` writes them."""

from __future__ import annotations

import argparse

from tests.house.written import COMMAND, differing


def main() -> int:
    """The exit code: 1 if lists differ and are not written."""
    parser = argparse.ArgumentParser(prog="python -m tests.house", description=__doc__)
    parser.add_argument("--write", action="store_true", help="write them")
    write = parser.parse_args().write
    found = differing(write=write)
    for name in found:
        print(f"{'wrote' if write else 'not as the code says'}: {name}")
    if found and not write:
        print(f"{COMMAND} writes them")
    return 1 if found and not write else 0


if __name__ == "__main__":
    raise SystemExit(main())
