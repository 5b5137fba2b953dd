"""`python -m benchmarks.tuning`."""

import sys

from benchmarks.tuning.tuning import main

if __name__ == "__main__":
    sys.exit(main())
