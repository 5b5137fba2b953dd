"""The array backends: NumPy, the compiled CPU kernels, CuPy, emulated devices."""
