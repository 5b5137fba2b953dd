"""`python -m tests.house`: prints the generated lists that differ from the code; `--write` writes
them.
"""

from __future__ import annotations

import argparse

from tests.house.written import COMMAND, differing


def main() -> int:
    """Return the exit code: 1 if lists differ and were not written, or if a file is refused by the
    system."""
    parser = argparse.ArgumentParser(prog="python -m tests.house", description=__doc__)
    parser.add_argument("--write", action="store_true", help="write the lists that differ")
    write = parser.parse_args().write
    try:
        found = differing(write=write)
    except OSError as error:
        done = "; the lists before it were written" if write else ""
        print(f"{error.filename}: {error.strerror}{done}")
        return 1
    for name in found:
        print(f"{'wrote' if write else 'differs from the code'}: {name}")
    if found and not write:
        print(f"{COMMAND} writes them")
    return 1 if found and not write else 0


if __name__ == "__main__":
    raise SystemExit(main())
