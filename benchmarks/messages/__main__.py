"""`python -m benchmarks.messages`."""

import sys

from benchmarks.messages.messages import main

if __name__ == "__main__":
    sys.exit(main())
