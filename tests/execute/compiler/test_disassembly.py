"""Instructions counted under the right kind."""

import pytest

from cutegen_core.execute.compiler.disassembly import categorise, count_instructions, split_kernels

SASS = """
	.section	.text._Z1fv,"ax",@progbits
.text._Z1fv:
	//## File "candidate.cu", line 4
        /*0000*/                   LDC R1, c[0x0][0x28] ;
        /*0010*/              @!P0 LDG.E.128.CONSTANT R4, desc[UR4][R2.64] ;
        /*0020*/             @!UP0 UIADD3 UR4, UR4, 0x1, URZ ;
        /*0030*/                   HFMA2.MMA R3, -RZ, RZ, 0, 0 ;
        /*0040*/                   FFMA R4, R4, R5, R6 ;
        /*0050*/                   EXIT ;
        /*0060*/                   NOP;
	.section	.text._Z1gv,"ax",@progbits
.text._Z1gv:
        /*0000*/                   EXIT ;
"""


@pytest.mark.parametrize(
    ("opcode", "kind"),
    [
        ("LDG.E.U16.CONSTANT", "global load 16-bit"),
        ("STG.E.64", "global store 64-bit"),
        ("LDS.128", "shared load 128-bit"),
        ("STS", "shared store 32-bit"),
        ("LDGSTS.E.BYPASS.LTC128B.128", "async copy"),
        ("LDSM.16.M88.4", "matrix load/store"),
        ("STL.128", "local memory (spill)"),
        ("HMMA.16816.F32.BF16", "MMA"),
        ("HGMMA.64x256x16.F32.BF16", "MMA"),
        ("UTMALDG.2D", "TMA"),
        ("BAR.SYNC.DEFER_BLOCKING", "barrier"),
        ("MUFU.EX2", "special function"),
        ("HFMA2.BF16_V2", "fp16/bf16 arithmetic"),
        ("IMAD.MOV.U32", "move/select"),
        ("IMAD.WIDE.U32", "integer"),
        ("F2FP.BF16.F32.PACK_AB", "conversion"),
        ("RED.E.ADD.F32.FTZ.RN.STRONG.GPU", "atomic"),
        ("SHFL.BFLY", "shuffle/vote"),
        ("SOMETHING.NEW", "other"),
    ],
)
def test_kinds(opcode, kind):
    assert categorise(opcode) == kind


def test_mix_of_one_kernel():
    kernels = split_kernels(SASS)
    assert list(kernels) == ["_Z1fv", "_Z1gv"]
    assert count_instructions(kernels["_Z1fv"]) == {
        "constant load": 1, "global load 128-bit": 1, "integer": 1, "move/select": 1, "FFMA": 1, "control": 1,
    }  # fmt: skip
    assert count_instructions(kernels["_Z1gv"]) == {"control": 1}
