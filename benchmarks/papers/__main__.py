"""`python -m benchmarks.papers`."""

import sys

from benchmarks.papers.papers import main

if __name__ == "__main__":
    sys.exit(main())
