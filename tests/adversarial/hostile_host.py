"""Kernel files that read differently for the emulator's compiler and for NVIDIA's, or that read the machine.

Each does the right thing on the emulator and something else on a GPU; the other branch could be anything.
"""

from __future__ import annotations

from cutegen_core.records.trial import Status
from tests.adversarial.case import Case, Expected, refused, status
from tests.adversarial.files import ELEMENTS, RELU, relu

WRONG = "if (i < n) out[i] = 0.0f;"
PASTE = "#define PASTE_(a, b) a##b\n#define PASTE(a, b) PASTE_(a, b)"


def _both(*words: str, line: bool = True) -> tuple[Expected, Expected]:
    return refused(*words, line=line), refused(*words, line=line)


def _emulator(*words: str, line: bool = True) -> tuple[Expected, None]:
    return refused(*words, line=line), None


def _branch(condition: str, before: str = "") -> str:
    return relu(f"#{condition}  // HERE\n  {RELU}\n#else\n  {WRONG}\n#endif", before)


def _conditions() -> tuple[Case, ...]:
    asked = {
        "a limit of the host's headers": "ifdef PATH_MAX",
        "a macro of the C library": "ifdef stdout",
        "a macro of libcu++ that differs": "if _CCCL_HOST_COMPILATION()",
        "a width of C23": "ifdef INT_WIDTH",
        "a macro CuTe defines on a host": "ifdef CUTLASS_CUDA_DRIVER_WRAPPER_DECL",
        "the byte order": "if BYTE_ORDER == 1234",
        "a macro by the clock's name": "ifdef clock",
        "the denormal of the compiler": "ifdef __FLT_EVAL_METHOD__",
        "a predefined type": "ifdef __SIZE_TYPE__",
        "the language's own list": "if __cpp_rtti",
        "whether exceptions are there": "ifdef __EXCEPTIONS",
        "the target": "ifdef __k8__",
        "the bytes of a pointer": "ifdef __SIZEOF_FLOAT128__",
        "the thread sanitizer's macro": "ifndef __SANITIZE_THREAD__",
        "the architecture's number": "ifndef __CUDACC_VER_MAJOR__",
        "the language of the host's library": "ifdef __STDC_ISO_10646__",
    }  # fmt: skip
    return tuple(
        Case(f"asks for {name}", "one compiler defines it, the other does not", "relu", _branch(condition),
             *_emulator(condition.split()[1].split("(")[0]))
        for name, condition in asked.items()
    )  # fmt: skip


def _indirect() -> tuple[Case, ...]:
    return (
        Case("asks over two lines", "the name is spliced", "relu",
             relu(f"#ifdef PATH_\\\nMAX\n  {RELU}\n#else\n  {WRONG}\n#endif"), *_emulator("PATH_MAX")),
        Case("asks which compiler over two lines", "screening reads lines", "relu",
             relu(f"#ifdef __cla\\\nng__\n  {RELU}\n#else\n  {WRONG}\n#endif"), *_both("__clang__")),
        Case("asks through a macro of its own", "the condition names only what the file defines", "relu",
             _branch("if HERE", "#define HERE BYTE_ORDER").replace("  // HERE", ""), *_emulator("BYTE_ORDER")),
        Case("asks through a macro of the headers", "same text in both, but what it is made of differs", "relu",
             relu(f"NV_IF_ELSE_TARGET(NV_IS_HOST, ({RELU}), ({WRONG}))  // HERE"), *_emulator("differ", line=False)),
        Case("a value of the host's headers", "no condition at all", "relu",
             relu(f"if (i < n && PATH_MAX != 4096) out[i] = 0.0f;  // HERE\n  else {RELU}",
                  "#ifndef PATH_MAX\n#define PATH_MAX 4095\n#endif"), *_emulator("PATH_MAX", line=False)),
        Case("spells a macro as a string", "two levels of stringizing show what it is made of", "relu",
             relu(f"if (sizeof(SHOW(__global__)) == 1) {{ {RELU} }} else {{ {WRONG} }}",
                  "#define STRING(x) #x  // HERE\n#define SHOW(x) STRING(x)"), *_both("spell")),
        Case("pastes a name and shows it", "the name never stands in the file", "relu",
             relu(f"if (NUMBER == 4) {{ {RELU} }} else {{ {WRONG} }}",
                  f"{PASTE}\nconstexpr int {'PATH_'}MAY = 1;\n#define NUMBER int(PASTE(__GNU, C__))"),
             *_emulator("__GNUC__", line=False)),
        Case("pastes under a condition on a name", "ifdef instead of if", "relu",
             relu(f"#ifdef PASTED  // HERE\n  {RELU}\n#else\n  {WRONG}\n#endif",
             f"{PASTE}\n#define PASTED PASTE(a, b)"),
             *_both("##")),
        Case("asks in the kernel's name", "the plan is compiled, too", "relu",
             relu(f"if constexpr (K == 4096) {{ {RELU} }} else {{ {WRONG} }}",
                  plan=ELEMENTS.replace('"f"', '"f<PATH_MAX>"')).replace("__global__", "template <int K> __global__"),
             status(Status.REJECTED, Status.COMPILE_ERROR, line=False), None),
        Case("hides the compiler's warnings", "the check itself is made of them", "relu",
             relu(f"#ifdef PATH_MAX\n  {RELU}\n#else\n  {WRONG}\n#endif",
                  "#pragma nv_diag_suppress 1105\n#pragma nv_diag_suppress 47"), *_emulator(line=False)),
        Case("defined by a macro", "undefined behaviour of the preprocessor", "relu",
             _branch("if THERE", "#define THERE defined(PATH_MAX)").replace("  // HERE", ""),
             *_both("defined", line=False)),
    )  # fmt: skip


def _own_words() -> tuple[Case, ...]:
    words = {
        "the line inside of a call over lines": ("__LINE__", "if (ID(\n  __LINE__\n  ) % 2)",
             "#define ID(...) __VA_ARGS__"),
        "the file's name": ("__FILE__", 'if (sizeof(__FILE__) != 13)', ""),
        "the date": ("__DATE__", "if (__DATE__[0] == 'x')", ""),
        "the time": ("__TIME__", "if (__TIME__[7] & 1)", ""),
        "a counter": ("__COUNTER__", "if (__COUNTER__ != 0)", ""),
        "the depth of includes": ("__INCLUDE_LEVEL__", "if (__INCLUDE_LEVEL__)", ""),
        "a function's pretty name": ("__PRETTY_FUNCTION__", "if (sizeof(__PRETTY_FUNCTION__) == 1)", ""),
        "a builtin for the file": ("__builtin_FILE", "if (__builtin_FILE()[0] == 'x')", ""),
        "a builtin that only optimisers answer": ("__builtin_constant_p", "if (__builtin_constant_p(n))", ""),
        "an object's size": ("__builtin_object_size", "if (__builtin_object_size(x, 0) == 1)", ""),
        "variadic options": ("__VA_OPT__", "if (V() 0)", "#define V(...) __VA_OPT__(1 ||)"),
    }  # fmt: skip
    return tuple(
        Case(f"reads {name}", "compilers answer differently", "relu",
             relu(f"{condition} {{ {WRONG} }} else {{ {RELU} }}", before), *_both(word, line=False))
        for name, (word, condition, before) in words.items()
    )  # fmt: skip


def _machine() -> tuple[Case, ...]:
    def special(register: str, kind: str = "u32", constraint: str = "r", name: str = "unsigned") -> str:
        return relu(f'{name} v;\n  asm volatile("mov.{kind} %0, %%{register};" : "={constraint}"(v));\n'
                    f"  if (v == 12345) {{ {WRONG} }} else {{ {RELU} }}")  # fmt: skip

    long = {"kind": "u64", "constraint": "l", "name": "unsigned long long"}
    return (
        Case("reads the number of multiprocessors", "one here, 132 there", "relu", special("nsmid"),
             *_both("nsmid", line=False)),
        Case("reads its multiprocessor", "always 0 here", "relu", special("smid"), *_both("sm", line=False)),
        Case("reads the clock in PTX", "slow means watched", "relu", special("clock"), *_both("clock", line=False)),
        Case("reads the 64-bit clock in PTX", "the same, wider", "relu", special("clock64", **long),
             *_both("clock", line=False)),
        Case("reads the global timer", "the time of day", "relu", special("globaltimer", **long),
             *_both("clock", line=False)),
        Case("reads the warp's number", "a place that may change", "relu", special("warpid"),
             *_both("warp", line=False)),
        Case("reads the grid's number", "counts launches", "relu", special("gridid", **long),
             *_both("gridid", line=False)),
        Case("reads a performance counter", "counts what nobody shows it", "relu", special("pm0"),
             *_both("", line=False)),
        Case("reads the clock through CUDA", "the ordinary function", "relu",
             relu(f"if (clock() == 12345) {{ {WRONG} }} else {{ {RELU} }}  // HERE"), *_both("clock")),
        Case("reads the clock under another name", "a string that a macro puts together", "relu",
             relu(f'unsigned v;\n  asm volatile("mov.u32 %0, %%" NAME ";" : "=r"(v));\n'
                  f"  if (v == 12345) {{ {WRONG} }} else {{ {RELU} }}", '#define NAME "clo" "ck"'),
             *_both("clock", line=False)),
        Case("reads the number of multiprocessors under another name", "adjacent strings are one", "relu",
             relu(f'unsigned v;\n  asm volatile("mov.u32 %0, %%n" "smid;" : "=r"(v));\n'
                  f"  if (v == 12345) {{ {WRONG} }} else {{ {RELU} }}"), *_both("nsmid", line=False)),
    )  # fmt: skip


HOST_CASES = _conditions() + _indirect() + _own_words() + _machine()
