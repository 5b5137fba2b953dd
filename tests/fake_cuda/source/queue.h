// The work of devices: streams of operations, which run when something waits for them, and graphs of operations.
//
// An operation waits for the operations that CUDA orders before it: the one before it in its stream, those behind an
// event, those of the legacy default stream. queue.cpp chooses among all that wait for nothing: in the order of the calls,
// or in an order that FAKE_CUDA_SEED draws.
#pragma once
#include "state.h"
#include <chrono>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

typedef std::chrono::steady_clock Clock;
struct Function;  // a kernel: driver.cpp

// A launch of a kernel. Its arguments are copied at the call, as the driver does it.
struct Launch {
    Function* function = nullptr;
    unsigned sizes[6] = {};  // blocks, threads
    unsigned shared = 0;
    std::vector<uint64_t> bytes;       // the arguments, each on a boundary of 16 bytes
    std::vector<void*> arguments;      // their addresses in `bytes`
};
// What a device does: once, or at every launch of a graph.
struct Work {
    std::string what;
    std::function<void()> run;
    std::vector<Use> uses;  // the blocks of memory that it reads or writes
    cudaGraphNodeType type = cudaGraphNodeTypeKernel;
    std::atomic<long>* count = nullptr;  // counted at the call, unless the call is captured
    std::atomic<long>* bytes_count = nullptr;
    size_t bytes = 0;
    std::shared_ptr<const Launch> launch;  // of a kernel
};
struct Operation {
    std::shared_ptr<const Work> work;  // null: an event, or the end of a graph
    std::function<bool()> may_start;   // an event of another process: whether it has happened
    long number = 0;                   // in the order of the calls
    int device = 0, lane = 0;
    int missing = 0;                   // operations before it that are not done
    bool done = false;
    Clock::time_point finished;
    std::vector<std::shared_ptr<Operation>> next;
};
typedef std::shared_ptr<Operation> Op;

struct Node { std::shared_ptr<const Work> work; std::vector<size_t> after; int lane; };
struct Graph { std::vector<Node> nodes; };
struct Stream;
struct Capture {
    Graph graph;
    Stream* origin;
    cudaStreamCaptureMode mode;
    std::thread::id thread;
    bool valid = true, ended = false;
    std::vector<Stream*> streams;
};
struct Stream {
    int device, lane;
    bool blocking, legacy = false;  // blocking: ordered with the legacy default stream
    unsigned flags = 0;
    int priority = 0;
    Op last;
    std::shared_ptr<Capture> capture;
    std::vector<size_t> frontier;  // the nodes of the capture that the next one follows
};
struct Shared;  // what processes share of an event: ipc.cpp
struct Event {
    unsigned flags = 0;
    int device = 0;
    Op recorded;
    std::shared_ptr<Capture> capture;  // the capture in which it was recorded last
    std::vector<size_t> frontier;
    Shared* shared = nullptr;
    uint64_t generation = 0;  // of a shared event: the record of this process
};

// All functions below are called with this lock held. One operation runs at a time.
extern std::recursive_mutex& queue_lock;
#define LOCKED std::lock_guard<std::recursive_mutex> held(queue_lock)

// The stream of a handle of CUDA: 0 and 1 the legacy default stream, 2 the thread's own. Null: there is none.
Stream* stream_of(void* handle);
Event* event_of(void* handle);
// Queue work, or add it to the graph that the stream captures. Return CUDA's error.
int submit(Stream* stream, Work work);
int submit(void* handle, Work work);
Op append(Stream& stream, std::shared_ptr<const Work> work, const std::vector<Op>& after = {}, std::function<bool()> may_start = {});
std::vector<Op> before_next(Stream& stream);  // the operations that the next one of a stream follows
Op enqueue(std::shared_ptr<const Work> work, int device, int lane, const std::vector<Op>& after, std::function<bool()> may_start = {});
void finish(const Op& op);            // run until it is done
void finish_until(const std::function<bool()>& reached);
bool advance(const Op& op);           // whether it is done; if not, a few operations run for the next question
void finish_device(int device);
void finish_all();
bool outstanding(const void* start, size_t bytes);  // whether queued work uses this memory

// What a capture refuses. Return CUDA's error, or 0.
int may_use(Stream* stream);          // a call that orders work behind the stream's: the legacy stream during a capture
int may_wait(Stream* stream);         // a call that waits for the stream
int may_wait_for_device(int device);
int may_be_unsafe();                  // a call that captures cannot observe, such as an allocation
bool blocking_capture(int device);    // whether a capture makes the device's legacy stream unusable
void add_node(Stream& stream, std::shared_ptr<const Work> work);
int wait_captured(Stream& stream, Event& event, bool& handled);

// Events that processes share.
int record_shared(Stream& stream, Event& event);
void wait_shared(Stream& stream, Event& event);
bool happened(Event& event, bool wait);
