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
    X(bytes_to_device) X(bytes_to_host) X(synchronisations) X(allocations) X(products) X(graphs) X(forks)
struct Counts {
#define X(name) std::atomic<long> name{0};
    COUNTS(X)
#undef X
};
extern Counts counts;

struct Shared;  // an entry in the ledger that processes share: ipc.cpp
struct Block {
    size_t bytes;
    int device;  // -1: page-locked memory of the host
    bool registered = false;    // by cudaHostRegister
    Shared* exported = nullptr;
    Shared* imported = nullptr;  // memory of another process
    uint64_t serial = 0;        // no two blocks have the same
};
struct Use { uintptr_t start; uint64_t serial; };  // a block that an operation reads or writes
class Blocks {
public:
    void add(void* start, Block block);
    bool remove(void* start);
    bool starts(void* start, Block& found);   // the block that begins there
    void share(void* start, Shared* entry);   // note that the block is exported
    bool overlaps(const void* p, size_t bytes);
    bool on_device(const void* p, size_t bytes, int device = -2);  // -2: any
    bool pinned(const void* p, size_t bytes);
    bool use(const void* p, Use& found);      // the block that p points into
    const char* gone(const Use& use);         // why the block must not be used any more, or null
    size_t used(int device);
private:
    bool find(const void* p, size_t bytes, Block& found);
    std::mutex lock_;
    std::map<uintptr_t, Block> blocks_;
    uint64_t last_ = 0;
};
extern Blocks& blocks;
extern thread_local int current;  // this thread's device

const char* import_is_gone(const Shared& entry);  // as Blocks::gone, of memory of another process
bool in_device_memory(const void* p);             // whether the address is one that cudaMalloc gives or gave

// An error of the program that a device notices too late: it is reported, and all later calls fail, as after an illegal address.
extern std::atomic<int> broken;
#define fault(...) (SAY(__VA_ARGS__), broken = cudaErrorIllegalAddress)
inline cudaError_t status() { return (cudaError_t)broken.load(); }

bool forked();  // whether this process is a fork of one that had started the driver
// CUDA's error of whatever forbids the use of a device now: the driver's age, a fork, a device that is lost; else 0.
int refusal();
// The start of the driver, once in a process.
int start_driver();
