// libcudart: streams and events. The rules of the default streams are those of CUDA's "Stream synchronization behavior".
#include "queue.h"
#include <algorithm>
#include <unordered_map>

typedef cudaError_t Error;
#define GUARD if (int error = start_driver()) return (Error)error

static auto& streams = *new std::unordered_map<void*, std::shared_ptr<Stream>>;
static auto& events = *new std::unordered_map<void*, std::shared_ptr<Event>>;
static auto& legacy = *new std::map<int, Stream>;
static int last_lane = 0;

static Stream& legacy_of(int device) {
    auto at = legacy.find(device);
    if (at != legacy.end()) return at->second;
    Stream& made = legacy[device];
    made.device = device;
    made.lane = ++last_lane;
    made.legacy = made.blocking = true;
    return made;
}
static std::shared_ptr<Stream> new_stream(unsigned flags, int priority) {
    auto made = std::make_shared<Stream>();
    made->device = current;
    made->lane = ++last_lane;
    made->flags = flags;
    made->blocking = !(flags & cudaStreamNonBlocking);
    made->priority = priority;
    streams[made.get()] = made;
    return made;
}
Stream* stream_of(void* handle) {
    if (handle == nullptr || handle == cudaStreamLegacy) return &legacy_of(current);
    if (handle == cudaStreamPerThread) {
        static thread_local std::map<int, Stream*> own;
        Stream*& mine = own[current];
        if (!mine) mine = new_stream(cudaStreamDefault, 0).get();
        return mine;
    }
    auto at = streams.find(handle);
    return at == streams.end() ? nullptr : at->second.get();
}
Event* event_of(void* handle) {
    auto at = events.find(handle);
    return at == events.end() ? nullptr : at->second.get();
}
std::vector<Op> before_next(Stream& stream) {
    std::vector<Op> found{stream.last};
    if (stream.legacy)
        for (auto& [handle, other] : streams)
            if (other->blocking && other->device == stream.device && other->last && !other->last->done) found.push_back(other->last);
    if (stream.blocking && !stream.legacy) found.push_back(legacy_of(stream.device).last);
    return found;
}

// What a capture refuses (CUDA Programming Guide, "Prohibited and Unhandled Operations"). A refused call ends the capture.
static void spoil(const std::shared_ptr<Capture>& capture) { capture->valid = false; }
static thread_local cudaStreamCaptureMode thread_mode = cudaStreamCaptureModeGlobal;

static Stream* blocking_and_captured(int device) {
    for (auto& [handle, one] : streams)
        if (one->capture && one->blocking && one->device == device) return one.get();
    return nullptr;
}
bool blocking_capture(int device) { return blocking_and_captured(device); }
int may_use(Stream* stream) {
    if (stream->capture) return stream->capture->valid ? 0 : cudaErrorStreamCaptureInvalidated;
    Stream* captured = stream->legacy ? blocking_and_captured(stream->device) : nullptr;
    if (!captured) return 0;
    SAY("the legacy default stream is used while a blocking stream of device %d is captured", stream->device);
    spoil(captured->capture);
    return cudaErrorStreamCaptureImplicit;
}
int may_wait(Stream* stream) {
    if (int error = may_use(stream)) return error;
    if (!stream->capture) return 0;
    spoil(stream->capture);
    return cudaErrorStreamCaptureUnsupported;
}
int may_wait_for_device(int device) {
    for (auto& [handle, one] : streams)
        if (one->capture && one->device == device) { spoil(one->capture); return cudaErrorStreamCaptureUnsupported; }
    return 0;
}
// See cudaThreadExchangeStreamCaptureMode.
int may_be_unsafe() {
    if (thread_mode == cudaStreamCaptureModeRelaxed) return 0;
    for (auto& [handle, one] : streams) {
        if (!one->capture || one->capture->mode == cudaStreamCaptureModeRelaxed) continue;
        const bool mine = one->capture->thread == std::this_thread::get_id();
        if (!mine && (thread_mode == cudaStreamCaptureModeThreadLocal || one->capture->mode != cudaStreamCaptureModeGlobal)) continue;
        spoil(one->capture);
        return cudaErrorStreamCaptureUnsupported;
    }
    return 0;
}
EXPORT Error cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode) { std::swap(*mode, thread_mode); return cudaSuccess; }

// streams
EXPORT Error cudaStreamCreateWithPriority(cudaStream_t* s, unsigned flags, int priority) {
    GUARD;
    LOCKED;
    *s = (cudaStream_t)new_stream(flags, priority).get();
    return cudaSuccess;
}
EXPORT Error cudaStreamCreateWithFlags(cudaStream_t* s, unsigned flags) { return cudaStreamCreateWithPriority(s, flags, 0); }
EXPORT Error cudaStreamCreate(cudaStream_t* s) { return cudaStreamCreateWithFlags(s, 0); }
// Its queued work still runs.
EXPORT Error cudaStreamDestroy(cudaStream_t s) {
    if (forked()) return cudaSuccess;
    LOCKED;
    auto at = streams.find(s);
    if (at == streams.end()) return cudaErrorInvalidResourceHandle;
    Stream& stream = *at->second;
    if (stream.capture) {
        SAY("a stream is destroyed while it is captured");
        spoil(stream.capture);
        auto& all = stream.capture->streams;
        all.erase(std::remove(all.begin(), all.end(), &stream), all.end());
    }
    // the legacy default stream waits for it as long as it has work
    if (stream.blocking && stream.last && !stream.last->done) {
        Stream& base = legacy_of(stream.device);
        base.last = enqueue(nullptr, stream.device, base.lane, {base.last, stream.last});
    }
    streams.erase(at);
    return cudaSuccess;
}
EXPORT Error cudaStreamSynchronize(cudaStream_t s) {
    GUARD;
    LOCKED;
    counts.synchronisations++;
    Stream* stream = stream_of(s);
    if (!stream) return cudaErrorInvalidResourceHandle;
    if (int error = may_wait(stream)) return (Error)error;
    for (auto& op : before_next(*stream))
        if (stream->legacy || op == stream->last) finish(op);
    return status();
}
EXPORT Error cudaStreamQuery(cudaStream_t s) {
    GUARD;
    LOCKED;
    Stream* stream = stream_of(s);
    if (!stream) return cudaErrorInvalidResourceHandle;
    if (int error = may_wait(stream)) return (Error)error;
    for (auto& op : before_next(*stream))
        if ((stream->legacy || op == stream->last) && !advance(op)) return cudaErrorNotReady;
    return status();
}
EXPORT Error cudaDeviceSynchronize() {
    GUARD;
    LOCKED;
    counts.synchronisations++;
    if (int error = may_wait_for_device(current)) return (Error)error;
    finish_device(current);
    return status();
}
EXPORT Error cudaStreamGetFlags(cudaStream_t s, unsigned* flags) {
    LOCKED;
    Stream* stream = stream_of(s);
    if (!stream) return cudaErrorInvalidResourceHandle;
    *flags = stream->flags;
    return cudaSuccess;
}
EXPORT Error cudaStreamGetPriority(cudaStream_t s, int* priority) {
    LOCKED;
    Stream* stream = stream_of(s);
    if (!stream) return cudaErrorInvalidResourceHandle;
    *priority = stream->priority;
    return cudaSuccess;
}
EXPORT Error cudaStreamWaitEvent(cudaStream_t s, cudaEvent_t e, unsigned) {
    GUARD;
    LOCKED;
    Stream* stream = stream_of(s);
    Event* event = event_of(e);
    if (!stream || !event) return cudaErrorInvalidResourceHandle;
    bool handled = false;
    if (int error = wait_captured(*stream, *event, handled)) return (Error)error;
    if (handled) return cudaSuccess;
    if (int error = may_use(stream)) return (Error)error;
    if (event->shared) wait_shared(*stream, *event);
    else if (event->recorded && !event->recorded->done) append(*stream, nullptr, {event->recorded});
    return status();
}

// events
EXPORT Error cudaEventCreateWithFlags(cudaEvent_t* e, unsigned flags) {
    GUARD;
    if (flags & cudaEventInterprocess && !(flags & cudaEventDisableTiming)) return cudaErrorInvalidValue;
    LOCKED;
    auto made = std::make_shared<Event>();
    made->flags = flags;
    made->device = current;
    events[made.get()] = made;
    *e = (cudaEvent_t)made.get();
    return cudaSuccess;
}
EXPORT Error cudaEventCreate(cudaEvent_t* e) { return cudaEventCreateWithFlags(e, 0); }
EXPORT Error cudaEventRecord(cudaEvent_t e, cudaStream_t s) {
    GUARD;
    LOCKED;
    Stream* stream = stream_of(s);
    Event* event = event_of(e);
    if (!stream || !event || event->device != stream->device) return cudaErrorInvalidResourceHandle;
    if (int error = may_use(stream)) return (Error)error;
    event->capture = stream->capture;
    event->frontier = stream->frontier;
    if (event->shared) return (Error)record_shared(*stream, *event);
    event->recorded = stream->capture ? nullptr : append(*stream, nullptr);
    return status();
}
// Whether work was captured between this event's record and now: it stands for no work of a device then.
static int is_captured(Event& event) {
    if (!event.capture) return 0;
    if (!event.capture->ended) spoil(event.capture);
    return cudaErrorCapturedEvent;
}
EXPORT Error cudaEventQuery(cudaEvent_t e) {
    GUARD;
    LOCKED;
    Event* event = event_of(e);
    if (!event) return cudaErrorInvalidResourceHandle;
    if (int error = is_captured(*event)) return (Error)error;
    if (int error = may_be_unsafe()) return (Error)error;
    const bool done = event->shared ? happened(*event, false) : advance(event->recorded);
    return broken ? status() : done ? cudaSuccess : cudaErrorNotReady;
}
EXPORT Error cudaEventSynchronize(cudaEvent_t e) {
    GUARD;
    LOCKED;
    counts.synchronisations++;
    Event* event = event_of(e);
    if (!event) return cudaErrorInvalidResourceHandle;
    if (int error = is_captured(*event)) return (Error)error;
    if (event->shared) happened(*event, true);
    else finish(event->recorded);
    return status();
}
EXPORT Error cudaEventElapsedTime(float* ms, cudaEvent_t a, cudaEvent_t b) {
    GUARD;
    LOCKED;
    Event *from = event_of(a), *to = event_of(b);
    if (!from || !to || !from->recorded || !to->recorded) return cudaErrorInvalidResourceHandle;
    if ((from->flags | to->flags) & cudaEventDisableTiming) return cudaErrorInvalidResourceHandle;
    if (!from->recorded->done || !to->recorded->done) return cudaErrorNotReady;
    *ms = std::chrono::duration<float, std::milli>(to->recorded->finished - from->recorded->finished).count();
    return cudaSuccess;
}
void forget_shared(Event& event);
EXPORT Error cudaEventDestroy(cudaEvent_t e) {
    if (forked()) return cudaSuccess;
    LOCKED;
    auto at = events.find(e);
    if (at == events.end()) return cudaErrorInvalidResourceHandle;
    if (at->second->shared) forget_shared(*at->second);
    events.erase(at);
    return cudaSuccess;
}
