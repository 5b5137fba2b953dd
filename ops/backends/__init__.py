"""The array backends, one a file.

numpy_backend      the reference: every operation as `ops.reference` writes it
cpu_backend        generated kernels on a team of threads (`ops.cpu`)
cupy_backend       one NVIDIA GPU (`ops.cuda`)
cuda_driver        its start, and what it lacks, in words
emulated_backend   arrays of true shapes, operations that compute nothing
"""
