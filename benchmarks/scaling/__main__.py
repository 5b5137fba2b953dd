"""`python -m benchmarks.scaling`."""

import sys

from benchmarks.scaling.scaling import main

if __name__ == "__main__":
    sys.exit(main())
