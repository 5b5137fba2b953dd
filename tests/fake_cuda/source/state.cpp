// Settings, blocks, counts; what makes every call fail. See state.h.
#include "state.h"
#include <pthread.h>
#include <unistd.h>

const Settings settings;
Counts counts;
Blocks& blocks = *new Blocks;  // never destroyed: Python's last objects use it at the exit
std::atomic<int> broken{0};
thread_local int current = 0;

static std::atomic<pid_t> owner{0};  // the process that started the driver

void Blocks::add(void* start, Block block) {
    std::lock_guard<std::mutex> held(lock_);
    block.serial = ++last_;
    blocks_[(uintptr_t)start] = block;
}
bool Blocks::remove(void* start) {
    std::lock_guard<std::mutex> held(lock_);
    return blocks_.erase((uintptr_t)start) > 0;
}
bool Blocks::starts(void* start, Block& found) {
    std::lock_guard<std::mutex> held(lock_);
    auto at = blocks_.find((uintptr_t)start);
    if (at == blocks_.end()) return false;
    found = at->second;
    return true;
}
void Blocks::share(void* start, Shared* entry) {
    std::lock_guard<std::mutex> held(lock_);
    blocks_[(uintptr_t)start].exported = entry;
}
bool Blocks::overlaps(const void* p, size_t bytes) {
    std::lock_guard<std::mutex> held(lock_);
    auto after = blocks_.lower_bound((uintptr_t)p + bytes);
    if (after == blocks_.begin()) return false;
    auto& [start, block] = *--after;
    return start + block.bytes > (uintptr_t)p;
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
bool Blocks::pinned(const void* p, size_t bytes) {
    Block found;
    return find(p, bytes, found) && found.device < 0;
}
bool Blocks::use(const void* p, Use& found) {
    std::lock_guard<std::mutex> held(lock_);
    auto after = blocks_.upper_bound((uintptr_t)p);
    if (after == blocks_.begin()) return false;
    auto& [start, block] = *--after;
    found = {start, block.serial};
    return (uintptr_t)p < start + block.bytes;
}
const char* Blocks::gone(const Use& use) {
    std::lock_guard<std::mutex> held(lock_);
    auto at = blocks_.find(use.start);
    if (at == blocks_.end() || at->second.serial != use.serial) return "which was freed before";
    return at->second.imported ? import_is_gone(*at->second.imported) : nullptr;
}
size_t Blocks::used(int device) {
    std::lock_guard<std::mutex> held(lock_);
    size_t sum = 0;
    for (auto& [start, block] : blocks_) sum += block.device == device && !block.imported ? block.bytes : 0;
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
bool forked() { return owner && owner != getpid(); }
int refusal() {
    if (settings.driver < 13000) return cudaErrorInsufficientDriver;
    if (forked()) {
        SAY("CUDA is used in process %d, a fork of process %d, which had started the driver", (int)getpid(), (int)owner);
        return cudaErrorInitializationError;
    }
    if (settings.devices < 1) return cudaErrorNoDevice;
    if (settings.vanish_after >= 0 && counts.launches >= settings.vanish_after) return cudaErrorDevicesUnavailable;
    return broken;
}

EXPORT const char* fake_counts(long* out) {
#define X(name) *out++ = counts.name;
    COUNTS(X)
#undef X
#define X(name) #name " "
    return COUNTS(X);
#undef X
}
