"""`python -m benchmarks.islands`."""

import sys

from benchmarks.islands.islands import main

if __name__ == "__main__":
    sys.exit(main())
