// What the stand-in's libraries share: settings, blocks of memory, counts, and whether a device may be used at all.
#pragma once
#include <cuda_runtime_api.h>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <mutex>
#include <string>

#define EXPORT extern "C" __attribute__((visibility("default")))
#define SAY(...) (fprintf(stderr, "fake_cuda: " __VA_ARGS__), fputc('\n', stderr))

// Settings, read once. A test sets them for the processes that it starts.
inline double number(const char* name, double otherwise) {
    const char* text = getenv(name);
    return text && *text ? atof(text) : otherwise;
}
struct Settings {
    int devices = number("FAKE_CUDA_DEVICES", 1);
    int driver = number("FAKE_CUDA_DRIVER", 13000);             // the CUDA version that the driver is for
    double start_seconds = number("FAKE_CUDA_START_SECONDS", 0);  // what cuInit takes
    size_t memory = number("FAKE_CUDA_MEMORY_GB", 8) * (1 << 30);  // of each device
    size_t pinned = number("FAKE_CUDA_PINNED_GB", 8) * (1 << 30);  // page-locked memory, the most at once
    long vanish_after = number("FAKE_CUDA_VANISH_AFTER", -1);   // launches; then every call says that the device is lost
};
extern const Settings settings;

#define COUNTS(X) X(launches) X(compilations) X(copies_to_device) X(copies_to_host) X(copies_on_device) \
    X(bytes_to_device) X(bytes_to_host) X(synchronisations) X(allocations) X(products) X(forks)
struct Counts {
#define X(name) std::atomic<long> name{0};
    COUNTS(X)
#undef X
};
extern Counts counts;

struct Block { size_t bytes; int device; };  // device -1: pinned memory of the host
class Blocks {
public:
    void add(void* start, size_t bytes, int device);
    bool remove(void* start, bool pinned);
    bool on_device(const void* p, size_t bytes, int device = -2);  // -2: any
    bool pinned(const void* p);
    size_t used(int device);
private:
    bool find(const void* p, size_t bytes, Block& found);
    std::mutex lock_;
    std::map<uintptr_t, Block> blocks_;
};
extern Blocks blocks;
extern thread_local int current;  // this thread's device

// CUDA's error of whatever forbids the use of a device now: the driver's age, a fork, a device that is lost; else 0.
int refusal();
// The start of the driver, once in a process.
int start_driver();
