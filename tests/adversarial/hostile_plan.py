"""Launch plans that try to run something, to exhaust something, or to launch what no device can."""

from __future__ import annotations

from cutegen_core.records.trial import Status
from tests.adversarial.case import Case, Expected, refused, status
from tests.adversarial.files import ELEMENTS, RELU, relu

LAUNCH = Status.LAUNCH_ERROR


def _plan(old: str, new: str) -> str:
    assert old in ELEMENTS, old
    return relu(plan=ELEMENTS.replace(old, new))


def _refused(*words: str) -> tuple[Expected, Expected]:
    return refused(*words), refused(*words)


def _expressions() -> tuple[Case, ...]:
    hostile = {
        "a huge power": ("9 ** 9 ** 9 ** 9", "exponent"),
        "a long chain of multiplications": ("n" + " * 9999999" * 40, "64 bits"),
        "parentheses five hundred deep": ("(" * 500 + "n" + ")" * 500, "grid"),
        "a tree without end": (" + ".join(["n"] * 900), "grid"),
        "an attribute": ("x.__class__", "not allowed"),
        "a way to the interpreter": ("x.shape.__class__.__mro__[1].__subclasses__()", "cannot be called"),
        "an import": ("__import__('os').system('id')", "cannot be called"),
        "a lambda": ("(lambda: 1)()", "cannot be called"),
        "a comprehension": ("[1 for k in x.shape][0]", "not allowed"),
        "a string": ("'a' * 1000000000", "numbers only"),
        "a float": ("n / 128", "not allowed"),
        "an unknown tensor": ("y.numel", "y"),
        "nothing": ("", "grid"),
        "NaN": ("1e308 * 10", "inf"),
    }  # fmt: skip
    return tuple(
        Case(f"grid is {name}", "a plan is text from a stranger", "relu",
             relu(plan=ELEMENTS.replace('["ceil_div(n, 128)"]', f'["{text}"]  # HERE')), *_refused(words))
        for name, (text, words) in hostile.items()
    )  # fmt: skip


def _limits() -> tuple[Case, ...]:
    many = "".join(f'[[launch]]\nkernel = "f"\ngrid = ["1"]\nblock = ["1"]\nargs = ["x", "out", "{k}"]\n'
                   for k in range(5000))  # fmt: skip
    buffers = "".join(f'[[scratch]]\nname = "s{k}"\ndtype = "float32"\nshape = ["1"]\n' for k in range(500))
    huge = '[[scratch]]\nname = "work"\ndtype = "float32"\nshape = ["{}"]\n'
    return (
        Case("a grid of zero", "nothing runs, nothing can be wrong", "relu",
             _plan('["ceil_div(n, 128)"]', '["n // 1000000"]  # HERE'), *_refused("launches nothing")),
        Case("a negative grid", "wraps around in 32 bits", "relu",
             _plan('["ceil_div(n, 128)"]', '["0 - n"]  # HERE'), *_refused("grid")),
        Case("a grid beyond the limit", "65,536 blocks in y", "relu",
             _plan('["ceil_div(n, 128)"]', '["1", "65536"]  # HERE'), *_refused("65535")),
        Case("a billion blocks", "within the limits, for hours on the emulator", "relu",
             _plan('["ceil_div(n, 128)"]', '["10 ** 9"]'), status(Status.TIMEOUT, words=("too large",)), None),
        Case("too many threads", "1,025 in a block", "relu",
             _plan('["128"]', '["1025"]  # HERE'), *_refused("1025", "1024")),
        Case("no condition holds", "every launch is switched off", "relu",
             _plan("args ", 'when   = "n < 0"\nargs '), *_refused("every 'when' is false")),
        Case("five thousand launches", "a plan is not a program", "relu", relu(plan=ELEMENTS + many),
             *_refused("launch")),
        Case("five hundred buffers", "more than a launch can name", "relu", relu(plan=ELEMENTS + buffers),
             *_refused("scratch")),
        Case("a terabyte of scratch", "the judge pays for the memory", "relu",
             relu(plan=ELEMENTS + huge.format("2 ** 38")), *_refused("1024.0 GiB", "16.0 GiB")),
        Case("fifteen gigabytes of scratch", "within the limit of a GPU, more than this machine has", "relu",
             relu(plan=ELEMENTS + huge.format("15 * 2 ** 28")), status(Status.UNSUPPORTED, words=("GiB",)), None),
        Case("a name without end", "the runner reads names into a fixed field", "relu",
             relu(plan=ELEMENTS + huge.format("1").replace("work", "w" * 300)), *_refused("name")),
        Case("too few arguments", "the driver would read whatever comes next", "relu",
             _plan('["x", "out", "n"]', '["x", "out"]  # HERE'),
             *(status(LAUNCH, words=("f expects 3 parameters", "gives 2"), line=False),) * 2),
        Case("too many arguments", "one more than the kernel takes", "relu",
             _plan('["x", "out", "n"]', '["x", "out", "n", "n"]'),
             *(status(LAUNCH, words=("f expects 3 parameters", "gives 4")),) * 2),
        Case("arguments in another order", "a pointer is a pointer", "relu",
             _plan('["x", "out", "n"]', '["out", "x", "n"]'),
             status(Status.MEMORY_ERROR, Status.INPUT_MODIFIED),
             status(Status.MEMORY_ERROR, Status.INPUT_MODIFIED, Status.RUNTIME_ERROR)),
        Case("a number for a pointer", "an address of its own choice", "relu",
             _plan('["x", "out", "n"]', '["x", "140737488355328", "n"]'), *(status(LAUNCH, words=("pointer",)),) * 2),
        Case("a pointer for a number", "an address as a length", "relu",
             _plan('["x", "out", "n"]', '["x", "out", "x"]'), *(status(LAUNCH, words=("tensor",)),) * 2),
        Case("another width of elements", "eight bytes for four", "relu",
             relu().replace("float const* x", "double const* x"),
             *(status(LAUNCH, words=("8 bytes an element",)),) * 2),
    )  # fmt: skip


def _toml() -> tuple[Case, ...]:
    return (
        Case("a plan that closes its comment", "code in the idea", "relu",
             relu(plan='idea = "*/ __device__ int owned; /*"\n' + ELEMENTS),
             *_refused("TOML")),
        Case("brackets ten thousand deep", "recursion in the reader", "relu",
             relu(plan=f"idea = {'[' * 10000}{']' * 10000}\n{ELEMENTS}"), *_refused("TOML")),
        Case("a number of a million digits", "quadratic to read", "relu",
             relu(plan=f"[params]\nN = {'9' * 900000}\n{ELEMENTS}"), *_refused("characters")),
        Case("tables in tables in tables", "quadratic to build", "relu",
             relu(plan="[" + ".".join(["a"] * 5000) + "]\n" + ELEMENTS), *_refused("unknown section")),
        Case("fifty thousand sections", "names to compare with", "relu",
             relu(plan=ELEMENTS + "".join(f"[a{k}]\n" for k in range(50000))), *_refused("characters")),
        Case("no plan", "plain C++", "relu", "__global__ void f() {}\n", *_refused("opens with a comment")),
        Case("a plan that is never closed", "everything is plan", "relu", f"/* cutegen\n{ELEMENTS}\n{RELU}\n",
             *_refused("never closed")),
        Case("a parameter with code in it", "constants are written into the program", "relu",
             relu(plan=f'[params]\nN = "1; }} int owned() {{ return 0"\n{ELEMENTS}'), *_refused("N")),
        Case("an infinite parameter", "no C++ constant is called inf", "relu",
             relu(plan=f"[params]\nN = inf\n{ELEMENTS}"), *_refused("N")),
        Case("a parameter that redefines the thread index", "every thread is thread 0", "relu",
             relu(plan=f"[params]\nthreadIdx = 0\n{ELEMENTS}"),
             *(status(Status.REJECTED, Status.COMPILE_ERROR),) * 2),
        Case("code in a kernel's name", "the name is compiled, too", "relu",
             _plan('"f"', '"f); int owned(); (f"'), *_refused("kernel")),
        Case("a line break in a kernel's name", "names are kept one a line", "relu",
             _plan('kernel = "f"', 'kernel = """f<\n1>"""').replace(
                 "__global__", "template <int K> __global__"), *_refused("kernel")),
        Case("a comment in a kernel's name", "swallows what is written behind it", "relu",
             _plan('"f"', '"f<1 //>"').replace("__global__", "template <int K> __global__"),
             *(status(Status.REJECTED, Status.COMPILE_ERROR),) * 2),
    )  # fmt: skip


PLAN_CASES = _expressions() + _limits() + _toml()
