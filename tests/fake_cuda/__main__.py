"""`python -m tests.fake_cuda` builds the stand-in, if it is not built yet. Prints how to use it, or
which tool is missing."""

import sys

from tests.fake_cuda.build import Unavailable, site

try:
    made = site()
except Unavailable as missing:
    sys.exit(f"no CuPy without a GPU: {missing}")
print(
    f"CuPy without a GPU: PYTHONPATH={made} LD_LIBRARY_PATH={made}/fake_cuda "
    f"CUDA_PATH={made}/nvidia/cu13"
)
