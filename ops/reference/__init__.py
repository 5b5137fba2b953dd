"""Every operation written plainly with NumPy, one family a file: the reference of the fast kernels."""
