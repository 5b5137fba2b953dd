"""The array backends, one per file.

numpy_backend     The reference backend
cpu_backend       The fast backend of the CPU: generated float32 kernels on a team of threads
cupy_backend      The CuPy backend: one NVIDIA GPU behind the same interface
cuda_driver       The start of the CUDA driver, and the reasons why it cannot start, in words
emulated_backend  The backend of an emulated device
"""
