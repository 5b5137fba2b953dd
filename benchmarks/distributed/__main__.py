"""`python -m benchmarks.distributed`."""

import sys

from benchmarks.distributed.distributed import main

if __name__ == "__main__":
    sys.exit(main())
