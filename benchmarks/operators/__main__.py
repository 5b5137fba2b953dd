"""`python -m benchmarks.operators`."""

import sys

from benchmarks.operators.operators import main

if __name__ == "__main__":
    sys.exit(main())
