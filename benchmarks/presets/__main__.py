"""`python -m benchmarks.presets`."""

import sys

from benchmarks.presets.presets import main

if __name__ == "__main__":
    sys.exit(main())
