"""A replacement of cupy.cuda.thrust, which contains its own CUDA runtime: NumPy sorts the device's
memory."""

import ctypes

import fake_cuda
import numpy as np

available = True


def get_build_version():
    return 0


def _view(pointer, dtype, shape):
    fake_cuda.finish()  # the device may still have to write it
    dtype = np.dtype(dtype)
    shape = tuple(shape)
    size = int(np.prod(shape)) * dtype.itemsize
    return np.frombuffer((ctypes.c_char * size).from_address(pointer), dtype).reshape(shape)


def sort(dtype, data, keys, shape):
    _view(data, dtype, shape).sort(axis=-1, kind="stable")


def argsort(dtype, indices, data, keys, shape):
    values = _view(data, dtype, shape)
    order = np.argsort(values, axis=-1, kind="stable")
    _view(indices, np.intp, shape)[...] = order
    values[...] = np.take_along_axis(values, order, -1)


def lexsort(dtype, indices, keys, count, size):
    _view(indices, np.intp, (size,))[...] = np.lexsort(_view(keys, dtype, (count, size)))
