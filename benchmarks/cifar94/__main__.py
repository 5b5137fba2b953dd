"""`python -m benchmarks.cifar94`."""

import sys

from benchmarks.cifar94.cifar94 import main

if __name__ == "__main__":
    sys.exit(main())
