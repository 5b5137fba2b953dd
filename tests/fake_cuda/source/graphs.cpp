// libcudart and libcuda: capture of streams, and graphs. A graph is a list of work with its order; a launch queues it.
#include "queue.h"
#include "kernels.h"
#include <algorithm>
#include <cstdio>
#include <unordered_map>

typedef cudaError_t Error;
#define GUARD if (int error = start_driver()) return (Error)error

// An instance has nodes of its own, which may be changed; cudaGraphNode_t names a node of the graph that it was made from.
struct Exec { Graph graph; const Graph* origin; Op last; };
struct Place { const Graph* graph; size_t index; };
static auto& graphs = *new std::unordered_map<const void*, std::unique_ptr<Graph>>;
static auto& execs = *new std::unordered_map<void*, std::unique_ptr<Exec>>;
static auto& places = *new std::map<std::pair<const Graph*, size_t>, std::unique_ptr<Place>>;  // what a cudaGraphNode_t is

// capture
static void join(std::vector<size_t>& frontier, const std::vector<size_t>& more) {
    frontier.insert(frontier.end(), more.begin(), more.end());
    std::sort(frontier.begin(), frontier.end());
    frontier.erase(std::unique(frontier.begin(), frontier.end()), frontier.end());
}
void add_node(Stream& stream, std::shared_ptr<const Work> work) {
    auto& nodes = stream.capture->graph.nodes;
    nodes.push_back({std::move(work), stream.frontier, stream.lane});
    stream.frontier = {nodes.size() - 1};
}
// A wait for an event, where a capture has to do with one of both.
int wait_captured(Stream& stream, Event& event, bool& handled) {
    if (event.capture && event.capture->ended) return cudaErrorCapturedEvent;
    if (!event.capture && !stream.capture) return 0;
    handled = true;
    auto capture = event.capture ? event.capture : stream.capture;
    if (!capture->valid) return cudaErrorStreamCaptureInvalidated;
    auto refused = [&](int error) { capture->valid = false; return error; };
    if (!event.capture) {
        if (event.shared) return refused(cudaErrorStreamCaptureUnsupported);
        return event.recorded ? refused(cudaErrorStreamCaptureIsolation) : 0;
    }
    if (stream.legacy) return refused(cudaErrorStreamCaptureImplicit);
    if (stream.capture && stream.capture != event.capture) {
        stream.capture->valid = false;
        return refused(cudaErrorStreamCaptureMerge);
    }
    if (!stream.capture) {
        stream.capture = capture;
        capture->streams.push_back(&stream);
    }
    join(stream.frontier, event.frontier);
    return 0;
}
EXPORT Error cudaStreamBeginCapture(cudaStream_t s, cudaStreamCaptureMode mode) {
    GUARD;
    LOCKED;
    Stream* stream = stream_of(s);
    if (!stream) return cudaErrorInvalidResourceHandle;
    if (stream->legacy) return cudaErrorStreamCaptureUnsupported;
    if (stream->capture) return cudaErrorIllegalState;
    stream->capture = std::make_shared<Capture>();
    stream->capture->origin = stream;
    stream->capture->mode = mode;
    stream->capture->thread = std::this_thread::get_id();
    stream->capture->streams = {stream};
    stream->frontier.clear();
    return cudaSuccess;
}
// Whether all streams that have joined the capture lead back to the one in which it began.
static bool joined(const Capture& capture) {
    std::vector<bool> before(capture.graph.nodes.size());
    for (size_t node : capture.origin->frontier) before[node] = true;
    for (size_t i = before.size(); i-- > 0;)
        if (before[i]) for (size_t node : capture.graph.nodes[i].after) before[node] = true;
    return std::find(before.begin(), before.end(), false) == before.end();
}
EXPORT Error cudaStreamEndCapture(cudaStream_t s, cudaGraph_t* graph) {
    GUARD;
    LOCKED;
    *graph = nullptr;
    Stream* stream = stream_of(s);
    if (!stream) return cudaErrorInvalidResourceHandle;
    auto capture = stream->capture;
    if (!capture) return cudaErrorIllegalState;
    auto refused = [&](Error error) { capture->valid = false; return error; };
    if (capture->origin != stream) return refused(cudaErrorStreamCaptureUnmatched);
    if (capture->mode != cudaStreamCaptureModeRelaxed && capture->thread != std::this_thread::get_id())
        return refused(cudaErrorStreamCaptureWrongThread);
    const bool whole = joined(*capture);
    capture->ended = true;
    for (Stream* one : capture->streams) {
        one->capture = nullptr;
        one->frontier.clear();
    }
    if (!capture->valid) return cudaErrorStreamCaptureInvalidated;
    if (!whole) return cudaErrorStreamCaptureUnjoined;
    auto made = std::make_unique<Graph>(capture->graph);
    *graph = (cudaGraph_t)made.get();
    graphs[made.get()] = std::move(made);
    return cudaSuccess;
}
EXPORT Error cudaStreamIsCapturing(cudaStream_t s, cudaStreamCaptureStatus* status) {
    GUARD;
    LOCKED;
    Stream* stream = stream_of(s);
    if (!stream) return cudaErrorInvalidResourceHandle;
    if (stream->legacy) {
        // the question itself does not end the capture
        if (blocking_capture(stream->device)) return cudaErrorStreamCaptureImplicit;
        *status = cudaStreamCaptureStatusNone;
        return cudaSuccess;
    }
    *status = !stream->capture ? cudaStreamCaptureStatusNone
        : stream->capture->valid ? cudaStreamCaptureStatusActive : cudaStreamCaptureStatusInvalidated;
    return cudaSuccess;
}

// graphs
static Exec* exec_of(void* handle) {
    auto at = execs.find(handle);
    return at == execs.end() ? nullptr : at->second.get();
}
EXPORT Error cudaGraphInstantiate(cudaGraphExec_t* made, cudaGraph_t graph, unsigned long long) {
    GUARD;
    LOCKED;
    auto at = graphs.find(graph);
    if (at == graphs.end()) return cudaErrorInvalidValue;
    auto exec = std::make_unique<Exec>(Exec{*at->second, at->second.get(), nullptr});
    *made = (cudaGraphExec_t)exec.get();
    execs[exec.get()] = std::move(exec);
    return cudaSuccess;
}
EXPORT Error cudaGraphDestroy(cudaGraph_t graph) {
    if (forked()) return cudaSuccess;
    LOCKED;
    return graphs.erase(graph) ? cudaSuccess : cudaErrorInvalidValue;
}
EXPORT Error cudaGraphExecDestroy(cudaGraphExec_t exec) {
    if (forked()) return cudaSuccess;
    LOCKED;
    return execs.erase(exec) ? cudaSuccess : cudaErrorInvalidValue;
}
EXPORT Error cudaGraphUpload(cudaGraphExec_t exec, cudaStream_t s) {
    GUARD;
    LOCKED;
    return exec_of(exec) && stream_of(s) ? cudaSuccess : cudaErrorInvalidValue;
}
// A launch of an instance waits for the one before it, in whatever stream that was.
EXPORT Error cudaGraphLaunch(cudaGraphExec_t handle, cudaStream_t s) {
    GUARD;
    LOCKED;
    Exec* exec = exec_of(handle);
    Stream* stream = stream_of(s);
    if (!exec || !stream) return cudaErrorInvalidValue;
    if (int error = may_use(stream)) return (Error)error;
    for (auto& node : exec->graph.nodes)
        for (auto& use : node.work->uses)
            if (const char* why = blocks.gone(use)) {
                fault("a graph is launched, but its node (%s) uses memory at %p, %s", node.work->what.c_str(), (void*)use.start, why);
                return status();
            }
    if (stream->capture) {  // a graph inside of a graph
        auto& nodes = stream->capture->graph.nodes;
        const size_t first = nodes.size();
        for (auto node : exec->graph.nodes) {
            for (size_t& before : node.after) before += first;
            if (node.after.empty()) node.after = stream->frontier;
            nodes.push_back(node);
        }
        for (size_t i = first; i < nodes.size(); ++i) join(stream->frontier, {i});
        return cudaSuccess;
    }
    counts.graphs++;
    std::vector<Op> first = before_next(*stream), all;
    first.push_back(exec->last);
    for (auto& node : exec->graph.nodes) {
        std::vector<Op> after = node.after.empty() ? first : std::vector<Op>();
        for (size_t before : node.after) after.push_back(all[before]);
        all.push_back(enqueue(node.work, stream->device, node.lane, after));
    }
    exec->last = append(*stream, nullptr, all);
    return status();
}
EXPORT Error cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t* nodes, size_t* count) {
    LOCKED;
    auto at = graphs.find(graph);
    if (at == graphs.end()) return cudaErrorInvalidValue;
    const size_t all = at->second->nodes.size();
    for (size_t i = 0; nodes && i < *count; ++i) {
        if (i >= all) { nodes[i] = nullptr; continue; }
        auto& place = places[{at->second.get(), i}];
        if (!place) place.reset(new Place{at->second.get(), i});
        nodes[i] = (cudaGraphNode_t)place.get();
    }
    *count = nodes ? std::min(all, *count) : all;
    return cudaSuccess;
}
static const Node* node_of(cudaGraphNode_t handle, const Graph* in = nullptr) {
    const Place& place = *(const Place*)handle;
    auto at = handle ? graphs.find(place.graph) : graphs.end();
    if (at == graphs.end() || place.index >= at->second->nodes.size()) return nullptr;
    return &(in ? *in : *place.graph).nodes.at(place.index);
}
EXPORT Error cudaGraphNodeGetType(cudaGraphNode_t node, cudaGraphNodeType* type) {
    LOCKED;
    const Node* found = node_of(node);
    if (!found) return cudaErrorInvalidValue;
    *type = found->work->type;
    return cudaSuccess;
}
// A product of cuBLAS is a node of type kernel whose parameters are not shown.
EXPORT Error cudaGraphKernelNodeGetParams(cudaGraphNode_t node, cudaKernelNodeParams* params) {
    LOCKED;
    const Node* found = node_of(node);
    if (!found || !found->work->launch) return cudaErrorInvalidValue;
    const Launch& launch = *found->work->launch;
    const unsigned* s = launch.sizes;
    *params = {};
    params->func = launch.function;
    params->gridDim = {s[0], s[1], s[2]};
    params->blockDim = {s[3], s[4], s[5]};
    params->sharedMemBytes = launch.shared;
    params->kernelParams = const_cast<void**>(launch.arguments.data());
    return cudaSuccess;
}
// Launches that are queued keep their parameters.
EXPORT Error cudaGraphExecKernelNodeSetParams(cudaGraphExec_t handle, cudaGraphNode_t node, const cudaKernelNodeParams* params) {
    GUARD;
    LOCKED;
    Exec* exec = exec_of(handle);
    const Node* found = node_of(node);
    if (!exec || !found || !found->work->launch || ((const Place*)node)->graph != exec->origin) return cudaErrorInvalidValue;
    const unsigned sizes[] = {params->gridDim.x, params->gridDim.y, params->gridDim.z,
                              params->blockDim.x, params->blockDim.y, params->blockDim.z};
    Work work;
    if (int error = kernel_work((Function*)params->func, sizes, params->sharedMemBytes, params->kernelParams, work)) return (Error)error;
    exec->graph.nodes[((const Place*)node)->index].work = std::make_shared<const Work>(std::move(work));
    return cudaSuccess;
}
// The new graph must have the same nodes in the same order; kernels may have other functions, sizes and arguments.
EXPORT Error cudaGraphExecUpdate(cudaGraphExec_t handle, cudaGraph_t graph, cudaGraphExecUpdateResultInfo* result) {
    GUARD;
    LOCKED;
    Exec* exec = exec_of(handle);
    auto at = graphs.find(graph);
    if (!exec || at == graphs.end()) return cudaErrorInvalidValue;
    auto &own = exec->graph.nodes, &other = at->second->nodes;
    bool same = own.size() == other.size();
    for (size_t i = 0; same && i < own.size(); ++i)
        same = own[i].after == other[i].after && own[i].work->type == other[i].work->type;
    if (result) {
        *result = {};
        result->result = same ? cudaGraphExecUpdateSuccess : cudaGraphExecUpdateErrorTopologyChanged;
    }
    if (!same) return cudaErrorGraphExecUpdateFailure;
    for (size_t i = 0; i < own.size(); ++i) own[i].work = other[i].work;
    return cudaSuccess;
}
EXPORT Error cudaGraphDebugDotPrint(cudaGraph_t graph, const char* path, unsigned) {
    LOCKED;
    auto at = graphs.find(graph);
    FILE* file = at == graphs.end() ? nullptr : fopen(path, "w");
    if (!file) return cudaErrorInvalidValue;
    fprintf(file, "digraph {\n");
    auto& nodes = at->second->nodes;
    for (size_t i = 0; i < nodes.size(); ++i) {
        fprintf(file, "  n%zu [label=\"%s\"]\n", i, nodes[i].work->what.c_str());
        for (size_t before : nodes[i].after) fprintf(file, "  n%zu -> n%zu\n", before, i);
    }
    fprintf(file, "}\n");
    fclose(file);
    return cudaSuccess;
}

// The driver's names. The parameters of a kernel begin with the same fields.
EXPORT int cuStreamBeginCapture_v2(void* s, int mode) { return cudaStreamBeginCapture((cudaStream_t)s, (cudaStreamCaptureMode)mode); }
EXPORT int cuStreamEndCapture(void* s, void** graph) { return cudaStreamEndCapture((cudaStream_t)s, (cudaGraph_t*)graph); }
EXPORT int cuGraphInstantiateWithFlags(void** exec, void* graph, unsigned long long flags) {
    return cudaGraphInstantiate((cudaGraphExec_t*)exec, (cudaGraph_t)graph, flags);
}
EXPORT int cuGraphLaunch(void* exec, void* s) { return cudaGraphLaunch((cudaGraphExec_t)exec, (cudaStream_t)s); }
EXPORT int cuGraphDestroy(void* graph) { return cudaGraphDestroy((cudaGraph_t)graph); }
EXPORT int cuGraphExecDestroy(void* exec) { return cudaGraphExecDestroy((cudaGraphExec_t)exec); }
EXPORT int cuGraphGetNodes(void* graph, void** nodes, size_t* count) { return cudaGraphGetNodes((cudaGraph_t)graph, (cudaGraphNode_t*)nodes, count); }
EXPORT int cuGraphNodeGetType(void* node, int* type) { return cudaGraphNodeGetType((cudaGraphNode_t)node, (cudaGraphNodeType*)type); }
EXPORT int cuGraphKernelNodeGetParams_v2(void* node, cudaKernelNodeParams* params) {
    void** behind = (void**)(params + 1);  // kern and ctx
    behind[0] = behind[1] = nullptr;
    return cudaGraphKernelNodeGetParams((cudaGraphNode_t)node, params);
}
EXPORT int cuGraphExecKernelNodeSetParams_v2(void* exec, void* node, const cudaKernelNodeParams* params) {
    return cudaGraphExecKernelNodeSetParams((cudaGraphExec_t)exec, (cudaGraphNode_t)node, params);
}
EXPORT int cuGraphExecUpdate_v2(void* exec, void* graph, cudaGraphExecUpdateResultInfo* result) {
    return cudaGraphExecUpdate((cudaGraphExec_t)exec, (cudaGraph_t)graph, result);
}
