// libcudart: devices, memory, streams and events. A call has done its work when it returns; nothing is ever outstanding.
#include "state.h"
#include <chrono>
#include <cstring>

typedef cudaError_t Error;
#define GUARD if (int error = start_driver()) return (Error)error

// errors
static const struct { Error error; const char *name, *text; } NAMES[] = {
    {cudaSuccess, "cudaSuccess", "no error"},
    {cudaErrorInvalidValue, "cudaErrorInvalidValue", "invalid argument"},
    {cudaErrorMemoryAllocation, "cudaErrorMemoryAllocation", "out of memory"},
    {cudaErrorInitializationError, "cudaErrorInitializationError", "initialization error"},
    {cudaErrorInsufficientDriver, "cudaErrorInsufficientDriver", "CUDA driver version is insufficient for CUDA runtime version"},
    {cudaErrorDevicesUnavailable, "cudaErrorDevicesUnavailable", "CUDA-capable device(s) is/are busy or unavailable"},
    {cudaErrorNoDevice, "cudaErrorNoDevice", "no CUDA-capable device is detected"},
    {cudaErrorInvalidDevice, "cudaErrorInvalidDevice", "invalid device ordinal"},
};
EXPORT const char* cudaGetErrorName(Error e) {
    for (auto& one : NAMES) if (one.error == e) return one.name;
    return "cudaErrorUnknown";
}
EXPORT const char* cudaGetErrorString(Error e) {
    for (auto& one : NAMES) if (one.error == e) return one.text;
    return "unknown error";
}
EXPORT Error cudaGetLastError() { return cudaSuccess; }

// devices
EXPORT Error cudaDriverGetVersion(int* v) { *v = settings.driver; return cudaSuccess; }
EXPORT Error cudaRuntimeGetVersion(int* v) { *v = 13000; return cudaSuccess; }
EXPORT Error cudaGetDeviceCount(int* n) { GUARD; *n = settings.devices; return cudaSuccess; }
EXPORT Error cudaGetDevice(int* d) { GUARD; *d = current; return cudaSuccess; }
EXPORT Error cudaSetDevice(int d) {
    GUARD;
    if (d < 0 || d >= settings.devices) return cudaErrorInvalidDevice;
    current = d;
    return cudaSuccess;
}
EXPORT Error cudaDeviceGetAttribute(int* v, cudaDeviceAttr attribute, int) {
    switch (attribute) {
        case cudaDevAttrComputeCapabilityMajor: *v = 9; break;
        case cudaDevAttrMultiProcessorCount: *v = 132; break;
        case cudaDevAttrMaxThreadsPerBlock: *v = 1024; break;
        case cudaDevAttrWarpSize: *v = 32; break;
        default: *v = 0;
    }
    return cudaSuccess;
}
EXPORT Error cudaGetDeviceProperties(cudaDeviceProp* p, int) {
    *p = {};
    strcpy(p->name, "a processor that stands in for a GPU");
    p->totalGlobalMem = settings.memory;
    p->major = 9;
    p->multiProcessorCount = 132;
    p->warpSize = 32;
    p->sharedMemPerBlock = 48 << 10;
    p->maxThreadsPerBlock = 1024;
    return cudaSuccess;
}
EXPORT Error cudaDeviceSynchronize() { GUARD; counts.synchronisations++; return cudaSuccess; }
EXPORT Error cudaDeviceCanAccessPeer(int* v, int, int) { *v = 0; return cudaSuccess; }
EXPORT Error cudaMemGetInfo(size_t* unused, size_t* all) {
    GUARD;
    *all = settings.memory;
    *unused = *all - blocks.used(current);
    return cudaSuccess;
}

// memory
EXPORT Error cudaMalloc(void** p, size_t bytes) {
    GUARD;
    counts.allocations++;
    if (blocks.used(current) + bytes > settings.memory || posix_memalign(p, 512, bytes ? bytes : 1))
        return cudaErrorMemoryAllocation;
    memset(*p, 0xff, bytes);  // NaN: a read of what nobody has written shows
    blocks.add(*p, bytes, current);
    return cudaSuccess;
}
EXPORT Error cudaFree(void* p) {
    if (!p) return cudaSuccess;
    if (!blocks.remove(p, false)) return cudaErrorInvalidValue;
    free(p);
    return cudaSuccess;
}
EXPORT Error cudaHostAlloc(void** p, size_t bytes, unsigned) {
    GUARD;
    if (bytes > settings.pinned || posix_memalign(p, 4096, bytes ? bytes : 1)) return cudaErrorMemoryAllocation;
    blocks.add(*p, bytes, -1);
    return cudaSuccess;
}
EXPORT Error cudaFreeHost(void* p) { blocks.remove(p, true); free(p); return cudaSuccess; }
EXPORT Error cudaHostRegister(void* p, size_t bytes, unsigned) { GUARD; blocks.add(p, bytes, -1); return cudaSuccess; }
EXPORT Error cudaHostUnregister(void* p) { return blocks.remove(p, true) ? cudaSuccess : cudaErrorInvalidValue; }

// A copy says where its ends lie. Both are looked at: a GPU would fail, or copy what nobody meant.
EXPORT Error cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind, cudaStream_t) {
    GUARD;
    const bool onto = blocks.on_device(to, bytes), off = blocks.on_device(from, bytes);
    if (bytes && kind != cudaMemcpyDefault) {
        const bool to_device = kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice;
        const bool from_device = kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice;
        if (onto != to_device || off != from_device) {
            SAY("a copy of kind %d, but its target is%s, its source is%s memory of a device", kind, onto ? "" : " not",
                off ? "" : " not");
            return cudaErrorInvalidValue;
        }
    }
    if (onto && off) counts.copies_on_device++;
    else if (onto) { counts.copies_to_device++; counts.bytes_to_device += bytes; }
    else if (off) { counts.copies_to_host++; counts.bytes_to_host += bytes; }
    memmove(to, from, bytes);
    return cudaSuccess;
}
EXPORT Error cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind) {
    counts.synchronisations++;
    return cudaMemcpyAsync(to, from, bytes, kind, nullptr);
}
EXPORT Error cudaMemsetAsync(void* p, int value, size_t bytes, cudaStream_t) {
    GUARD;
    if (bytes && !blocks.on_device(p, bytes)) return cudaErrorInvalidValue;
    memset(p, value, bytes);
    return cudaSuccess;
}
EXPORT Error cudaMemset(void* p, int value, size_t bytes) { return cudaMemsetAsync(p, value, bytes, nullptr); }
EXPORT Error cudaPointerGetAttributes(cudaPointerAttributes* a, const void* p) {
    *a = {};
    a->type = blocks.on_device(p, 1) ? cudaMemoryTypeDevice : blocks.pinned(p) ? cudaMemoryTypeHost : cudaMemoryTypeUnregistered;
    a->device = current;
    a->devicePointer = a->hostPointer = (void*)p;
    return cudaSuccess;
}

// streams and events
EXPORT Error cudaStreamCreateWithFlags(cudaStream_t* s, unsigned) {
    GUARD;
    static std::atomic<uintptr_t> next{0x1000};
    *s = (cudaStream_t)next.fetch_add(16);
    return cudaSuccess;
}
EXPORT Error cudaStreamCreate(cudaStream_t* s) { return cudaStreamCreateWithFlags(s, 0); }
EXPORT Error cudaStreamCreateWithPriority(cudaStream_t* s, unsigned, int) { return cudaStreamCreateWithFlags(s, 0); }
EXPORT Error cudaStreamDestroy(cudaStream_t) { return cudaSuccess; }
EXPORT Error cudaStreamSynchronize(cudaStream_t) { GUARD; counts.synchronisations++; return cudaSuccess; }
EXPORT Error cudaStreamQuery(cudaStream_t) { GUARD; return cudaSuccess; }
EXPORT Error cudaStreamWaitEvent(cudaStream_t, cudaEvent_t, unsigned) { return cudaSuccess; }
EXPORT Error cudaStreamIsCapturing(cudaStream_t, cudaStreamCaptureStatus* s) { *s = cudaStreamCaptureStatusNone; return cudaSuccess; }
EXPORT Error cudaStreamGetFlags(cudaStream_t, unsigned* flags) { *flags = 0; return cudaSuccess; }
EXPORT Error cudaStreamGetPriority(cudaStream_t, int* priority) { *priority = 0; return cudaSuccess; }

typedef std::chrono::steady_clock Clock;
EXPORT Error cudaEventCreateWithFlags(cudaEvent_t* e, unsigned) { *e = (cudaEvent_t) new Clock::time_point; return cudaSuccess; }
EXPORT Error cudaEventCreate(cudaEvent_t* e) { return cudaEventCreateWithFlags(e, 0); }
EXPORT Error cudaEventDestroy(cudaEvent_t e) { delete (Clock::time_point*)e; return cudaSuccess; }
EXPORT Error cudaEventRecord(cudaEvent_t e, cudaStream_t) { *(Clock::time_point*)e = Clock::now(); return cudaSuccess; }
EXPORT Error cudaEventQuery(cudaEvent_t) { GUARD; return cudaSuccess; }
EXPORT Error cudaEventSynchronize(cudaEvent_t) { GUARD; counts.synchronisations++; return cudaSuccess; }
EXPORT Error cudaEventElapsedTime(float* ms, cudaEvent_t a, cudaEvent_t b) {
    *ms = std::chrono::duration<float, std::milli>(*(Clock::time_point*)b - *(Clock::time_point*)a).count();
    return cudaSuccess;
}
