// libcuda: the driver's start, contexts, modules and launches. A module is a shared library that nvrtc.cpp has made.
#include "queue.h"
#include "kernels.h"
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
    void* launch = dlsym(module, (std::string("launch_") + name).c_str());
    void* sizes = dlsym(module, (std::string("sizes_") + name).c_str());
    if (!launch || !sizes) return NOT_FOUND;
    static auto& known = *new std::map<void*, Function>;
    LOCKED;
    Function& found = known[launch];
    found = {name, (void (*)(const unsigned*, size_t, void**))launch, {}};
    found.sizes.resize(((size_t (*)(size_t*))sizes)(nullptr));
    ((size_t (*)(size_t*))sizes)(found.sizes.data());
    *function = &found;
    return OK;
}
EXPORT int cuModuleGetGlobal_v2(void** p, size_t* bytes, void* module, const char* name) {
    *p = dlsym(module, name);
    if (bytes) *bytes = 0;
    return *p ? OK : NOT_FOUND;
}
static int checked(const unsigned* s) {
    return !s[0] || !s[1] || !s[2] || s[1] > 65535 || s[2] > 65535 || s[3] * s[4] * s[5] - 1 > 1023 ? INVALID_VALUE : OK;
}
// The blocks of memory that arguments point into. CuPy's arrays are structs that begin with their address; other words of
// a struct may be the remains of anything.
static void note_uses(Work& work, const Launch& launch) {
    for (size_t i = 0; i < launch.arguments.size(); ++i) {
        if (launch.function->sizes[i] < sizeof(void*)) continue;
        const char* p = *(const char* const*)launch.arguments[i];
        Use use;
        if (blocks.use(p, use)) work.uses.push_back(use);
        else if (in_device_memory(p) && !blocks.use(p - 1, use))  // a pointer just behind an array is allowed
            fault("%s gets the address %p, in memory that was freed or never allocated", work.what.c_str(), p);
    }
}
int kernel_work(Function* function, const unsigned* sizes, unsigned shared, void** arguments, Work& work) {
    if (int error = checked(sizes)) return error;
    auto launch = std::make_shared<Launch>();
    launch->function = function;
    memcpy(launch->sizes, sizes, sizeof launch->sizes);
    launch->shared = shared;
    size_t words = 0;
    for (size_t size : function->sizes) words += (size + 15) / 16 * 2;
    launch->bytes.resize(words);
    words = 0;
    for (size_t i = 0; i < function->sizes.size(); ++i) {
        memcpy(&launch->bytes[words], arguments[i], function->sizes[i]);
        launch->arguments.push_back(&launch->bytes[words]);
        words += (function->sizes[i] + 15) / 16 * 2;
    }
    work.what = "the kernel " + function->name;
    work.count = &counts.launches;
    work.launch = launch;
    work.run = [launch] {
        launch->function->launch(launch->sizes, launch->shared, const_cast<void**>(launch->arguments.data()));
    };
    note_uses(work, *launch);
    return broken;
}
EXPORT int cuLaunchKernel(void* function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                          unsigned shared, void* handle, void** arguments, void**) {
    if (int error = refusal()) return error;
    LOCKED;
    Stream* stream = stream_of(handle);
    if (!stream || stream->device != current) return cudaErrorInvalidResourceHandle;
    const unsigned sizes[] = {gx, gy, gz, bx, by, bz};
    Work work;
    if (int error = kernel_work((Function*)function, sizes, shared, arguments, work)) return error;
    return submit(stream, std::move(work));
}
EXPORT int cuFuncGetAttribute(int* v, int, void*) { *v = 1024; return OK; }
EXPORT int cuFuncSetAttribute(void*, int, int) { return OK; }
EXPORT int cuOccupancyMaxActiveBlocksPerMultiprocessor(int* n, void*, int, size_t) { *n = 8; return OK; }
EXPORT int cuOccupancyMaxPotentialBlockSize(int* g, int* b, void*, void*, size_t, int) { *g = 264; *b = 256; return OK; }
