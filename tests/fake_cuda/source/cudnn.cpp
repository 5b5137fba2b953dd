// libcudnn, as far as NVIDIA's frontend asks it for one convolution, which a bias and a ReLU may follow. Descriptors keep whatever they are told (cuDNN's
// "backend API"); a plan computes by plain loops, over the strides that it was told, and refuses memory that is not a
// device's or begins at an odd address. There are five engines, in this order, and three of them are wrong:
//
//   0 tensor cores                   0.1 % off      3 right, but its sums change from run to run
//   1 rounds factors to float16      0.1 % off      4 right
//   2 takes a terabyte of workspace  0.1 % off
//
// FAKE_CUDNN says what else goes wrong: see tests/fake_cudnn. `fake_cudnn_ran` tells which engines have run, as bits.
#include "queue.h"
#include <unistd.h>
#include <cstdint>
#include <cstring>
#include <sstream>
#include <vector>

enum { OK = 0, NOT_INITIALIZED = 1001, BAD_PARAM = 2000, NOT_SUPPORTED = 3000, EXECUTION_FAILED = 5000 };
// kinds of descriptors, attributes and types: the numbers of cudnn_graph.h
enum { ENGINE = 2, ENGINE_CONFIG = 3, HEURISTICS = 4, PLAN = 5, FORWARD = 10, BACKWARD_WEIGHTS = 11, BACKWARD_DATA = 12, POINTWISE = 13, GRAPH = 15 };
enum {
    COMPUTES_IN = 100, DILATIONS = 102, STRIDES = 103, POST_PADDINGS = 104, PRE_PADDINGS = 105,
    HEURISTICS_GRAPH = 201, RESULTS = 202, CONFIG_ENGINE = 300, KNOB_CHOICES = 302, CONFIG_WORKSPACE = 303, CONFIG_SHARED_MEMORY = 304, PLAN_CONFIG = 401, PLAN_WORKSPACE = 402,
    PLAN_JSON = 405, OPERATIONS = 801, ENGINE_COUNT = 802, ALIGNMENT = 900, DATA_TYPE = 901, DIMENSIONS = 902,
    TENSOR_STRIDES = 903, UID = 906, UIDS = 1000, POINTERS = 1001, WORKSPACE = 1003, ENGINE_GRAPH = 1300, ENGINE_INDEX = 1301,
    KNOB_INFO = 1302, NUMERICAL_NOTE = 1303, BEHAVIOR_NOTE = 1305
};
enum { MODE = 0, POINTWISE_HOW = 750, POINTWISE_X = 751, POINTWISE_B = 752, POINTWISE_Y = 753, ADD = 0, RELU = 100 };
enum { BOOLEAN = 2, INT64 = 3, DOUBLE = 5, VOID_PTR = 6, DESCRIPTOR = 15, CHAR = 24, HANDLE = 0 };
enum { TENSOR_CORE = 0, DOWN_CONVERT_INPUTS = 1, NONDETERMINISTIC = 4 };
static const int ENGINES = 5;
static const int64_t BYTES = 1000, TERABYTE = int64_t(1) << 40;
static std::atomic<int> ran{0};
EXPORT int fake_cudnn_ran() { return ran; }

// what goes wrong in this operation, by this engine; further words limit a fault to an operation or an engine
static bool goes(const std::string& fault, const std::string& operation, int engine = -1) {
    const char* text = getenv("FAKE_CUDNN");
    std::istringstream words(text ? text : "");
    std::string first, word;
    words >> first;
    if (first != fault) return false;
    while (words >> word) if (word != operation && word != std::to_string(engine)) return false;
    return true;
}

struct Data;
typedef std::shared_ptr<Data> Held;
struct Data {
    int kind = 0, engine = 0;
    std::map<int, std::string> bytes;
    std::map<int, std::vector<Held>> descriptors;
    template <class T> std::vector<T> all(int name) const {
        auto at = bytes.find(name);
        if (at == bytes.end()) return {};
        const T* begin = (const T*)at->second.data();
        return {begin, begin + at->second.size() / sizeof(T)};
    }
    const Data* one(int name) const {
        auto at = descriptors.find(name);
        return at == descriptors.end() || at->second.empty() ? nullptr : at->second[0].get();
    }
};
struct Descriptor { Held data; };  // what a cudnnBackendDescriptor_t points to

static size_t width(int type) {
    if (type == BOOLEAN || type == CHAR) return 1;
    return type == INT64 || type == DOUBLE || type == VOID_PTR || type == HANDLE ? 8 : 4;
}

EXPORT size_t cudnnGetVersion() { return 92800; }
EXPORT const char* cudnnGetErrorString(int e) {
    return e == NOT_SUPPORTED ? "CUDNN_STATUS_NOT_SUPPORTED" : e == NOT_INITIALIZED ? "CUDNN_STATUS_NOT_INITIALIZED"
        : e == EXECUTION_FAILED ? "CUDNN_STATUS_EXECUTION_FAILED" : e ? "CUDNN_STATUS_BAD_PARAM" : "CUDNN_STATUS_SUCCESS";
}
EXPORT void cudnnGetLastErrorString(char* text, size_t size) { if (size) *text = 0; }
EXPORT int cudnnCreate(void** handle) {
    if (refusal() || goes("no", "driver")) return NOT_INITIALIZED;
    *handle = new void*(nullptr);  // holds the stream
    return OK;
}
EXPORT int cudnnDestroy(void* handle) { delete (void**)handle; return OK; }
EXPORT int cudnnSetStream(void* handle, void* stream) { *(void**)handle = stream; return OK; }
EXPORT int cudnnGetStream(void* handle, void** stream) { *stream = *(void**)handle; return OK; }

EXPORT int cudnnBackendCreateDescriptor(int kind, void** out) {
    auto made = new Descriptor{std::make_shared<Data>()};
    made->data->kind = kind;
    *out = made;
    return OK;
}
EXPORT int cudnnBackendDestroyDescriptor(void* one) { delete (Descriptor*)one; return OK; }
EXPORT int cudnnBackendSetAttribute(void* one, int name, int type, int64_t count, const void* values) {
    Data& data = *((Descriptor*)one)->data;
    if (type == DESCRIPTOR) {
        auto& found = data.descriptors[name];
        found.clear();
        for (int64_t i = 0; i < count; ++i) found.push_back(((Descriptor* const*)values)[i]->data);
    } else {
        data.bytes[name].assign((const char*)values, count * width(type));
    }
    return OK;
}

struct Tensor {
    std::vector<int64_t> dims, strides;
    int64_t uid = 0;
    float* at = nullptr;
    explicit Tensor(const Data* d)
        : dims(d->all<int64_t>(DIMENSIONS)), strides(d->all<int64_t>(TENSOR_STRIDES)), uid(d->all<int64_t>(UID).at(0)) {}
    float& of(int64_t a, int64_t b, int64_t c, int64_t d) const {
        return at[a * strides[0] + b * strides[1] + c * strides[2] + d * strides[3]];
    }
    int64_t reach() const {
        int64_t last = 0;
        for (size_t i = 0; i < dims.size(); ++i) last += (dims[i] - 1) * strides[i];
        return 4 * (last + 1);
    }
};
struct Pass {
    const char* name;
    int shift;  // of the attributes: 0 forward, 6 data, 12 weights
    const Data *x, *w, *y, *how;
    const Data* bias;
    bool rectify;
};
static int64_t uid_of(const Data* tensor) { return tensor->all<int64_t>(UID).at(0); }
static bool pass_of(const Data* graph, Pass& found) {
    if (!graph || graph->descriptors.at(OPERATIONS).empty()) return false;
    const Data* op = graph->one(OPERATIONS);
    found.bias = nullptr;
    found.rectify = false;
    switch (op->kind) {
        case FORWARD: found = {"conv_fprop", 0, op->one(704), op->one(703), op->one(705), op->one(702)}; break;
        case BACKWARD_DATA: found = {"conv_dgrad", 6, op->one(710), op->one(709), op->one(711), op->one(708)}; break;
        case BACKWARD_WEIGHTS: found = {"conv_wgrad", 12, op->one(716), op->one(715), op->one(717), op->one(714)}; break;
        default: return false;
    }
    if (!found.x || !found.w || !found.y || !found.how) return false;
    const auto& all = graph->descriptors.at(OPERATIONS);
    for (size_t i = 1; i < all.size(); ++i) {  // each reads what the operation before it has written
        const Data* next = all[i].get();
        if (found.shift != 0 || next->kind != POINTWISE || found.rectify) return false;
        if (uid_of(next->one(POINTWISE_X)) != uid_of(found.y)) return false;
        const int mode = next->one(POINTWISE_HOW)->all<int>(MODE).at(0);
        if (mode == ADD && !found.bias) found.bias = next->one(POINTWISE_B);
        else if (mode == RELU) found.rectify = true;
        else return false;
        found.y = next->one(POINTWISE_Y);
    }
    return true;
}
// What cuDNN's documentation asks of a convolution's tensors: four dimensions each, float32, rooms for windows.
static bool fits(const Pass& pass) {
    for (const Data* d : {pass.x, pass.w, pass.y})
        if (d->all<int64_t>(DIMENSIONS).size() != 4 || d->all<int64_t>(TENSOR_STRIDES).size() != 4 || d->all<int>(DATA_TYPE) != std::vector<int>{0})
            return false;
    Tensor x(pass.x), w(pass.w), y(pass.y);
    auto before = pass.how->all<int64_t>(PRE_PADDINGS), behind = pass.how->all<int64_t>(POST_PADDINGS);
    auto stride = pass.how->all<int64_t>(STRIDES), dilation = pass.how->all<int64_t>(DILATIONS);
    if (pass.how->all<int>(COMPUTES_IN) != std::vector<int>{0} || x.dims[0] != y.dims[0] || w.dims[0] != y.dims[1]) return false;
    if (x.dims[1] % w.dims[1] || y.dims[1] % (x.dims[1] / w.dims[1])) return false;
    for (int i = 0; i < 2; ++i) {
        const int64_t span = dilation[i] * (w.dims[2 + i] - 1) + 1;
        if (y.dims[2 + i] != (x.dims[2 + i] + before[i] + behind[i] - span) / stride[i] + 1) return false;
    }
    return true;
}
EXPORT int cudnnBackendFinalize(void* one) {
    Data& data = *((Descriptor*)one)->data;
    Pass pass;
    if (data.kind == GRAPH && (!pass_of(&data, pass) || !fits(pass))) return BAD_PARAM;
    if (data.kind == ENGINE) {
        const int64_t asked = data.all<int64_t>(ENGINE_INDEX).at(0);
        if (asked < 0 || asked >= ENGINES) return NOT_SUPPORTED;
        data.engine = (int)asked;
    }
    if (data.kind == ENGINE_CONFIG && data.one(CONFIG_ENGINE)) {  // one that names its engine, not one of the heuristics
        data.engine = data.one(CONFIG_ENGINE)->engine;
        data.descriptors[HEURISTICS_GRAPH] = data.descriptors[CONFIG_ENGINE][0]->descriptors.at(ENGINE_GRAPH);
    }
    if (data.kind == PLAN) {
        data.engine = data.one(PLAN_CONFIG)->engine;
        if (!pass_of(data.one(PLAN_CONFIG)->one(HEURISTICS_GRAPH), pass)) return BAD_PARAM;
        if (goes("unsupported", pass.name, data.engine)) return NOT_SUPPORTED;
        if (goes("holding", pass.name, data.engine)) usleep(1500000);  // who calls holds Python's lock
    }
    return OK;
}
static bool large(const Data& config) {
    Pass pass;
    const Data* graph = config.one(HEURISTICS_GRAPH) ? &config : config.one(PLAN_CONFIG);
    return graph && pass_of(graph->one(HEURISTICS_GRAPH), pass) && goes("large", pass.name, config.engine);
}
static int given(const std::string& value, size_t wide, int64_t wanted, int64_t* count, void* out) {
    if (count) *count = value.size() / wide;
    if (out) memcpy(out, value.data(), std::min<size_t>(value.size(), wanted * wide));
    return OK;
}
template <class T> static int number(T value, int64_t wanted, int64_t* count, void* out) {
    return given(std::string((const char*)&value, sizeof value), sizeof value, wanted, count, out);
}
EXPORT int cudnnBackendGetAttribute(void* one, int name, int type, int64_t wanted, int64_t* count, void* out) {
    const Data& data = *((Descriptor*)one)->data;
    Pass pass;
    switch (name) {
        case RESULTS: {
            if (!pass_of(data.one(HEURISTICS_GRAPH), pass)) return BAD_PARAM;
            const int found = goes("lacking", pass.name) ? 0 : ENGINES;
            for (int i = 0; out && i < std::min<int64_t>(wanted, found); ++i) {
                Data& config = *((Descriptor**)out)[i]->data;
                config.engine = i;
                config.descriptors[HEURISTICS_GRAPH] = data.descriptors.at(HEURISTICS_GRAPH);
            }
            *count = out ? std::min<int64_t>(wanted, found) : found;
            return OK;
        }
        case CONFIG_ENGINE: {
            Data& engine = *(*(Descriptor**)out)->data;
            engine.engine = data.engine;
            if (count) *count = 1;
            return OK;
        }
        case NUMERICAL_NOTE: {
            const int notes[] = {TENSOR_CORE, DOWN_CONVERT_INPUTS, -1, NONDETERMINISTIC, -1};
            if (notes[data.engine] < 0) { *count = 0; return OK; }
            return number(notes[data.engine], wanted, count, out);
        }
        case ENGINE_INDEX: return number((int64_t)data.engine, wanted, count, out);
        case ENGINE_COUNT: return number((int64_t)ENGINES, wanted, count, out);
        case PLAN_WORKSPACE: case CONFIG_WORKSPACE: return number(data.engine == 2 || large(data) ? TERABYTE : BYTES, wanted, count, out);
        case CONFIG_SHARED_MEMORY: return given(std::string(8, 0), width(type), wanted, count, out);
        case PLAN_JSON: return given("{}", 1, wanted, count, out);
        case KNOB_INFO: case KNOB_CHOICES: case BEHAVIOR_NOTE: *count = 0; return OK;
    }
    auto kept = data.bytes.find(name);
    if (kept != data.bytes.end()) return given(kept->second, width(type), wanted, count, out);
    SAY("attribute %d of a descriptor of kind %d is not there", name, data.kind);
    return BAD_PARAM;
}

static void compute(const Pass& pass, const Tensor& x, const Tensor& w, const Tensor& y, const Tensor* bias, float gain) {
    auto pad = pass.how->all<int64_t>(PRE_PADDINGS), stride = pass.how->all<int64_t>(STRIDES), dilation = pass.how->all<int64_t>(DILATIONS);
    const int64_t own = w.dims[1], each = y.dims[1] / (x.dims[1] / own);
    auto zero = [](const Tensor& t) {
        for (int64_t a = 0; a < t.dims[0]; ++a) for (int64_t b = 0; b < t.dims[1]; ++b)
            for (int64_t c = 0; c < t.dims[2]; ++c) for (int64_t d = 0; d < t.dims[3]; ++d) t.of(a, b, c, d) = 0;
    };
    zero(pass.shift == 0 ? y : pass.shift == 6 ? x : w);
    for (int64_t n = 0; n < y.dims[0]; ++n) for (int64_t k = 0; k < y.dims[1]; ++k)
        for (int64_t p = 0; p < y.dims[2]; ++p) for (int64_t q = 0; q < y.dims[3]; ++q) {
            double sum = 0;
            for (int64_t c = 0; c < own; ++c) for (int64_t i = 0; i < w.dims[2]; ++i) for (int64_t j = 0; j < w.dims[3]; ++j) {
                const int64_t h = p * stride[0] - pad[0] + i * dilation[0], v = q * stride[1] - pad[1] + j * dilation[1];
                if (h < 0 || h >= x.dims[2] || v < 0 || v >= x.dims[3]) continue;
                float &read = x.of(n, k / each * own + c, h, v), &weight = w.of(k, c, i, j), &result = y.of(n, k, p, q);
                if (pass.shift == 0) sum += (double)read * weight;
                else if (pass.shift == 6) read += gain * result * weight;
                else weight += gain * result * read;
            }
            if (pass.shift == 0) {
                const float value = gain * ((float)sum + (bias ? bias->of(0, k, 0, 0) : 0.0f));
                y.of(n, k, p, q) = pass.rectify && value < 0 ? 0.0f : value;
            }
        }
}
EXPORT int cudnnBackendExecute(void* handle, void* plan_, void* pack_) {
    const Data &plan = *((Descriptor*)plan_)->data, &pack = *((Descriptor*)pack_)->data;
    Pass pass;
    if (refusal() || !pass_of(plan.one(PLAN_CONFIG)->one(HEURISTICS_GRAPH), pass)) return EXECUTION_FAILED;
    if (goes("failing", pass.name, plan.engine)) return EXECUTION_FAILED;
    auto uids = pack.all<int64_t>(UIDS);
    auto pointers = pack.all<void*>(POINTERS);
    Tensor x(pass.x), w(pass.w), y(pass.y), bias(pass.bias ? pass.bias : pass.w);
    for (Tensor* t : {&x, &w, &y, &bias}) {
        for (size_t i = 0; i < uids.size(); ++i) if (uids[i] == t->uid) t->at = (float*)pointers[i];
        if (!blocks.on_device(t->at, t->reach(), current)) { SAY("a tensor of a convolution is not memory of device %d", current); return BAD_PARAM; }
        if ((uintptr_t)t->at % 16) { SAY("a tensor of a convolution begins at an odd address"); return BAD_PARAM; }
    }
    auto workspace = pack.all<void*>(WORKSPACE);
    if (workspace.empty() || !blocks.on_device(workspace[0], BYTES, current)) { SAY("a workspace is too small"); return BAD_PARAM; }
    ran |= 1 << plan.engine;
    const float gain = goes("wrong", pass.name, plan.engine) ? 1.01f : plan.engine < 3 ? 1.001f : 1.0f;
    const bool slow = goes("slow", pass.name, plan.engine), idle = goes("idle", pass.name, plan.engine);
    Work work;
    work.what = std::string("cuDNN's ") + pass.name;
    work.count = &counts.launches;
    for (const void* p : {(const void*)x.at, (const void*)w.at, (const void*)y.at, (const void*)bias.at, (const void*)workspace[0]}) {
        Use use;
        if (blocks.use(p, use)) work.uses.push_back(use);
    }
    const Held kept = ((Descriptor*)plan_)->data;  // the plan may be destroyed before it has run
    void* scratch = workspace[0];
    work.run = [=] {
        (void)kept;
        if (slow) usleep(200000);
        memset(scratch, 0xff, BYTES);  // NaN: it is its to write to
        if (!idle) compute(pass, x, w, y, pass.bias ? &bias : nullptr, gain);
    };
    return submit(*(void**)handle, std::move(work)) ? EXECUTION_FAILED : OK;
}
