"""`python -m benchmarks.hosts`."""

import sys

from benchmarks.hosts.hosts import main

if __name__ == "__main__":
    sys.exit(main())
