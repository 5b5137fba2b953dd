// libcublas: the product that CuPy's matmul, dot and tensordot end in, and the same for a batch.
#include "state.h"
#include <library_types.h>
#include <cstdint>
#include <cstring>
#include <vector>

enum { OK = 0, INVALID_VALUE = 7, NOT_SUPPORTED = 15 };
EXPORT int cublasCreate_v2(void** handle) {
    if (refusal()) return 1;  // CUBLAS_STATUS_NOT_INITIALIZED
    if (blocks.used(current) + (2 << 20) > settings.memory) return 3;  // CUBLAS_STATUS_ALLOC_FAILED: its workspace
    *handle = (void*)0x20;
    return OK;
}
EXPORT int cublasDestroy_v2(void*) { return OK; }
EXPORT int cublasGetVersion_v2(void*, int* v) { *v = 130000; return OK; }
EXPORT int cublasSetStream_v2(void*, void*) { return OK; }
EXPORT int cublasGetStream_v2(void*, void** stream) { *stream = nullptr; return OK; }
EXPORT int cublasSetMathMode(void*, int) { return OK; }
EXPORT int cublasGetMathMode(void*, int* mode) { *mode = 0; return OK; }
EXPORT int cublasSetPointerMode_v2(void*, int) { return OK; }
EXPORT int cublasGetPointerMode_v2(void*, int* mode) { *mode = 0; return OK; }

struct Bfloat16 {
    uint16_t bits;
    operator float() const { uint32_t wide = (uint32_t)bits << 16; float x; memcpy(&x, &wide, 4); return x; }
    Bfloat16(float x) { uint32_t wide; memcpy(&wide, &x, 4); bits = (wide + 0x7fff + (wide >> 16 & 1)) >> 16; }
};
// One operand, column by column as in BLAS: `at(row, column)` of what is multiplied, transposed or not.
template <class T> struct Operand {
    const T* data; long leading; bool transposed;
    T at(long row, long column) const { return transposed ? data[row * leading + column] : data[column * leading + row]; }
};
template <class In, class Out, class Sum>
static void product(Operand<In> a, Operand<In> b, int m, int n, int k, Sum alpha, Sum beta, Out* c, long ldc) {
    std::vector<Sum> rows((size_t)m * k), column(k);
    for (int i = 0; i < m; ++i) for (int l = 0; l < k; ++l) rows[(size_t)i * k + l] = a.at(i, l);
    for (int j = 0; j < n; ++j) {
        for (int l = 0; l < k; ++l) column[l] = b.at(l, j);
        for (int i = 0; i < m; ++i) {
            Sum sum = 0;
            for (int l = 0; l < k; ++l) sum += rows[(size_t)i * k + l] * column[l];
            Out& to = c[j * ldc + i];
            to = Out(alpha * sum + (beta == 0 ? Sum(0) : beta * Sum(to)));  // beta 0: there may be NaN, as in BLAS
        }
    }
}
struct Sizes { int ta, tb, m, n, k; const void *alpha, *a; int at, lda; const void* b; int bt, ldb; const void* beta; void* c; int ct, ldc; };
template <class In, class Out, class Sum> static int done(const Sizes& s) {
    product<In, Out, Sum>({(const In*)s.a, s.lda, s.ta != 0}, {(const In*)s.b, s.ldb, s.tb != 0}, s.m, s.n, s.k,
                          *(const Sum*)s.alpha, *(const Sum*)s.beta, (Out*)s.c, s.ldc);
    return OK;
}
static int multiplied(const Sizes& s) {
    if (refusal()) return 1;  // CUBLAS_STATUS_NOT_INITIALIZED
    counts.products++;
    if (s.m < 0 || s.n < 0 || s.k < 0 || s.lda < (s.ta ? s.k : s.m) || s.ldb < (s.tb ? s.n : s.k) || s.ldc < s.m) return INVALID_VALUE;
    for (const void* p : {s.a, s.b, (const void*)s.c})
        if (!blocks.on_device(p, 1, current)) { SAY("a product of what is not memory of device %d", current); return INVALID_VALUE; }
    auto types = [&](int in, int out) { return s.at == in && s.bt == in && s.ct == out; };
    if (types(CUDA_R_32F, CUDA_R_32F)) return done<float, float, float>(s);
    if (types(CUDA_R_64F, CUDA_R_64F)) return done<double, double, double>(s);
    if (types(CUDA_R_16BF, CUDA_R_16BF)) return done<Bfloat16, Bfloat16, float>(s);
    if (types(CUDA_R_16BF, CUDA_R_32F)) return done<Bfloat16, float, float>(s);
    SAY("a product of types %d %d %d is not there", s.at, s.bt, s.ct);
    return NOT_SUPPORTED;
}
EXPORT int cublasGemmEx(void*, int ta, int tb, int m, int n, int k, const void* alpha, const void* a, int at, int lda,
                        const void* b, int bt, int ldb, const void* beta, void* c, int ct, int ldc, int, int) {
    return multiplied({ta, tb, m, n, k, alpha, a, at, lda, b, bt, ldb, beta, c, ct, ldc});
}
EXPORT int cublasSgemm_v2(void*, int ta, int tb, int m, int n, int k, const float* alpha, const float* a, int lda,
                          const float* b, int ldb, const float* beta, float* c, int ldc) {
    return multiplied({ta, tb, m, n, k, alpha, a, CUDA_R_32F, lda, b, CUDA_R_32F, ldb, beta, c, CUDA_R_32F, ldc});
}
EXPORT int cublasDgemm_v2(void*, int ta, int tb, int m, int n, int k, const double* alpha, const double* a, int lda,
                          const double* b, int ldb, const double* beta, double* c, int ldc) {
    return multiplied({ta, tb, m, n, k, alpha, a, CUDA_R_64F, lda, b, CUDA_R_64F, ldb, beta, c, CUDA_R_64F, ldc});
}
static size_t width(int type) { return type == CUDA_R_64F ? 8 : type == CUDA_R_32F ? 4 : 2; }
EXPORT int cublasGemmStridedBatchedEx(void*, int ta, int tb, int m, int n, int k, const void* alpha, const void* a, int at,
                                      int lda, long long sa, const void* b, int bt, int ldb, long long sb, const void* beta,
                                      void* c, int ct, int ldc, long long sc, int batch, int, int) {
    for (int i = 0; i < batch; ++i) {
        const void *ai = (const char*)a + i * sa * width(at), *bi = (const char*)b + i * sb * width(bt);
        void* ci = (char*)c + i * sc * width(ct);
        if (int e = multiplied({ta, tb, m, n, k, alpha, ai, at, lda, bi, bt, ldb, beta, ci, ct, ldc})) return e;
    }
    return OK;
}
EXPORT int cublasSgemmStridedBatched(void* h, int ta, int tb, int m, int n, int k, const float* alpha, const float* a, int lda,
                                     long long sa, const float* b, int ldb, long long sb, const float* beta, float* c, int ldc,
                                     long long sc, int batch) {
    const int t = CUDA_R_32F;
    return cublasGemmStridedBatchedEx(h, ta, tb, m, n, k, alpha, a, t, lda, sa, b, t, ldb, sb, beta, c, t, ldc, sc, batch, 0, 0);
}
