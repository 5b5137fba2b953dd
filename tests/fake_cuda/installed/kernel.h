// CUDA C++ for the processor: as much of it as CuPy's kernels and ours use. Blocks run one after the other. So do the
// threads of a block, unless the kernel synchronises (FIBERS): then each is a fiber.
#pragma once
#include <cuda_runtime_api.h>
#include <vector_functions.h>
#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <limits>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>
#include <ucontext.h>

#undef __global__
#undef __device__
#undef __host__
#undef __forceinline__
#undef __noinline__
#undef __constant__
#undef __shared__
#undef __launch_bounds__
#undef __align__
#undef __restrict__
#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __noinline__ __attribute__((noinline))
#define __constant__ static
#define __shared__ static thread_local
#define __launch_bounds__(...)
#define __align__(n) __attribute__((aligned(n)))

struct KernelIndex { unsigned x, y, z; };
static thread_local KernelIndex threadIdx, blockIdx, blockDim, gridDim;
static const int warpSize = 32;

// what CUDA has in the global namespace
using std::abs; using std::ceil; using std::copysign; using std::cos; using std::exp; using std::exp2; using std::expm1;
using std::floor; using std::fma; using std::fmax; using std::fmin; using std::fmod; using std::hypot; using std::isfinite;
using std::isinf; using std::isnan; using std::log; using std::log10; using std::log1p; using std::log2; using std::max;
using std::min; using std::pow; using std::rint; using std::signbit; using std::sin; using std::sqrt; using std::tan;
using std::tanh; using std::trunc;
template <class To, class From> static inline To same_bits(From x) {
    static_assert(sizeof(To) == sizeof(From));
    To y;
    memcpy(&y, &x, sizeof y);
    return y;
}
static inline float __int_as_float(int x) { return same_bits<float>(x); }
static inline int __float_as_int(float x) { return same_bits<int>(x); }
static inline float __uint_as_float(unsigned x) { return same_bits<float>(x); }
static inline unsigned __float_as_uint(float x) { return same_bits<unsigned>(x); }
static inline double __longlong_as_double(long long x) { return same_bits<double>(x); }
static inline long long __double_as_longlong(double x) { return same_bits<long long>(x); }
static inline double __hiloint2double(int hi, int lo) { return same_bits<double>((long long)hi << 32 | (unsigned)lo); }
static inline int __double2hiint(double x) { return (int)(__double_as_longlong(x) >> 32); }
static inline int __double2loint(double x) { return (int)__double_as_longlong(x); }
static inline float rsqrt(float x) { return 1 / std::sqrt(x); }
static inline double rsqrt(double x) { return 1 / std::sqrt(x); }
static inline float rsqrtf(float x) { return 1 / std::sqrt(x); }
static inline float __fmaf_rn(float a, float b, float c) { return std::fma(a, b, c); }
static inline float __fdividef(float a, float b) { return a / b; }
#define __expf std::exp  // glibc has functions of these names
#define __logf std::log
#define __powf std::pow
static inline unsigned __umulhi(unsigned a, unsigned b) { return (unsigned)((uint64_t)a * b >> 32); }
static inline int __mulhi(int a, int b) { return (int)((int64_t)a * b >> 32); }
static inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
    return (unsigned long long)((unsigned __int128)a * b >> 64);
}
static inline int __popc(unsigned x) { return __builtin_popcount(x); }
static inline int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
static inline int __clz(int x) { return x ? __builtin_clz(x) : 32; }
template <class T> static inline T __ldg(const T* p) { return *p; }

// One launch runs in one thread: an atomic is a plain step.
template <class T> static inline T atomicCAS(T* p, T expected, T desired) {
    T old = *p;
    if (memcmp(&old, &expected, sizeof old) == 0) *p = desired;
    return old;
}
#define ATOMICS(T) \
    static inline T atomicAdd(T* p, T v) { T old = *p; *p = old + v; return old; } \
    static inline T atomicExch(T* p, T v) { T old = *p; *p = v; return old; }
#define ORDERED_ATOMICS(T) \
    static inline T atomicMax(T* p, T v) { T old = *p; *p = old < v ? v : old; return old; } \
    static inline T atomicMin(T* p, T v) { T old = *p; *p = v < old ? v : old; return old; }
ATOMICS(int) ATOMICS(unsigned) ATOMICS(unsigned long long) ATOMICS(float) ATOMICS(double)
ORDERED_ATOMICS(int) ORDERED_ATOMICS(unsigned) ORDERED_ATOMICS(unsigned long long)
static inline void __threadfence() {}

#ifdef FIBERS
#include "fibers.h"
#endif

template <class... A, size_t... I>
static void one_thread(void (*kernel)(A...), void** arguments, std::index_sequence<I...>) {
    kernel(*(std::remove_reference_t<A>*)arguments[I]...);
}
// Called by sizes_NAME and launch_NAME, which nvrtc.cpp adds for each kernel.
template <class... A> static size_t sizes_of(void (*)(A...), size_t* sizes) {
    if (sizes) ((*sizes++ = sizeof(std::remove_reference_t<A>)), ...);
    return sizeof...(A);
}
template <class... A> static void run_kernel(void (*kernel)(A...), const unsigned* s, void** arguments) {
    gridDim = {s[0], s[1], s[2]};
    blockDim = {s[3], s[4], s[5]};
    auto thread = [&] { one_thread(kernel, arguments, std::index_sequence_for<A...>{}); };
    for (unsigned z = 0; z < s[2]; ++z) for (unsigned y = 0; y < s[1]; ++y) for (unsigned x = 0; x < s[0]; ++x) {
        blockIdx = {x, y, z};
#ifdef FIBERS
        fibers::run_block(s[3] * s[4] * s[5], thread);
#else
        for (unsigned k = 0; k < s[5]; ++k) for (unsigned j = 0; j < s[4]; ++j) for (unsigned i = 0; i < s[3]; ++i) {
            threadIdx = {i, j, k};
            thread();
        }
#endif
    }
}
