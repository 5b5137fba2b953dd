// libcudart: errors and devices.
#include "state.h"
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
    {cudaErrorDeviceUninitialized, "cudaErrorDeviceUninitialized", "invalid device context"},
    {cudaErrorMapBufferObjectFailed, "cudaErrorMapBufferObjectFailed", "mapping of buffer object failed"},
    {cudaErrorInvalidResourceHandle, "cudaErrorInvalidResourceHandle", "invalid resource handle"},
    {cudaErrorIllegalState, "cudaErrorIllegalState", "the operation cannot be performed in the present state"},
    {cudaErrorNotReady, "cudaErrorNotReady", "device not ready"},
    {cudaErrorIllegalAddress, "cudaErrorIllegalAddress", "an illegal memory access was encountered"},
    {cudaErrorHostMemoryAlreadyRegistered, "cudaErrorHostMemoryAlreadyRegistered", "part or all of the requested memory range is already mapped"},
    {cudaErrorHostMemoryNotRegistered, "cudaErrorHostMemoryNotRegistered", "pointer does not correspond to a registered memory region"},
    {cudaErrorNotSupported, "cudaErrorNotSupported", "operation not supported"},
    {cudaErrorStreamCaptureUnsupported, "cudaErrorStreamCaptureUnsupported", "operation not permitted when stream is capturing"},
    {cudaErrorStreamCaptureInvalidated, "cudaErrorStreamCaptureInvalidated", "operation failed due to a previous error during capture"},
    {cudaErrorStreamCaptureMerge, "cudaErrorStreamCaptureMerge", "operation would result in a merge of separate capture sequences"},
    {cudaErrorStreamCaptureUnmatched, "cudaErrorStreamCaptureUnmatched", "capture was not ended in the same stream as it began"},
    {cudaErrorStreamCaptureUnjoined, "cudaErrorStreamCaptureUnjoined", "capturing stream has unjoined work"},
    {cudaErrorStreamCaptureIsolation, "cudaErrorStreamCaptureIsolation", "dependency created on uncaptured work in another stream"},
    {cudaErrorStreamCaptureImplicit, "cudaErrorStreamCaptureImplicit", "operation would make the legacy stream depend on a capturing blocking stream"},
    {cudaErrorCapturedEvent, "cudaErrorCapturedEvent", "operation not permitted on an event last recorded in a capturing stream"},
    {cudaErrorStreamCaptureWrongThread, "cudaErrorStreamCaptureWrongThread", "attempt to terminate a thread-local capture sequence from another thread"},
    {cudaErrorGraphExecUpdateFailure, "cudaErrorGraphExecUpdateFailure", "the graph update was not performed because it included changes which violated constraints"},
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
EXPORT Error cudaDeviceCanAccessPeer(int* v, int, int) { *v = 0; return cudaSuccess; }
EXPORT Error cudaMemGetInfo(size_t* unused, size_t* all) {
    GUARD;
    *all = settings.memory;
    *unused = *all - blocks.used(current);
    return cudaSuccess;
}
