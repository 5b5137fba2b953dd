// Settings, blocks, counts; what makes every call fail. See state.h.
#include "state.h"
#include <pthread.h>
#include <unistd.h>

const Settings settings;
Counts counts;
Blocks blocks;
thread_local int current = 0;

static std::atomic<pid_t> owner{0};  // the process that started the driver

void Blocks::add(void* start, size_t bytes, int device) {
    std::lock_guard<std::mutex> held(lock_);
    blocks_[(uintptr_t)start] = {bytes, device};
}
bool Blocks::remove(void* start, bool pinned) {
    std::lock_guard<std::mutex> held(lock_);
    auto at = blocks_.find((uintptr_t)start);
    if (at == blocks_.end() || (at->second.device < 0) != pinned) return false;
    blocks_.erase(at);
    return true;
}
bool Blocks::find(const void* p, size_t bytes, Block& found) {
    std::lock_guard<std::mutex> held(lock_);
    auto after = blocks_.upper_bound((uintptr_t)p);
    if (after == blocks_.begin()) return false;
    auto& [start, block] = *--after;
    found = block;
    return (uintptr_t)p + bytes <= start + block.bytes;
}
bool Blocks::on_device(const void* p, size_t bytes, int device) {
    Block found;
    return find(p, bytes, found) && (device == -2 ? found.device >= 0 : found.device == device);
}
bool Blocks::pinned(const void* p) {
    Block found;
    return find(p, 1, found) && found.device < 0;
}
size_t Blocks::used(int device) {
    std::lock_guard<std::mutex> held(lock_);
    size_t sum = 0;
    for (auto& [start, block] : blocks_) sum += block.device == device ? block.bytes : 0;
    return sum;
}

static void before_fork() {
    if (owner != getpid()) return;
    counts.forks++;
    SAY("process %d forks after it has started the driver", (int)getpid());
}
int start_driver() {
    static std::once_flag once;
    std::call_once(once, [] {
        usleep((useconds_t)(1e6 * settings.start_seconds));
        owner = getpid();
        pthread_atfork(before_fork, nullptr, nullptr);
    });
    return refusal();
}
int refusal() {
    if (settings.driver < 13000) return cudaErrorInsufficientDriver;
    if (owner && owner != getpid()) {
        SAY("CUDA is used in process %d, a fork of process %d, which had started the driver", (int)getpid(), (int)owner);
        return cudaErrorInitializationError;
    }
    if (settings.devices < 1) return cudaErrorNoDevice;
    if (settings.vanish_after >= 0 && counts.launches >= settings.vanish_after) return cudaErrorDevicesUnavailable;
    return 0;
}

EXPORT const char* fake_counts(long* out) {
#define X(name) *out++ = counts.name;
    COUNTS(X)
#undef X
#define X(name) #name " "
    return COUNTS(X);
#undef X
}
