"""`python -m tests.fake_cuda`: builds the stand-in, if it is not there, and says where it is or what is missing."""

import sys

from tests.fake_cuda.build import Unavailable, site

try:
    print(f"CuPy without a GPU: PYTHONPATH={site()}")
except Unavailable as missing:
    sys.exit(f"no CuPy without a GPU: {missing}")
