// The threads of a block as fibers. One runs until it waits. A warp's barrier opens when all lanes of its mask are there,
// the block's when all of the block are (those that have returned do not count). Where none can open, a GPU would hang or
// compute nonsense: this says so and aborts.
#pragma once

namespace fibers {
constexpr size_t STACK = 64 << 10;
enum State { RUNS, AT_WARP, AT_BLOCK, DONE };
struct Fiber { ucontext_t context; KernelIndex index; State state; unsigned mask; uint64_t shown; };
static thread_local std::vector<Fiber> all;
static thread_local std::unique_ptr<char[]> stacks;
static thread_local int here, count;
static thread_local ucontext_t home;
static thread_local std::function<void()> body;

static inline void wait(State state, unsigned mask = 0) {
    all[here].state = state;
    all[here].mask = mask;
    swapcontext(&all[here].context, &home);
}
static void entry() { body(); wait(DONE); }

static bool open_warp(int first) {
    const int end = std::min(first + 32, count);
    unsigned missing = 0;
    for (int i = first; i < end; ++i) missing |= unsigned(all[i].state == RUNS || all[i].state == AT_BLOCK) << (i - first);
    bool opened = false;
    for (int i = first; i < end; ++i)
        if (all[i].state == AT_WARP && !(all[i].mask & missing)) { all[i].state = RUNS; opened = true; }
    return opened;
}
// Whether anybody may run on.
static bool open_barriers() {
    bool opened = false;
    for (int first = 0; first < count; first += 32) opened |= open_warp(first);
    if (opened) return true;
    int waiting = 0, left = 0;
    for (int i = 0; i < count; ++i) { waiting += all[i].state == AT_BLOCK; left += all[i].state != DONE; }
    if (waiting < left) { fprintf(stderr, "fake_cuda: threads of a block wait at different barriers\n"); abort(); }
    for (int i = 0; i < count; ++i) if (all[i].state == AT_BLOCK) all[i].state = RUNS;
    return left > 0;
}
template <class Thread> static void run_block(int threads, Thread& thread) {
    body = std::ref(thread);
    count = threads;
    if ((int)all.size() < count) { all = std::vector<Fiber>(count); stacks.reset(new char[count * STACK]); }
    for (int i = 0; i < count; ++i) {
        Fiber& one = all[i];
        getcontext(&one.context);
        one.context.uc_stack.ss_sp = &stacks[i * STACK];
        one.context.uc_stack.ss_size = STACK;
        one.context.uc_link = nullptr;
        makecontext(&one.context, entry, 0);
        const unsigned bx = blockDim.x, by = blockDim.y;
        one.index = {i % bx, i / bx % by, i / bx / by};
        one.state = RUNS;
    }
    do
        for (here = 0; here < count; ++here)
            if (all[here].state == RUNS) { threadIdx = all[here].index; swapcontext(&home, &all[here].context); }
    while (open_barriers());
}
// The value that a lane of the same warp shows; one's own where there is no such lane.
template <class T> static inline T shown_by(unsigned mask, T value, int lane, int first, int width) {
    static_assert(sizeof(T) <= sizeof(uint64_t));
    memcpy(&all[here].shown, &value, sizeof value);
    wait(AT_WARP, mask);
    const int from = here - here % 32 + lane;
    if (lane >= first && lane < first + width && from < count) memcpy(&value, &all[from].shown, sizeof value);
    wait(AT_WARP, mask);
    return value;
}
static inline unsigned ballot(unsigned mask, bool mine) {
    all[here].shown = mine;
    wait(AT_WARP, mask);
    const int first = here - here % 32;
    unsigned votes = 0;
    for (int i = first; i < std::min(first + 32, count); ++i)
        if (mask >> (i - first) & 1 && all[i].state != DONE) votes |= unsigned(all[i].shown != 0) << (i - first);
    wait(AT_WARP, mask);
    return votes;
}
}  // namespace fibers

static inline void __syncthreads() { fibers::wait(fibers::AT_BLOCK); }
static inline void __syncwarp(unsigned mask = ~0u) { fibers::wait(fibers::AT_WARP, mask); }
static inline unsigned __ballot_sync(unsigned mask, int mine) { return fibers::ballot(mask, mine != 0); }
static inline int __any_sync(unsigned mask, int mine) { return fibers::ballot(mask, mine != 0) != 0; }
static inline int __all_sync(unsigned mask, int mine) { return fibers::ballot(mask, mine == 0) == 0; }
#define SHUFFLE(name, lane) \
    template <class T> static inline T name(unsigned mask, T value, int by, int width = 32) { \
        const int mine = fibers::here % 32, first = mine - mine % width; \
        return fibers::shown_by(mask, value, lane, first, width); \
    }
SHUFFLE(__shfl_sync, first + by % width)
SHUFFLE(__shfl_xor_sync, mine ^ by)
SHUFFLE(__shfl_up_sync, mine - by)
SHUFFLE(__shfl_down_sync, mine + by)
