// In front of every kernel that CuPy writes. Compiled ahead: a kernel then takes a tenth of a second.
#pragma once
#include "kernel.h"
#include <cupy/complex.cuh>
#include <cupy/carray.cuh>
#include <cupy/atomics.cuh>
#include <cupy/math_constants.h>
