// The queue of operations, and the order in which they run. See queue.h.
#include "queue.h"
#include <unistd.h>
#include <algorithm>
#include <cstring>

static const size_t MOST = 1024;  // operations that wait at a time; more make the caller wait, as a full queue of the driver
static const int FEW = 16;        // operations that a question about progress lets run

std::recursive_mutex& queue_lock = *new std::recursive_mutex;  // never destroyed: Python's last objects use it at the exit
static auto& ready = *new std::map<long, Op>;                  // all that wait for nothing
static auto& waiting = *new std::map<long, Op>;                // all that are not done
static auto& per_device = *new std::map<int, size_t>;
static long last_number = 0;

// numbers that depend on the seed alone
static uint64_t mixed(uint64_t x) {
    x += 0x9e3779b97f4a7c15;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
    x = (x ^ x >> 27) * 0x94d049bb133111eb;
    return x ^ x >> 31;
}
static uint64_t seed = number("FAKE_CUDA_SEED", 0), turn = 0;
static uint64_t drawn() { return mixed(mixed(seed) + ++turn); }
static uint64_t order = 0;  // of the lanes; drawn again at every wait and now and then

// The operation to run next, null if all wait for other processes. Without a seed the order of the calls. With one, lanes
// (streams, and branches of graphs) have an order: the first one runs as far as it can.
static Op chosen() {
    Op best;
    uint64_t rank = 0;
    for (auto& [number, op] : ready) {
        if (op->may_start && !op->may_start()) continue;
        if (!seed) return op;
        const uint64_t mine = mixed(order + op->lane);
        if (!best || mine > rank) { best = op; rank = mine; }
    }
    if (seed && drawn() % 16 == 0) order = drawn();
    return best;
}
static void run(const Op& op) {
    ready.erase(op->number);
    if (op->work) {
        for (auto& use : op->work->uses)
            if (const char* why = blocks.gone(use)) {
                fault("%s uses memory at %p, %s", op->work->what.c_str(), (void*)use.start, why);
                break;
            }
        if (!broken && op->work->run) op->work->run();
    }
    op->finished = Clock::now();
    op->done = true;
    waiting.erase(op->number);
    --per_device[op->device];
    op->work = nullptr;
    for (auto& next : op->next)
        if (--next->missing == 0) ready[next->number] = next;
    op->next.clear();
}
static bool run_one() {
    Op op = chosen();
    if (op) run(op);
    return op != nullptr;
}
void finish_until(const std::function<bool()>& reached) {
    if (seed) order = drawn();
    while (!reached() && !broken) {
        if (run_one()) continue;
        if (reached()) break;
        // what is left waits for another process; its threads, and ours that record events, go on meanwhile
        queue_lock.unlock();
        usleep(200);
        queue_lock.lock();
    }
}
void finish(const Op& op) { if (op) finish_until([&] { return op->done; }); }
bool advance(const Op& op) {
    if (!op || op->done) return true;
    for (int i = 0; i < FEW && !op->done && run_one(); ++i) {}
    return false;
}
void finish_device(int device) { finish_until([&] { return per_device[device] == 0; }); }
void finish_all() { finish_until([] { return waiting.empty(); }); }

bool outstanding(const void* start, size_t bytes) {
    const uintptr_t first = (uintptr_t)start;
    for (auto& [number, op] : waiting)
        for (size_t i = 0; op->work && i < op->work->uses.size(); ++i)
            if (op->work->uses[i].start >= first && op->work->uses[i].start < first + bytes) return true;
    return false;
}

Op enqueue(std::shared_ptr<const Work> work, int device, int lane, const std::vector<Op>& after, std::function<bool()> may_start) {
    auto op = std::make_shared<Operation>();
    op->work = std::move(work);
    op->may_start = std::move(may_start);
    op->device = device;
    op->lane = lane;
    op->number = ++last_number;
    for (auto& one : after)
        if (one && !one->done) { ++op->missing; one->next.push_back(op); }
    waiting[op->number] = op;
    ++per_device[device];
    if (!op->missing) ready[op->number] = op;
    while (waiting.size() > MOST && run_one()) {}
    if (seed && seed % 3 == 0 && drawn() % 4 == 0) run_one();  // a device may be quick as well
    return op;
}
Op append(Stream& stream, std::shared_ptr<const Work> work, const std::vector<Op>& after, std::function<bool()> may_start) {
    std::vector<Op> all = before_next(stream);
    all.insert(all.end(), after.begin(), after.end());
    stream.last = enqueue(std::move(work), stream.device, stream.lane, all, std::move(may_start));
    return stream.last;
}
int submit(Stream* stream, Work work) {
    if (!stream) return cudaErrorInvalidResourceHandle;
    if (int error = may_use(stream)) return error;
    auto shared = std::make_shared<const Work>(std::move(work));
    if (stream->capture) { add_node(*stream, shared); return 0; }
    if (shared->count) ++*shared->count;
    if (shared->bytes_count) *shared->bytes_count += shared->bytes;
    append(*stream, shared);
    return broken;
}
int submit(void* handle, Work work) {
    LOCKED;
    return submit(stream_of(handle), std::move(work));
}
// Wait for everything, without a count: for a replacement of a library that computes on the host.
EXPORT void fake_finish() {
    if (refusal()) return;
    LOCKED;
    finish_all();
}
// Finish the queued work, and go on in another order.
EXPORT void fake_seed(uint64_t other) {
    fake_finish();
    LOCKED;
    seed = other;
    turn = 0;
}
