"""The fast kernels of the CPU backend: generated micro-kernels, the loops around them, the threads they run on."""
