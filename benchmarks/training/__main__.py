"""`python -m benchmarks.training`."""

import sys

from benchmarks.training.training import main

if __name__ == "__main__":
    sys.exit(main())
