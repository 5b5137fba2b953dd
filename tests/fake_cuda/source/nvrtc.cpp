// libnvrtc: g++ makes a shared library of a kernel's text. It is kept under a hash of all that went into it.
#include "state.h"
#include <unistd.h>
#include <fstream>
#include <regex>
#include <set>
#include <sstream>

enum { OK = 0, COMPILATION = 6 };
struct Program { std::string source, name, log, image; };
static std::string home, kernels, own_flags;

// `own`: flags for kernels that are not CuPy's
EXPORT void fake_compiler(const char* installed, const char* folder, const char* own) {
    home = installed; kernels = folder; own_flags = own;
}
EXPORT const char* nvrtcGetErrorString(int e) { return e ? "NVRTC_ERROR_COMPILATION" : "NVRTC_SUCCESS"; }
EXPORT int nvrtcVersion(int* major, int* minor) { *major = 13; *minor = 0; return OK; }
EXPORT int nvrtcGetNumSupportedArchs(int* n) { *n = 1; return OK; }
EXPORT int nvrtcGetSupportedArchs(int* a) { *a = 90; return OK; }
EXPORT int nvrtcCreateProgram(void** p, const char* source, const char* name, int, const char**, const char**) {
    *p = new Program{source, name ? name : "kernel", "", ""};
    return OK;
}
EXPORT int nvrtcDestroyProgram(void** p) { delete (Program*)*p; return OK; }
EXPORT int nvrtcAddNameExpression(void*, const char*) { SAY("names of templates are not there"); return COMPILATION; }

static std::string quoted(const std::string& text) { return " '" + text + "'"; }

static std::string command_for(const std::string& source, int count, const char** options) {
    auto has = [&](const char* text) { return source.find(text) != std::string::npos; };
    const bool of_cupy = has("cupy/carray.cuh");
    std::string flags = of_cupy ? " -O1" : own_flags, standard = "-std=c++17";
    if (has("__sync") || has("__shfl") || has("_sync(")) flags += " -DFIBERS";
    for (int i = 0; i < count; ++i) {
        const std::string option = options[i];
        if (option.rfind("-I", 0) == 0 || option.rfind("-D", 0) == 0) flags += quoted(option);
        else if (option.find("-std=") != std::string::npos) standard = option.substr(option.find("-std="));
    }
    const char* compiler = getenv("CXX");
    return std::string(compiler && *compiler ? compiler : "g++") + " " + standard + " -shared -fPIC -w -I" + quoted(home)
        + flags + " -include " + (of_cupy ? "cupy_kernel.h" : "kernel.h");
}
// The kernel's text, and behind it for each kernel a function that launches it, and one that gives its arguments' sizes.
static std::string with_launchers(const Program& program) {
    static const std::regex kernel(
        R"(extern\s+"C"\s+__global__\s+void\s+(?:__launch_bounds__\s*\([^)]*\)\s*)?([A-Za-z_]\w*)\s*\()");
    std::ostringstream text;
    text << "#line 1 \"" << program.name << "\"\n" << program.source << "\n";
    std::set<std::string> names;
    for (std::sregex_iterator at(program.source.begin(), program.source.end(), kernel), end; at != end; ++at)
        names.insert((*at)[1]);
    for (auto& name : names)
        text << "extern \"C\" void launch_" << name << "(const unsigned* sizes, size_t, void** arguments)"
             << " { run_kernel(&" << name << ", sizes, arguments); }\n"
             << "extern \"C\" size_t sizes_" << name << "(size_t* sizes) { return sizes_of(&" << name << ", sizes); }\n";
    return text.str();
}
EXPORT int nvrtcCompileProgram(void* handle, int count, const char** options) {
    Program& program = *(Program*)handle;
    counts.compilations++;
    std::string command = command_for(program.source, count, options);
    std::ostringstream stem;
    stem << kernels << "/" << std::hex << std::hash<std::string>{}(program.source + command);
    const std::string library = stem.str() + ".so";
    if (access(library.c_str(), R_OK)) {
        static std::atomic<int> number{0};  // other threads and processes may be at the same kernel
        const std::string mine = stem.str() + "." + std::to_string(getpid()) + "." + std::to_string(number++);
        std::ofstream(mine + ".cpp") << with_launchers(program);
        command += quoted(mine + ".cpp") + " -o" + quoted(mine + ".so") + " 2>" + quoted(mine + ".log");
        const int status = system(command.c_str());
        std::ostringstream log;
        log << std::ifstream(mine + ".log").rdbuf();
        program.log = log.str();
        unlink((mine + ".log").c_str());
        unlink((mine + ".cpp").c_str());
        if (status) { SAY("does not compile: %s\n%s", command.c_str(), program.log.c_str()); return COMPILATION; }
        rename((mine + ".so").c_str(), library.c_str());
    }
    program.image = "FAKE:" + library;
    return OK;
}
static int text_of(const std::string& text, char* out) { text.copy(out, text.size()); out[text.size()] = 0; return OK; }
EXPORT int nvrtcGetCUBINSize(void* p, size_t* n) { *n = ((Program*)p)->image.size() + 1; return OK; }
EXPORT int nvrtcGetCUBIN(void* p, char* out) { return text_of(((Program*)p)->image, out); }
EXPORT int nvrtcGetPTXSize(void*, size_t* n) { *n = 8; return OK; }
EXPORT int nvrtcGetPTX(void*, char* out) { return text_of("// 13.0", out); }
EXPORT int nvrtcGetProgramLogSize(void* p, size_t* n) { *n = ((Program*)p)->log.size() + 1; return OK; }
EXPORT int nvrtcGetProgramLog(void* p, char* out) { return text_of(((Program*)p)->log, out); }
