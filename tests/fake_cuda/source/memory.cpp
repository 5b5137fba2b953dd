// libcudart: memory and copies. Device memory is one file in memory for each device, so that processes can share a block.
//
// Copies follow CUDA's "API synchronization behavior" (Runtime API, section 2):
//   pageable host -> device  the bytes are taken at the call, the device gets them in the order of the stream; the
//                            synchronous form waits for the stream before it takes them
//   page-locked host -> device, device -> page-locked host  in the order of the stream; the synchronous form waits
//   device -> pageable host  done when the call returns ("might be synchronous", as drivers do it)
//   device -> device         in the order of the stream; no form waits
//   host -> host             done when the call returns
#include "queue.h"
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>
#include <algorithm>
#include <cstring>
#include "memory.h"

typedef cudaError_t Error;
#define GUARD if (int error = start_driver()) return (Error)error
static const size_t UNIT = 512;  // the alignment of cudaMalloc

// The memory of one device: the lowest hole that is large enough, else the first byte that was never used. What is not
// allocated is full of NaN.
struct Arena {
    int fd = -1;
    char* base = nullptr;
    size_t size = 0, fresh = 0;
    std::map<size_t, size_t> holes;  // where they begin, and how large they are
};
static auto& arenas = *new std::map<int, Arena>;
static const bool sanitized = getenv("FAKE_CUDA_SANITIZE") && *getenv("FAKE_CUDA_SANITIZE");  // blocks of malloc then

static bool open_arena(Arena& arena) {
    arena.size = 2 * settings.memory + (size_t(64) << 20);  // addresses; only what is used takes memory
    arena.fd = memfd_create("fake_cuda memory", MFD_CLOEXEC);
    if (arena.fd < 0 || ftruncate(arena.fd, arena.size)) return false;
    void* at = mmap(nullptr, arena.size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, arena.fd, 0);
    if (at == MAP_FAILED) return false;
    madvise(at, arena.size, MADV_DONTFORK);
    arena.base = (char*)at;
    return true;
}
static bool is_unwritten(const char* p, size_t bytes) {
    for (size_t i = 0; i < bytes; i += 8)
        if (*(const uint64_t*)(p + i) != ~uint64_t(0)) return false;
    return true;
}
static void* take(Arena& arena, size_t bytes) {
    if (!arena.base && !open_arena(arena)) return nullptr;
    bytes = (bytes + UNIT - 1) / UNIT * UNIT + (bytes ? 0 : UNIT);
    for (auto at = arena.holes.begin(); at != arena.holes.end(); ++at) {
        auto [start, size] = *at;
        if (size < bytes) continue;
        arena.holes.erase(at);
        if (size > bytes) arena.holes[start + bytes] = size - bytes;
        if (!is_unwritten(arena.base + start, bytes)) fault("memory at %p was written after it was freed", arena.base + start);
        return arena.base + start;
    }
    if (arena.fresh + bytes > arena.size) return nullptr;
    char* found = arena.base + arena.fresh;
    arena.fresh += bytes;
    memset(found, 0xff, bytes);  // NaN: a read of what nobody has written shows
    return found;
}
static void give_back(Arena& arena, char* p, size_t bytes) {
    bytes = (bytes + UNIT - 1) / UNIT * UNIT + (bytes ? 0 : UNIT);
    memset(p, 0xff, bytes);
    size_t start = p - arena.base;
    auto after = arena.holes.lower_bound(start);
    if (after != arena.holes.end() && after->first == start + bytes) {
        bytes += after->second;
        after = arena.holes.erase(after);
    }
    if (after != arena.holes.begin() && std::prev(after)->first + std::prev(after)->second == start) {
        --after;
        start = after->first;
        bytes += after->second;
    }
    arena.holes[start] = bytes;
}
bool in_device_memory(const void* p) {
    LOCKED;
    for (auto& [device, arena] : arenas)
        if (arena.base && (const char*)p >= arena.base && (const char*)p < arena.base + arena.size) return true;
    return false;
}
bool place_of(const void* p, int device, int& fd, uint64_t& offset) {
    auto at = arenas.find(device);
    if (sanitized || at == arenas.end()) return false;
    fd = at->second.fd;
    offset = (const char*)p - at->second.base;
    return true;
}

EXPORT Error cudaMalloc(void** p, size_t bytes) {
    GUARD;
    LOCKED;
    if (int error = may_be_unsafe()) return (Error)error;
    counts.allocations++;
    if (blocks.used(current) + bytes > settings.memory) return cudaErrorMemoryAllocation;
    if (!sanitized) *p = take(arenas[current], bytes);
    else if (posix_memalign(p, UNIT, bytes ? bytes : 1)) *p = nullptr;
    else memset(*p, 0xff, bytes);
    if (!*p) return cudaErrorMemoryAllocation;
    blocks.add(*p, {bytes, current});
    return status();
}
// Waits for the device, as drivers do ("may perform implicit synchronization").
EXPORT Error cudaFree(void* p) {
    Block block;
    if (!p || forked()) return cudaSuccess;
    LOCKED;
    if (int error = may_be_unsafe()) return (Error)error;
    if (!blocks.starts(p, block) || block.device < 0 || block.imported) return cudaErrorInvalidValue;
    if (!refusal()) finish_device(block.device);
    if (block.exported) free_shared(block.exported, p);
    blocks.remove(p);
    if (sanitized) free(p);
    else give_back(arenas[block.device], (char*)p, block.bytes);
    return cudaSuccess;
}
EXPORT Error cudaHostAlloc(void** p, size_t bytes, unsigned) {
    GUARD;
    LOCKED;
    if (int error = may_be_unsafe()) return (Error)error;
    if (bytes > settings.pinned || posix_memalign(p, 4096, bytes ? bytes : 1)) return cudaErrorMemoryAllocation;
    blocks.add(*p, {bytes, -1});
    return cudaSuccess;
}
// Waits for all devices, as drivers do.
EXPORT Error cudaFreeHost(void* p) {
    Block block;
    if (!p || forked()) return cudaSuccess;
    LOCKED;
    if (int error = may_be_unsafe()) return (Error)error;
    if (!blocks.starts(p, block) || block.device >= 0 || block.registered) return cudaErrorInvalidValue;
    if (!refusal()) finish_all();
    blocks.remove(p);
    free(p);
    return cudaSuccess;
}
EXPORT Error cudaHostRegister(void* p, size_t bytes, unsigned) {
    GUARD;
    LOCKED;
    if (int error = may_be_unsafe()) return (Error)error;
    if (!p || !bytes) return cudaErrorInvalidValue;
    if (bytes > settings.pinned) return cudaErrorMemoryAllocation;
    if (blocks.overlaps(p, bytes)) return cudaErrorHostMemoryAlreadyRegistered;
    Block block{bytes, -1};
    block.registered = true;
    blocks.add(p, block);
    return cudaSuccess;
}
EXPORT Error cudaHostUnregister(void* p) {
    Block block;
    if (forked()) return cudaSuccess;
    LOCKED;
    if (int error = may_be_unsafe()) return (Error)error;
    if (!blocks.starts(p, block) || !block.registered) return cudaErrorHostMemoryNotRegistered;
    if (!refusal() && outstanding(p, block.bytes)) fault("memory at %p is unregistered while copies to or from it are queued", p);
    blocks.remove(p);
    return status();
}

static void note_use(Work& work, const void* p) {
    Use use;
    if (blocks.use(p, use)) work.uses.push_back(use);
}
// A copy says where its ends lie. Both are looked at: a GPU would fail, or copy what nobody meant.
static Error copy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind, cudaStream_t handle, bool synchronous) {
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
    Stream* stream = stream_of(handle);
    if (!stream) return cudaErrorInvalidResourceHandle;
    if (int error = may_use(stream)) return (Error)error;
    const bool captured = stream->capture != nullptr;
    Work work;
    work.what = "a copy";
    work.type = cudaGraphNodeTypeMemcpy;
    work.bytes = bytes;
    if (onto && off) work.count = &counts.copies_on_device;
    else if (onto) { work.count = &counts.copies_to_device; work.bytes_count = &counts.bytes_to_device; }
    else if (off) { work.count = &counts.copies_to_host; work.bytes_count = &counts.bytes_to_host; }
    note_use(work, to);
    note_use(work, from);
    work.run = [=] { memmove(to, from, bytes); };
    bool wait = synchronous && !(onto && off);
    if (!captured) {
        if (onto && !off && !blocks.pinned(from, bytes)) {
            if (synchronous) for (auto& op : before_next(*stream)) finish(op);
            auto staged = std::make_shared<std::string>((const char*)from, bytes);
            work.run = [=] { memcpy(to, staged->data(), bytes); };
            wait = false;
        } else if (!onto && (!off || !blocks.pinned(to, bytes))) {
            wait = true;
        }
    }
    if (int error = submit(stream, std::move(work))) return (Error)error;
    if (wait && !captured) finish(stream->last);
    return status();
}
EXPORT Error cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind, cudaStream_t stream) {
    GUARD;
    LOCKED;
    return copy(to, from, bytes, kind, stream, false);
}
EXPORT Error cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind) {
    GUARD;
    LOCKED;
    counts.synchronisations++;
    if (int error = may_be_unsafe()) return (Error)error;
    return copy(to, from, bytes, kind, nullptr, true);
}
EXPORT Error cudaMemsetAsync(void* p, int value, size_t bytes, cudaStream_t stream) {
    GUARD;
    LOCKED;
    if (bytes && !blocks.on_device(p, bytes)) return cudaErrorInvalidValue;
    Work work;
    work.what = "cudaMemset";
    work.type = cudaGraphNodeTypeMemset;
    work.run = [=] { memset(p, value, bytes); };
    note_use(work, p);
    return (Error)submit(stream_of(stream), std::move(work));
}
EXPORT Error cudaMemset(void* p, int value, size_t bytes) { return cudaMemsetAsync(p, value, bytes, nullptr); }
EXPORT Error cudaPointerGetAttributes(cudaPointerAttributes* a, const void* p) {
    *a = {};
    a->type = blocks.on_device(p, 1) ? cudaMemoryTypeDevice : blocks.pinned(p, 1) ? cudaMemoryTypeHost : cudaMemoryTypeUnregistered;
    a->device = current;
    a->devicePointer = a->hostPointer = (void*)p;
    return cudaSuccess;
}
