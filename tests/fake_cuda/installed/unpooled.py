"""Every array of CuPy is a block of its own, so that a sanitizer knows its ends. Also a plugin of
pytest: -p fake_cuda.unpooled."""

import cupy

cupy.cuda.set_allocator(None)
