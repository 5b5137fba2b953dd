"""The array backends, one a file.

numpy_backend     The reference backend
cpu_backend       The fast backend of the CPU
cupy_backend      The CuPy backend: one NVIDIA GPU behind the same interface
cuda_driver       The start of the CUDA driver, and what it lacks, in words
emulated_backend  The backend of an emulated device
"""
