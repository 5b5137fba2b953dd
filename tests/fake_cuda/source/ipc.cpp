// libcudart: memory and events that processes share. A handle names the process that exports, the files of its memory and
// of its ledger, and an entry of this ledger. The other process opens both under /proc/PID/fd.
//
// Rules of CUDA ("Interprocess Communication", cudaIpcOpenMemHandle): the process that exports cannot open its handle; a
// second open gives the same address and counts; each open needs a close; a free before the last close is undefined, and
// is reported here.
#include "queue.h"
#include "memory.h"
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>
#include <algorithm>
#include <cstring>

typedef cudaError_t Error;
#define GUARD if (int error = start_driver()) return (Error)error
static const size_t LEDGER = 1 << 20, USERS = 8, PAGE = 4096;
static const char MAGIC[8] = "fakeipc";

// An entry of the ledger, in memory that processes share: of a block or of an event.
struct Shared {
    std::atomic<int> owner;         // the process that exports it
    std::atomic<int> freed;
    std::atomic<int> users[USERS];  // processes that have it open
    std::atomic<int> recorder;      // an event: the process that recorded it last
    std::atomic<uint64_t> issued, completed, wanted;  // records: how many were called, are done, are waited for
};
struct Handle {
    char magic[8];
    int pid, ledger, memory, device;
    uint64_t entry, offset, bytes;
};
static_assert(sizeof(Handle) <= sizeof(cudaIpcMemHandle_t) && sizeof(Handle) <= sizeof(cudaIpcEventHandle_t));
struct Import { Shared* entry; char* mapped; size_t mapped_bytes; void* start; int opens; };
static auto& imports = *new std::map<std::pair<int, uint64_t>, Import>;
static auto& ledgers = *new std::map<int, Shared*>;  // of other processes
static auto& shared_events = *new std::vector<Event*>;
static int own_ledger = -1;

static bool alive(int pid) {
    char path[32], state = 0;
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    FILE* file = fopen(path, "r");
    if (!file) return false;
    const int found = fscanf(file, "%*d (%*[^)]) %c", &state);
    fclose(file);
    return found != 1 || (state != 'Z' && state != 'X');
}
static Shared* mapped_ledger(int fd) {
    void* at = mmap(nullptr, LEDGER, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    return at == MAP_FAILED ? nullptr : (Shared*)at;
}
// A new entry of this process's ledger.
static Shared* new_entry(uint64_t& number) {
    static Shared* all = nullptr;
    static uint64_t count = 0;
    if (!all) {
        own_ledger = memfd_create("fake_cuda ledger", MFD_CLOEXEC);
        if (own_ledger < 0 || ftruncate(own_ledger, LEDGER) || !(all = mapped_ledger(own_ledger))) return nullptr;
    }
    if (count >= LEDGER / sizeof(Shared)) { SAY("more than %zu blocks and events are exported", LEDGER / sizeof(Shared)); return nullptr; }
    number = count++;
    all[number].owner = getpid();
    return &all[number];
}
static int open_of(int pid, int fd) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/fd/%d", pid, fd);
    const int found = open(path, O_RDWR | O_CLOEXEC);
    if (found < 0) SAY("a handle of process %d cannot be opened: the process has ended, or belongs to another user", pid);
    return found;
}
// The entry of a handle of another process, or CUDA's error.
static int entry_of(const Handle& handle, Shared*& found) {
    if (memcmp(handle.magic, MAGIC, sizeof MAGIC)) return cudaErrorInvalidResourceHandle;
    if (handle.pid == getpid()) {
        SAY("process %d opens a handle of its own", handle.pid);
        return cudaErrorDeviceUninitialized;
    }
    Shared*& ledger = ledgers[handle.pid];
    if (!ledger) {
        const int fd = open_of(handle.pid, handle.ledger);
        if (fd < 0) return cudaErrorMapBufferObjectFailed;
        ledger = mapped_ledger(fd);
        close(fd);
        if (!ledger) return cudaErrorMapBufferObjectFailed;
    }
    found = ledger + handle.entry;
    if (!found->freed) return 0;
    SAY("a handle of process %d names what it has freed", handle.pid);
    return cudaErrorInvalidResourceHandle;
}
static void note_user(Shared& entry, int from, int to) {
    for (auto& user : entry.users) {
        int expected = from;
        if (user.compare_exchange_strong(expected, to)) return;
    }
}

// memory
const char* import_is_gone(const Shared& entry) {
    if (entry.freed) return "which the process that exports it has freed";
    return alive(entry.owner) ? nullptr : "whose process has ended";
}
void free_shared(Shared* entry, const void* p) {
    entry->freed = 1;
    for (auto& user : entry->users)
        if (user && alive(user)) fault("memory at %p is freed while process %d has it open", p, (int)user);
}
static auto& numbers = *new std::map<Shared*, uint64_t>;
EXPORT Error cudaIpcGetMemHandle(cudaIpcMemHandle_t* out, void* p) {
    GUARD;
    LOCKED;
    Block block;
    Handle handle{};
    if (!blocks.starts(p, block) || block.device < 0 || block.imported) return cudaErrorInvalidValue;
    if (!place_of(p, block.device, handle.memory, handle.offset)) return cudaErrorNotSupported;
    if (!block.exported) {
        if (!(block.exported = new_entry(handle.entry))) return cudaErrorMemoryAllocation;
        numbers[block.exported] = handle.entry;
        blocks.share(p, block.exported);
    }
    memcpy(handle.magic, MAGIC, sizeof MAGIC);
    handle.pid = getpid();
    handle.ledger = own_ledger;
    handle.device = block.device;
    handle.entry = numbers[block.exported];
    handle.bytes = block.bytes;
    *out = {};
    memcpy(out, &handle, sizeof handle);
    return cudaSuccess;
}
EXPORT Error cudaIpcOpenMemHandle(void** p, cudaIpcMemHandle_t in, unsigned flags) {
    GUARD;
    LOCKED;
    Handle handle;
    Shared* entry = nullptr;
    memcpy(&handle, &in, sizeof handle);
    if (flags != cudaIpcMemLazyEnablePeerAccess) return cudaErrorInvalidValue;
    if (int error = entry_of(handle, entry)) return (Error)error;
    if (handle.device != current) {
        SAY("memory of device %d is opened on device %d: no peer access here", handle.device, current);
        return cudaErrorMapBufferObjectFailed;
    }
    Import& import = imports[{handle.pid, handle.entry}];
    if (!import.opens) {
        const int fd = open_of(handle.pid, handle.memory);
        if (fd < 0) return cudaErrorMapBufferObjectFailed;
        const uint64_t page = handle.offset / PAGE * PAGE;
        const size_t bytes = handle.offset - page + handle.bytes;
        void* at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, page);
        close(fd);
        if (at == MAP_FAILED) return cudaErrorMapBufferObjectFailed;
        madvise(at, bytes, MADV_DONTFORK);
        import = {entry, (char*)at, bytes, (char*)at + (handle.offset - page), 0};
        note_user(*entry, 0, getpid());
        Block block{handle.bytes, current};
        block.imported = entry;
        blocks.add(import.start, block);
    }
    ++import.opens;
    *p = import.start;
    return cudaSuccess;
}
// Waits for the device before the memory goes.
EXPORT Error cudaIpcCloseMemHandle(void* p) {
    if (forked()) return cudaSuccess;
    LOCKED;
    for (auto at = imports.begin(); at != imports.end(); ++at) {
        Import& import = at->second;
        if (import.start != p) continue;
        if (--import.opens) return cudaSuccess;
        if (!refusal()) finish_device(current);
        note_user(*import.entry, getpid(), 0);
        blocks.remove(p);
        munmap(import.mapped, import.mapped_bytes);
        imports.erase(at);
        return status();
    }
    return cudaErrorInvalidValue;
}

// events
// A process runs its part of what another one waits for, as its device would.
static void watch() {
    for (;; usleep(1000)) {
        LOCKED;
        std::vector<Op> wanted;
        for (Event* event : shared_events)
            if (event->recorded && event->shared->wanted >= event->generation) wanted.push_back(event->recorded);
        for (auto& op : wanted) finish(op);
    }
}
static void share(Event& event, Shared* entry) {
    static bool watched = false;
    event.shared = entry;
    shared_events.push_back(&event);
    if (!watched) std::thread(watch).detach();
    watched = true;
}
void forget_shared(Event& event) {
    if (event.shared->owner == getpid()) event.shared->freed = 1;
    shared_events.erase(std::remove(shared_events.begin(), shared_events.end(), &event), shared_events.end());
}
static bool usable(Event& event) {
    const char* why = event.shared->owner == getpid() ? nullptr : import_is_gone(*event.shared);
    if (why) fault("an event of process %d is used, %s", (int)event.shared->owner, why);
    return !why;
}
int record_shared(Stream& stream, Event& event) {
    if (stream.capture) return cudaErrorStreamCaptureUnsupported;
    if (!usable(event)) return broken;
    Shared* entry = event.shared;
    const uint64_t mine = ++entry->issued;
    entry->recorder = getpid();
    event.generation = mine;
    Work work;
    work.what = "the record of an event";
    work.run = [=] {
        uint64_t seen = entry->completed;
        while (seen < mine && !entry->completed.compare_exchange_weak(seen, mine)) {}
    };
    event.recorded = append(stream, std::make_shared<const Work>(std::move(work)));
    return broken;
}
// Whether the record has happened; asks the process that records to go on.
static bool reached(Shared* entry, uint64_t record) {
    if (entry->completed >= record) return true;
    uint64_t seen = entry->wanted;
    while (seen < record && !entry->wanted.compare_exchange_weak(seen, record)) {}
    const int recorder = entry->recorder;
    if (recorder != getpid() && !alive(recorder)) fault("process %d has ended before an event that it recorded", recorder);
    return entry->completed >= record;
}
void wait_shared(Stream& stream, Event& event) {
    if (!usable(event)) return;
    Shared* entry = event.shared;
    const uint64_t record = entry->issued;  // an event that was never recorded is not waited for
    if (entry->completed < record) append(stream, nullptr, {}, [=] { return reached(entry, record); });
}
bool happened(Event& event, bool wait) {
    if (!usable(event)) return false;
    const uint64_t record = event.shared->issued;
    if (event.recorded && event.recorded->number && !event.recorded->done && event.generation == record) {
        if (wait) finish(event.recorded);
        return advance(event.recorded);
    }
    if (wait) finish_until([&] { return reached(event.shared, record); });
    return reached(event.shared, record);
}
EXPORT Error cudaIpcGetEventHandle(cudaIpcEventHandle_t* out, cudaEvent_t e) {
    GUARD;
    LOCKED;
    Event* event = event_of(e);
    if (!event || !(event->flags & cudaEventInterprocess)) return cudaErrorInvalidResourceHandle;
    if (!event->shared) {
        uint64_t number = 0;
        Shared* entry = new_entry(number);
        if (!entry) return cudaErrorMemoryAllocation;
        numbers[entry] = number;
        if (event->recorded && !event->recorded->done) finish(event->recorded);
        share(*event, entry);
    }
    Handle handle{};
    memcpy(handle.magic, MAGIC, sizeof MAGIC);
    handle.pid = event->shared->owner;
    handle.ledger = own_ledger;
    handle.device = event->device;
    handle.entry = numbers[event->shared];
    *out = {};
    memcpy(out, &handle, sizeof handle);
    return cudaSuccess;
}
EXPORT Error cudaIpcOpenEventHandle(cudaEvent_t* e, cudaIpcEventHandle_t in) {
    GUARD;
    LOCKED;
    Handle handle;
    Shared* entry = nullptr;
    memcpy(&handle, &in, sizeof handle);
    if (int error = entry_of(handle, entry)) return (Error)error;
    if (cudaError_t error = cudaEventCreateWithFlags(e, cudaEventDisableTiming)) return error;
    share(*event_of(*e), entry);
    return cudaSuccess;
}
