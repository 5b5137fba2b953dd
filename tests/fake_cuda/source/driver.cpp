// libcuda: the driver's start, contexts, modules and launches. A module is a shared library that nvrtc.cpp has made.
#include "state.h"
#include <dlfcn.h>
#include <cstring>

enum { OK = 0, INVALID_VALUE = 1, OUT_OF_MEMORY = 2, INVALID_DEVICE = 101, INVALID_IMAGE = 200, NOT_FOUND = 500 };

// The numbers of most errors are the same in driver and runtime; that of too old a driver is not one of libcuda's.
static int driver_error(int error) { return error == cudaErrorInsufficientDriver ? OK : error; }

EXPORT int cuInit(unsigned) { return driver_error(start_driver()); }
EXPORT int cuDriverGetVersion(int* v) { *v = settings.driver; return OK; }
EXPORT int cuDeviceGetCount(int* n) { *n = settings.devices; return OK; }
EXPORT int cuDeviceGet(int* device, int n) { *device = n; return n < settings.devices ? OK : INVALID_DEVICE; }
EXPORT int cuDevicePrimaryCtxRetain(void** context, int) {
    if (int error = driver_error(refusal())) return error;
    if (settings.memory < 1 << 20) return OUT_OF_MEMORY;  // less than a context takes
    *context = (void*)0x10;
    return OK;
}
EXPORT int cuDevicePrimaryCtxRelease_v2(int) { return OK; }
EXPORT int cuGetErrorName(int e, const char** s) { *s = cudaGetErrorName((cudaError_t)e); return OK; }
EXPORT int cuGetErrorString(int e, const char** s) { *s = cudaGetErrorString((cudaError_t)e); return OK; }
EXPORT int cuCtxGetCurrent(void** context) { *context = (void*)0x10; return OK; }
EXPORT int cuCtxSetCurrent(void*) { return OK; }
EXPORT int cuCtxGetDevice(int* device) { *device = current; return OK; }

EXPORT int cuModuleLoadData(void** module, const void* image) {
    const char* path = (const char*)image;
    if (strncmp(path, "FAKE:", 5)) { SAY("a module that was not compiled here"); return INVALID_IMAGE; }
    *module = dlopen(path + 5, RTLD_NOW | RTLD_LOCAL);
    if (!*module) SAY("%s", dlerror());
    return *module ? OK : INVALID_IMAGE;
}
EXPORT int cuModuleUnload(void*) { return OK; }
EXPORT int cuModuleGetFunction(void** function, void* module, const char* name) {
    *function = dlsym(module, (std::string("launch_") + name).c_str());
    return *function ? OK : NOT_FOUND;
}
EXPORT int cuModuleGetGlobal_v2(void** p, size_t* bytes, void* module, const char* name) {
    *p = dlsym(module, name);
    if (bytes) *bytes = 0;
    return *p ? OK : NOT_FOUND;
}
EXPORT int cuLaunchKernel(void* function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                          unsigned shared, void*, void** arguments, void**) {
    if (int error = refusal()) return error;
    if (!gx || !gy || !gz || gy > 65535 || gz > 65535 || bx * by * bz - 1 > 1023) return INVALID_VALUE;
    counts.launches++;
    const unsigned sizes[] = {gx, gy, gz, bx, by, bz};
    ((void (*)(const unsigned*, size_t, void**))function)(sizes, shared, arguments);
    return OK;
}
EXPORT int cuFuncGetAttribute(int* v, int, void*) { *v = 1024; return OK; }
EXPORT int cuFuncSetAttribute(void*, int, int) { return OK; }
EXPORT int cuOccupancyMaxActiveBlocksPerMultiprocessor(int* n, void*, int, size_t) { *n = 8; return OK; }
EXPORT int cuOccupancyMaxPotentialBlockSize(int* g, int* b, void*, void*, size_t, int) { *g = 264; *b = 256; return OK; }
