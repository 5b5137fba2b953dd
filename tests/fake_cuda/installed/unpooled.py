"""A separate block of memory for every array of CuPy, so that a sanitizer knows where it ends. Also
a plugin of pytest: -p fake_cuda.unpooled."""

import cupy

cupy.cuda.set_allocator(None)
