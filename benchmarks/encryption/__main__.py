"""`python -m benchmarks.encryption`."""

import sys

from benchmarks.encryption.encryption import main

if __name__ == "__main__":
    sys.exit(main())
