"""An edit is compiled with its parent's templates ready: to the same code, and never to a verdict of its own."""

import re
from base64 import b64decode
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from cutegen_core.execute.compiler import compile_server
from cutegen_core.execute.compiler.compile_server import Server
from cutegen_core.execute.compiler.disassembly import disassemble
from cutegen_core.execute.compiler.forks import CompileLimits
from cutegen_core.execute.compiler.prepared import NAMESPACE, as_header, fits
from cutegen_core.kernel.kernel_file import parse
from tests.execute.compiler.test_compilation import RELU
from tests.patience import wait_until
from tests.places import ROOT

GEMM = (ROOT / "tests" / "data" / "kernels" / "gemm_bf16.cu").read_text()
WITH_ARRAY = RELU.replace("#include <cute", "#include <cuda/std/span>\n#include <cute")
EDITED = "  if (n > 5) out[0] = 7.0f;\n  long base"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compile_server, "WORTH_PREPARING_S", 0.0)
        made = Server("sm_90a", tmp_path_factory.mktemp("server"), prepares=True)
        yield made
        made.close()


def ask(server: Server, text: str) -> dict[str, Any]:
    kernel = parse(text)
    program, limits = kernel.to_cpp(), asdict(CompileLimits())
    request = {"op": "compile", "program": program, "plain": program, "names": kernel.kernel_names(), "limits": limits}
    return server.handle(request)


def made_of(answer: dict[str, Any]) -> tuple[Any, ...]:
    """Return names, machine code and messages; not how long it took, nor the parent's constants in global memory."""
    code = "\n".join(line for line in disassemble(b64decode(answer["cubin"])).splitlines() if "File" not in line)
    return (
        answer["lowered"],
        code,
        [line for line in answer["log"].splitlines() if not re.search("bytes gmem|Compile time", line)],
    )


def prepare(server: Server, text: str) -> None:
    assert ask(server, text)["code"] == 0
    server.prepare_for_others()
    wait_until(lambda: server._prepared is not None and server._prepared.is_ready(), "nothing was prepared")


@pytest.mark.parametrize("text", [RELU, pytest.param(GEMM, marks=pytest.mark.thorough)], ids=["relu", "gemm"])
def test_an_edit_is_compiled_to_what_it_would_be_without(text: str, server: Server) -> None:
    edited = text.replace("  long base", EDITED).replace("  __shared__", "  if (k < 0) return;\n  __shared__", 1)
    assert edited != text
    prepare(server, text)
    prepared = ask(server, edited)
    server._parent = None
    plain = ask(server, edited)
    assert (prepared["prepared"], "prepared" in plain) == (True, False)
    assert made_of(prepared) == made_of(plain)


@pytest.mark.parametrize("again", [False, pytest.param(True, marks=pytest.mark.thorough)])
def test_an_edit_that_fails_has_the_compilers_own_words_and_the_next_is_prepared_for(
    again: bool, server: Server
) -> None:
    prepare(server, RELU)
    wrong = RELU.replace("  long base", "  int x = nothing;\n  long base")
    answer = ask(server, wrong)
    assert answer["code"] != 0
    assert "prepared" not in answer
    assert 'identifier "nothing" is undefined' in answer["log"]
    assert NAMESPACE not in answer["log"]
    assert "cutegen_parent" not in answer["log"]
    server.prepare_for_others()
    assert server._prepared is not None
    if again:
        wait_until(server._prepared.is_ready, "nothing was prepared again")
        assert ask(server, RELU.replace("  long base", EDITED))["prepared"]


@pytest.mark.thorough
def test_what_only_the_parent_includes_is_missed_as_without(server: Server) -> None:
    prepare(server, WITH_ARRAY.replace("  long base", "  cuda::std::span<float const> s(x, n);\n  long base"))
    answer = ask(server, RELU.replace("  long base", "  cuda::std::span<float const> s(x, n);\n  long base"))
    assert answer["code"] != 0
    assert "span" in answer["log"]


def test_an_edit_that_comes_before_all_is_ready_does_not_wait_and_nothing_is_left(server: Server) -> None:
    assert ask(server, RELU)["code"] == 0
    server.prepare_for_others()
    assert server._prepared is not None
    fork = server._prepared._fork
    assert Path(fork._temporary).exists()
    assert ask(server, RELU.replace("  long base", EDITED))["code"] == 0
    assert server._prepared is None
    assert not Path(fork._temporary).exists()
    assert not Path(f"/proc/{fork._pid}").exists()


PLAIN = """#include <cute/tensor.hpp>
using namespace cute;
__device__ int one() { return 1; }
__global__ void k(float* x) { x[0] = one(); }
"""


def test_a_program_becomes_functions_of_a_namespace_that_nobody_calls() -> None:
    header = as_header(PLAIN.replace("void k", "__launch_bounds__((64 * 2)) void k"), ["k"])
    assert header.startswith(f"#include <cute/tensor.hpp>\nnamespace {NAMESPACE} {{\n")
    assert "static __device__  void k(float* x)" in header
    assert "(void)&k;" in header


@pytest.mark.parametrize(
    "line",
    [
        "#define ONE 1", "#undef INFINITY", "#if 1", "# ifdef X", "%:define ONE 1",
        "#pragma nv_diag_suppress 20", "__device__ int counter;",
        "__device__ float table[4];", "static __device__ int counter = 3;", "__constant__ float c;",
        "__managed__ int m;",
        'extern "C" __device__ int f() { return 1; }', "namespace cute { struct Mine {}; }", "namespace std {}",
        'auto s = R"(\n#include <x>\n)";', "/*\n#include <cuda/barrier>\n*/", "// one \\\n#include <cuda/barrier>",
    ],
)  # fmt: skip
def test_what_an_edit_could_see_is_no_header(line: str) -> None:
    assert as_header(PLAIN, ["k"])
    assert not as_header(f"{PLAIN}{line}\n", ["k"])
    if not line.startswith(("#", "%:")):
        assert not fits(PLAIN, f"{PLAIN}{line}\n")


def test_an_edit_includes_at_least_what_its_parent_does() -> None:
    more = f"#include <cuda/barrier>\n{PLAIN}"
    assert fits(PLAIN, more)
    assert not fits(more, PLAIN)
