"""The array backends, one a file.

numpy_backend      the reference: every operation as `ops.reference` writes it
cpu_backend        generated kernels on a team of threads (`ops.cpu`)
cupy_backend       one NVIDIA GPU (`ops.cuda`)
emulated_backend   arrays of true shapes, operations that compute nothing
"""
