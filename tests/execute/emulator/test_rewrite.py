"""The rewriter and the overlay: every statement found, lines kept, and a loud stop on headers that were not tested."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from cutegen_core.execute.compiler import lean_cute
from cutegen_core.execute.emulator import host_compiler, overlay
from cutegen_core.execute.emulator.asm_statements import AsmError, rewrite_asm
from cutegen_core.execute.emulator.candidate_source import SourceError, translate
from cutegen_core.execute.emulator.lexer import tokenize
from cutegen_core.machine import toolchain
from cutegen_core.records.errors import MachineError


def test_tokens_keep_every_character() -> None:
    text = 'a \\\n /* b\n*/ "s\\"" R"x(raw " )x" \'c\' 1\'000 0x1p-3 ::%: // end'
    assert "".join(t.text for t in tokenize(text)) == text


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('asm("bar.sync 0;");', 'emu::ptx("bar.sync 0;");'),
        (
            'asm volatile ("a %0, %1;" : "=r"(d) : "r"(x::y) : "memory");',
            "emu::ptx(\"a %0, %1;\"  , emu::out<'r'>(d)  , emu::in<'r'>(x::y)  );",
        ),
        (
            '__asm__ __volatile__("a;" :: "n"(N), "+f"(f[0]));',
            "emu::ptx(\"a;\"  , emu::in<'n'>(N) , emu::inout<'f'>(f[0]));",
        ),
        (
            'asm("max.NaN.f32 %0, %1, %2;" : "=f"(m) : "f"(a), "f"(b));',
            "emu::extreme<true>(\"max.NaN.f32 %0, %1, %2;\"  , emu::out<'f'>(m)  , emu::in<'f'>(a) , emu::in<'f'>(b));",
        ),
        ('// asm("x")\nconst char* s = "asm(";', '// asm("x")\nconst char* s = "asm(";'),
    ],
)
def test_statements_become_calls(before: str, after: str) -> None:
    assert rewrite_asm(before).text == after


def test_line_breaks_and_preprocessor_lines_stay() -> None:
    text = 'asm volatile(\n#if A\n"p %0;" ::"r"(a),\n#else\n"q %0;" ::"r"(b),\n#endif\n"l"(c));\nnext'
    result = rewrite_asm(text)
    assert result.statements == 1
    assert result.text.count("\n") == text.count("\n")
    assert result.text.count(", emu::in<'l'>(c)") == 1


@pytest.mark.parametrize(
    "text",
    ['asm goto("x" ::: : label);', 'asm("x" : "=a"(b));', 'asm("x" : [name] "=r"(a));', "asm;", 'asm("x" : "=r"(a)'],
)
def test_what_is_not_ptx_is_refused(text: str) -> None:
    with pytest.raises(AsmError):
        rewrite_asm(text)


@pytest.mark.parametrize(
    ("declaration", "variables"),
    [
        ("__shared__ float a[4], b;", ["a", "b"]),
        ("static __shared__ alignas(16) cute::array<float, 4> c[2][3];", ["c"]),
        ("alignas(128)\n__shared__ typename X<1, 2>::Storage d;", ["d"]),
        ("__shared__ volatile unsigned int e;", ["e"]),
    ],
)
def test_shared_declarations_are_understood(declaration: str, variables: list[str]) -> None:
    program = f'#line 7 "candidate.cu"\nvoid k() {{ int x = 0;\n{declaration}\n}}\n'
    text = translate(program, ["k"], toolchain.find_include_dirs())
    for name in variables:
        assert f"emu_record_{name} " in text
    body = text[text.index("#line 7") :].split("#line 1")[0]
    assert body.count("\n") == program.count("\n") + 1


@pytest.mark.parametrize(
    "declaration", ["__shared__ float a = 1;", "__shared__ float (*p)[3];", "__shared__ a;", "__shared__ float"]
)
def test_shared_declarations_that_are_not_understood_are_refused_with_their_line(declaration: str) -> None:
    with pytest.raises(SourceError) as caught:
        translate(f'#line 7 "candidate.cu"\nvoid k() {{\n{declaration}\n}}', ["k"], toolchain.find_include_dirs())
    assert caught.value.diagnostics[0].line == 8


def test_headers_with_other_statements_stop_the_build(tmp_path: Path) -> None:
    include = toolchain.find_include_dirs()[0]
    changed = tmp_path / "include"
    for name in overlay.list_headers():
        (changed / name).parent.mkdir(parents=True, exist_ok=True)
        (changed / name).write_bytes((include / name).read_bytes())
    victim = changed / "cute" / "arch" / "copy_sm75.hpp"
    victim.write_text(victim.read_text() + '\ninline void more() { asm volatile("bar.sync 0;"); }\n')
    with pytest.raises(MachineError, match=r"copy_sm75\.hpp has 8 inline PTX statements; .* tested with 7\. Install"):
        overlay.generate(changed, tmp_path / "overlay")


def test_a_header_with_new_assembly_stops_the_build(tmp_path: Path) -> None:
    (tmp_path / "cute").mkdir()
    (tmp_path / "cute" / "fresh.hpp").write_text('inline void f() { asm volatile("x;"); }\n')
    with pytest.raises(MachineError, match=r"cute/fresh\.hpp: inline PTX that was not there"):
        overlay.generate(tmp_path, tmp_path / "overlay")


def test_another_host_compiler_must_be_a_clang(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    other = tmp_path / "g++"
    other.write_text("#!/bin/sh\necho 'g++ (Debian) 12.2.0'\n")
    other.chmod(0o755)
    monkeypatch.setenv(host_compiler.SETTING, str(other))
    with pytest.raises(MachineError, match=r"is not clang; .* unset it"):
        host_compiler.find()
    monkeypatch.setenv(host_compiler.SETTING, str(tmp_path / "nowhere"))
    with pytest.raises(MachineError, match="cannot be run"):
        host_compiler.find()


@pytest.mark.parametrize("header", lean_cute.CHANGES)
def test_headers_that_are_made_lean_keep_their_lines(header: str) -> None:
    text = (toolchain.find_include_dirs()[0] / header).read_text()
    assert len(lean_cute.rewrite(header, text).splitlines()) == len(text.splitlines())
    with pytest.raises(MachineError, match=f"{header} does not read as"):
        lean_cute.rewrite(header, re.sub(r"getv_cr<I>|composition\(|lift_slice|zip2_by produces", "another", text))


@pytest.mark.parametrize(
    "program",
    ["SM90_64x8x16_F32F16F16_SS", "SM90::x", "make_gmma_desc", "UMMA::Major", "SM120_16x8x32_TN", "TMEM::x", "a##b",
     "#include <cutlass/pipeline/sm90_pipeline.hpp>"],
)  # fmt: skip
def test_a_program_that_may_name_matrix_instructions_has_all_headers(program):
    assert not lean_cute.leave_out(program)


@pytest.mark.parametrize(
    "program", ["SM80_16x8x8_F32TF32TF32F32_TN", "SM90_TMA_LOAD", "// in summary", "#include <cutlass/arch/barrier.h>"]
)
def test_other_programs_do_without(program):
    assert lean_cute.leave_out(program)
