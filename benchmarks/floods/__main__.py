"""`python -m benchmarks.floods`."""

import sys

from benchmarks.floods.floods import main

if __name__ == "__main__":
    sys.exit(main())
