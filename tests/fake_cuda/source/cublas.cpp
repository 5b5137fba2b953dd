// libcublas: the product that CuPy's matmul, dot and tensordot end in, and the same for a batch.
#include "queue.h"
#include <library_types.h>
#include <cstdint>
#include <cstring>
#include <vector>

enum { OK = 0, INVALID_VALUE = 7, NOT_SUPPORTED = 15 };
struct Handle { void* stream = nullptr; int math = 0, pointers = 0; };  // pointers 1: factors lie in the device's memory
EXPORT int cublasCreate_v2(void** handle) {
    if (refusal()) return 1;  // CUBLAS_STATUS_NOT_INITIALIZED
    if (blocks.used(current) + (2 << 20) > settings.memory) return 3;  // CUBLAS_STATUS_ALLOC_FAILED: its workspace
    *handle = new Handle;
    return OK;
}
EXPORT int cublasDestroy_v2(void* handle) { delete (Handle*)handle; return OK; }
EXPORT int cublasGetVersion_v2(void*, int* v) { *v = 130000; return OK; }
EXPORT int cublasSetStream_v2(void* handle, void* stream) { ((Handle*)handle)->stream = stream; return OK; }
EXPORT int cublasGetStream_v2(void* handle, void** stream) { *stream = ((Handle*)handle)->stream; return OK; }
EXPORT int cublasSetWorkspace_v2(void*, void* p, size_t bytes) { return !bytes || blocks.on_device(p, bytes, current) ? OK : INVALID_VALUE; }
EXPORT int cublasSetMathMode(void* handle, int mode) { ((Handle*)handle)->math = mode; return OK; }
EXPORT int cublasGetMathMode(void* handle, int* mode) { *mode = ((Handle*)handle)->math; return OK; }
EXPORT int cublasSetPointerMode_v2(void* handle, int mode) { ((Handle*)handle)->pointers = mode; return OK; }
EXPORT int cublasGetPointerMode_v2(void* handle, int* mode) { *mode = ((Handle*)handle)->pointers; return OK; }

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
template <class In, class Out, class Sum> static void done(const Sizes& s) {
    product<In, Out, Sum>({(const In*)s.a, s.lda, s.ta != 0}, {(const In*)s.b, s.ldb, s.tb != 0}, s.m, s.n, s.k,
                          *(const Sum*)s.alpha, *(const Sum*)s.beta, (Out*)s.c, s.ldc);
}
static void (*product_of(int in, int other, int out))(const Sizes&) {
    auto types = [&](int factors, int result) { return in == factors && other == factors && out == result; };
    if (types(CUDA_R_32F, CUDA_R_32F)) return done<float, float, float>;
    if (types(CUDA_R_64F, CUDA_R_64F)) return done<double, double, double>;
    if (types(CUDA_R_16BF, CUDA_R_16BF)) return done<Bfloat16, Bfloat16, float>;
    if (types(CUDA_R_16BF, CUDA_R_32F)) return done<Bfloat16, float, float>;
    return nullptr;
}
// alpha and beta are read at the call, unless they lie in the device's memory (cuBLAS, "Scalar Parameters").
static int multiplied(void* handle, const Sizes& s) {
    if (refusal()) return 1;  // CUBLAS_STATUS_NOT_INITIALIZED
    if (s.m < 0 || s.n < 0 || s.k < 0 || s.lda < (s.ta ? s.k : s.m) || s.ldb < (s.tb ? s.n : s.k) || s.ldc < s.m) return INVALID_VALUE;
    auto run = product_of(s.at, s.bt, s.ct);
    if (!run) { SAY("a product of types %d %d %d is not there", s.at, s.bt, s.ct); return NOT_SUPPORTED; }
    Work work;
    work.what = "a product of cuBLAS";
    work.count = &counts.products;
    for (const void* p : {s.a, s.b, (const void*)s.c}) {
        if (!blocks.on_device(p, 1, current)) { SAY("a product of what is not memory of device %d", current); return INVALID_VALUE; }
        Use use;
        if (blocks.use(p, use)) work.uses.push_back(use);
    }
    if (((Handle*)handle)->pointers) {
        work.run = [=] { run(s); };
    } else {
        const size_t bytes = s.ct == CUDA_R_64F ? 8 : 4;
        uint64_t alpha = 0, beta = 0;
        memcpy(&alpha, s.alpha, bytes);
        memcpy(&beta, s.beta, bytes);
        work.run = [=] {
            Sizes own = s;
            own.alpha = &alpha;
            own.beta = &beta;
            run(own);
        };
    }
    return submit(((Handle*)handle)->stream, std::move(work)) ? 13 : OK;  // CUBLAS_STATUS_EXECUTION_FAILED
}
EXPORT int cublasGemmEx(void* h, int ta, int tb, int m, int n, int k, const void* alpha, const void* a, int at, int lda,
                        const void* b, int bt, int ldb, const void* beta, void* c, int ct, int ldc, int, int) {
    return multiplied(h, {ta, tb, m, n, k, alpha, a, at, lda, b, bt, ldb, beta, c, ct, ldc});
}
EXPORT int cublasSgemm_v2(void* h, int ta, int tb, int m, int n, int k, const float* alpha, const float* a, int lda,
                          const float* b, int ldb, const float* beta, float* c, int ldc) {
    return multiplied(h, {ta, tb, m, n, k, alpha, a, CUDA_R_32F, lda, b, CUDA_R_32F, ldb, beta, c, CUDA_R_32F, ldc});
}
EXPORT int cublasDgemm_v2(void* h, int ta, int tb, int m, int n, int k, const double* alpha, const double* a, int lda,
                          const double* b, int ldb, const double* beta, double* c, int ldc) {
    return multiplied(h, {ta, tb, m, n, k, alpha, a, CUDA_R_64F, lda, b, CUDA_R_64F, ldb, beta, c, CUDA_R_64F, ldc});
}
static size_t width(int type) { return type == CUDA_R_64F ? 8 : type == CUDA_R_32F ? 4 : 2; }
EXPORT int cublasGemmStridedBatchedEx(void* h, int ta, int tb, int m, int n, int k, const void* alpha, const void* a, int at,
                                      int lda, long long sa, const void* b, int bt, int ldb, long long sb, const void* beta,
                                      void* c, int ct, int ldc, long long sc, int batch, int, int) {
    for (int i = 0; i < batch; ++i) {
        const void *ai = (const char*)a + i * sa * width(at), *bi = (const char*)b + i * sb * width(bt);
        void* ci = (char*)c + i * sc * width(ct);
        if (int e = multiplied(h, {ta, tb, m, n, k, alpha, ai, at, lda, bi, bt, ldb, beta, ci, ct, ldc})) return e;
    }
    return OK;
}
EXPORT int cublasSgemmStridedBatched(void* h, int ta, int tb, int m, int n, int k, const float* alpha, const float* a, int lda,
                                     long long sa, const float* b, int ldb, long long sb, const float* beta, float* c, int ldc,
                                     long long sc, int batch) {
    const int t = CUDA_R_32F;
    return cublasGemmStridedBatchedEx(h, ta, tb, m, n, k, alpha, a, t, lda, sa, b, t, ldb, sb, beta, c, t, ldc, sc, batch, 0, 0);
}
