"""`python -m benchmarks.allreduce`."""

import sys

from benchmarks.allreduce.allreduce import main

if __name__ == "__main__":
    sys.exit(main())
