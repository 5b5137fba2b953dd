"""`python -m benchmarks.kernels`."""

import sys

from benchmarks.kernels.kernels import main

if __name__ == "__main__":
    sys.exit(main())
