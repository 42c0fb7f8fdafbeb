"""Kernel files that reach for the host: its compiler, its files, its processes, or the identity of who is looking."""

from __future__ import annotations

from cutegen_core.records.trial import Status
from tests.adversarial.case import Case, Expected, refused, status
from tests.adversarial.files import ELEMENTS, RELU, kernel_file, relu

BAD = Status.COMPILE_ERROR
LIMIT = (Status.COMPILE_LIMIT, Status.COMPILE_ERROR)


def _refused(*words: str) -> tuple[Expected, Expected]:
    return refused(*words), refused(*words)


def _both(*statuses: Status, words: tuple[str, ...] = (), line: bool = True) -> tuple[Expected, Expected]:
    return status(*statuses, words=words, line=line), status(*statuses, words=words, line=line)


def _with(line: str) -> str:
    """Return an honest kernel with one hostile line above it."""
    return relu(before=line)


def _host() -> tuple[Case, ...]:
    return (
        Case("main", "a program of its own", "relu", _with("int main() { return 0; }  // HERE"), *_refused("no main")),
        Case("host code under a macro", "the host pass sees another file", "relu",
             _with("#ifndef __CUDA_ARCH__\nint main() { return 0; }  // HERE\n#endif"), *_refused("no main")),
        Case("calls the CUDA host API", "allocates what it likes", "relu",
             relu("if (i == 0) cudaMalloc((void**)&out, 4);  // HERE"), *_refused("CUDA host API")),
        Case("launches from the device", "dynamic parallelism escapes the plan", "relu",
             _with("__global__ void g() {}\n__device__ void h() { g<<<1, 1>>>(); }  // HERE"),
             *_refused("kernels are not launched here")),
        Case("a constructor", "runs when the library is loaded", "relu",
             _with('__attribute__((constructor)) void early() { }  // HERE'), *_refused("runs by itself")),
        Case("a computed global", "a static initialiser is a constructor, too", "relu",
             _with("float start() { return sqrtf(2.f); }\n__device__ float early = start() + clock64();"),
             *_both(BAD, Status.LAUNCH_ERROR)),
        Case("a C library function", "declared by hand, so no header is needed", "relu",
             relu('if (i == 0) out[0] = system("id > /tmp/owned");', 'extern "C" int system(char const*);'),
             *_refused('extern "C"')),
        Case("a weak symbol of the host", "null where it is not there", "relu",
             relu("if (i == 0 && getenv) out[0] = getenv(0) != 0;",
                  "__attribute__((weak)) __device__ char* getenv(char const*);"),
             *_both(BAD, Status.UNSUPPORTED, Status.LAUNCH_ERROR, Status.MEMORY_ERROR, Status.INCORRECT_NUMERICAL,
                    Status.RUNTIME_ERROR)),
        Case("incbin at file scope", "the assembler reads any file", "relu",
             _with('asm(".incbin \\"/etc/passwd\\"");  // HERE'), *_refused("directive of the host assembler")),
        Case("a section by assembly", "data where the loader looks for code", "relu",
             _with('asm(".section .init_array\\n.quad 0");  // HERE'), *_refused("directive of the host assembler")),
        Case("a system call in assembly", "not PTX, x86", "relu",
             relu('long answer = 0;\n  asm volatile("syscall" : "=a"(answer) : "a"(39L));  // HERE\n  ' + RELU),
             *_both(BAD)),
        Case("assembly by token pasting", "the word asm never stands in the file", "relu",
             relu('PASTE(as, m)("int3;");\n  ' + RELU, "#define PASTE(a, b) a##b"),
             *_both(BAD, Status.UNSUPPORTED)),
        Case("closes the function in PTX", "an entry point of its own behind a forged brace", "relu",
             relu('asm volatile("ret; } .visible .entry evil() { ret;");\n  ' + RELU), *_both(BAD, Status.UNSUPPORTED)),
        Case("a name of the emulator by assembly label", "calls into the runner under another name", "relu",
             relu("float v = 0;\n  if (i < n) peek(x + i + 1, &v, 4);\n  " + RELU,
                  "#define PASTE(a, b) a##b\n"
                  'extern __device__ void peek(void const*, void*, unsigned long) '
                  'PASTE(__as, m__)("emu_atomic_load");'),
             *_both(BAD, Status.UNSUPPORTED, Status.MEMORY_ERROR)),
        Case("a pragma of the host compiler", "optimises what is being checked away", "relu",
             _with('#pragma GCC optimize("fast-math")  // HERE'), *_refused("pragmas of the host compiler")),
        Case("a pragma in an operator", "the same without a directive", "relu",
             _with('_Pragma("GCC optimize(\\"fast-math\\")")  // HERE'), *_refused("pragma")),
        Case("switches the instrumentation off", "an attribute the sanitizers obey", "relu",
             relu("float next = i < n ? x[i + 1] : 0.0f;\n  "
                  "if (i < n) out[i] = next == 12345.0f ? 0.0f : fmaxf(x[i], 0.0f);").replace(
                 "__global__ void f", '__attribute__((no_sanitize("thread"))) __global__ void f  // HERE\n'),
             *_refused("no_sanitize")),
        Case("switches the instrumentation off by pasting", "the attribute's name never stands in the file", "relu",
             relu("float next = i < n ? x[i + 1] : 0.0f;  // HERE\n  "
                  "if (i < n) out[i] = next == 12345.0f ? 0.0f : fmaxf(x[i], 0.0f);",
                  "#define PASTE(a, b) a##b").replace(
                 "__global__ void f", '__attribute__((PASTE(no_, sanitize)("thread"))) __global__ void f\n'),
             status(Status.MEMORY_ERROR, words=("out-of-bounds", "reads x"), line=False),
             status(Status.MEMORY_ERROR, Status.RUNTIME_ERROR, BAD, line=False)),
        Case("asks which compiler reads it by pasting", "a condition on a name put together from two halves", "relu",
             relu("#if PASTE(__cl, ang__)  // HERE\n  " + RELU + "\n#else\n  if (i < n) out[i] = 0.0f;\n#endif",
                  "#define PASTE(a, b) a##b"), *_refused("##")),
        Case("asks which compiler reads it", "honest for the emulator's, else for NVIDIA's", "relu",
             relu("#ifdef __clang__  // HERE\n  " + RELU + "\n#else\n  if (i < n) out[i] = 0.0f;\n#endif"),
             *_refused("__clang__")),
        Case("asks for the emulator's macro", "careful only where it is watched", "relu",
             relu("float next = 0;\n#ifndef EMU_CHECKED  // HERE\n  if (i < n) next = x[i + 1];\n#endif\n"
                  "  if (i < n) out[i] = next == 12345.0f ? 0.0f : fmaxf(x[i], 0.0f);"),
             *_refused("EMU_CHECKED")),
        Case("asks for a sanitizer", "the same by the compiler's own word", "relu",
             relu("#if __has_feature(thread_sanitizer)  // HERE\n  if (i == 0) out[0] = 0.0f;\n#endif\n  " + RELU),
             *_refused("__has_feature")),
        Case("asks for NVRTC", "a cheat only the GPU will run", "relu",
             relu("#ifdef __CUDACC_RTC__  // HERE\n  if (i < n) out[i] = 0.0f;\n#else\n  " + RELU + "\n#endif"),
             *_refused("__CUDACC_RTC__")),
        Case("wide vectors the instrumentation skips", "a 32-byte load is none of the watched sizes", "relu",
             relu("Wide const* p = reinterpret_cast<Wide const*>(x + i);\n  float next = i + 1 < n ? 0 : (*p)[7];\n"
                  "  if (i < n) out[i] = next == 12345.0f ? 0.0f : fmaxf(x[i], 0.0f);",
                  "typedef float Wide __attribute__((vector_size(32)));  // HERE"),
             *_refused("vector_size")),
    )  # fmt: skip


def _files() -> tuple[Case, ...]:
    ways = {
        "a private file": '#include "/etc/passwd"  // HERE',
        "a private file in angles": "#include </etc/passwd>  // HERE",
        "a private file up the tree": '#include "../../../../../../../../etc/passwd"  // HERE',
        "a private file through the toolchain": "#include <cute/../../../../../../../../etc/passwd>  // HERE",
        "a private file by a macro": '#define WHERE "/etc/passwd"\n#include WHERE  // HERE',
        "include_next": "#include_next <passwd>  // HERE",
        "import": "#import </etc/passwd>  // HERE",
        "embed": 'char const data[] = {\n#embed "/etc/passwd"  // HERE\n};',
        "has_include": '#if __has_include("/etc/passwd")  // HERE\n#endif',
        "a digraph for the number sign": '%:include "/etc/passwd"  // HERE',
        "a trigraph for the number sign": '??=include "/etc/passwd"  // HERE',
    }
    return (
        *(Case(f"includes {name}", "its text would come back in the compiler's messages", "relu", _with(line),
               *_refused()) for name, line in ways.items()),
        Case("includes a private file, spliced", "the directive is written on two lines", "relu",
             _with('#inc\\\nlude "/etc/passwd"'), *_both(Status.REJECTED, BAD, words=("include",))),
        Case("a line marker", "messages would show another file's lines", "relu",
             _with('# 1 "/etc/passwd"\nint broken = ;'), *_both(BAD, words=("line markers",))),
        Case("a line directive", "messages point somewhere else", "relu",
             _with('#line 7 "/etc/passwd"'), *_both(BAD, words=("#line is not allowed",))),
    )  # fmt: skip


def _hidden() -> tuple[Case, ...]:
    return (
        Case("hidden by a trigraph", "one compiler splices the comment's line, another does not", "relu",
             relu("if (i < n) out[i] = 0.0f;\n  // why not ??/  HERE\n  ;" + RELU), *_refused("trigraph")),
        Case("hidden behind a splice with spaces", "compilers disagree about a backslash before blanks", "relu",
             relu("// a comment \\ \n  if (i == 0) out[0] = 0.0f;\n  " + RELU), *_refused("backslash")),
        Case("hidden behind a carriage return", "the line ends for one reader only", "relu",
             relu("// a comment\r if (i == 0) out[0] = 0.0f;\n  " + RELU), *_refused("carriage return")),
        Case("hidden by bidirectional characters", "the person sees a comment, the compiler sees code", "relu",
             relu("/* checked \u202e } \u2066 if (i < n) \u2069 \u2066 begin */ " + RELU), *_refused("U+202E")),
        Case("hidden by zero-width characters", "two names that look the same", "relu",
             relu("float scale = 1, sca\u200ble = 0;\n  " + RELU), *_refused("U+200B")),
        Case("a NUL byte", "some readers stop there", "relu", _with("// \0"), *_refused("NUL byte")),
        Case("an escape sequence", "the terminal shows something else", "relu", _with("// \x1b[2K\x1b[1A"),
             *_refused("U+001B")),
        Case("two megabytes", "an enormous file", "relu", _with("// " + "x" * (2 << 20)), *_refused("at most")),
    )  # fmt: skip


def _bombs() -> tuple[Case, ...]:
    """Compiling needs no GPU, so there is nothing to try on one."""
    flood = "".join(f"#warning {'x' * 4000}\n" for _ in range(140))
    deep = "\n".join(f"#define B{k} B{k - 1} B{k - 1}" for k in range(1, 40))
    return (
        Case("template bomb", "types that double with every step", "relu",
             relu(before="template <int N, class... T> struct Bomb {\n"
                         "  using type = typename Bomb<N - 1, T..., Bomb<N - 1, T...>>::type; };\n"
                         "using Boom = Bomb<1000>::type;"), status(*LIMIT, line=False), None, limited=True),
        Case("template bomb in the plan", "the kernel's name alone explodes", "relu",
             kernel_file(ELEMENTS.replace('"f"', '"f<Fibonacci<40, 0>::value>"'),
                         "template <int N, int K> struct Fibonacci { static constexpr long value =\n"
                         "  Fibonacci<N - 1, 2 * K>::value + Fibonacci<N - 2, 2 * K + 1>::value; };\n"
                         "template <int K> struct Fibonacci<1, K> { static constexpr long value = 1; };\n"
                         "template <int K> struct Fibonacci<0, K> { static constexpr long value = 0; };\n"
                         "template <long V> __global__ void f(float const* x, float* out, long n) {}"),
             status(*LIMIT, line=False), None, limited=True),
        Case("constexpr bomb", "an endless loop for the compiler", "relu",
             relu(before="constexpr long count(long n) { long s = 0; for (long k = 0; k < n; ++k) s ^= k; return s; }\n"
                         "static_assert(count(1L << 60) != 7);"), status(*LIMIT, line=False), None, limited=True),
        Case("preprocessor bomb", "one name becomes half a trillion", "relu",
             relu(before=f"#define B0 + 1\n{deep}\n__device__ long boom = 0 B39;"),
             status(*LIMIT, line=False), None, limited=True),
        Case("memory bomb", "two gigabytes of initialised data", "relu",
             relu(before="__device__ char bomb[1u << 31] = {1};"), status(*LIMIT, line=False), None, limited=True),
        Case("log bomb", "as many warnings as fit into a file", "relu", relu(before=flood),
             status(Status.COMPILE_LIMIT, words=("MB of messages",), line=False), None, limited=True),
        Case("log bomb of one message", "the name of a type is fifty million characters long", "relu",
             relu(before="template <class A, class B> struct P {};\n"
                         "template <int N> struct D {\n"
                         "  using half = typename D<N - 1>::type; using type = P<half, half>; };\n"
                         "template <> struct D<0> { using type = int; };\n"
                         "template <class T> struct Show;\n__device__ Show<D<22>::type> show;"),
             status(*LIMIT, line=False), None, limited=True),
    )  # fmt: skip


SOURCE_CASES = _host() + _files() + _hidden() + _bombs()
