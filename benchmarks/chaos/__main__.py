"""`python -m benchmarks.chaos`."""

import sys

from benchmarks.chaos.chaos import main

if __name__ == "__main__":
    sys.exit(main())
