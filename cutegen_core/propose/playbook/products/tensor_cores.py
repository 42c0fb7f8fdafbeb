"""Write products on tensor cores: mma of a warp with cp.async and ldmatrix, for sm_80 and later."""

from __future__ import annotations

from cutegen_core.propose.playbook.kernels import ProductKernel
from cutegen_core.propose.playbook.naming import Naming
from cutegen_core.propose.playbook.parameters import ELEMENT
from cutegen_core.propose.playbook.regions import Region
from cutegen_core.propose.playbook.writing import RegionText, render

_OPERATION = {"float16": "SM80_16x8x16_F32F16F16F32_TN", "bfloat16": "SM80_16x8x16_F32BF16BF16F32_TN"}
_VECTOR = 8


def sm80(region: Region, name: str, naming: Naming, suffix: str) -> RegionText:
    """Operands of halves; where they are no whole vectors, they are copied element by element."""
    piece, k = RegionText(suffix), ProductKernel(region, name, naming)
    p = {"BM": piece.param("BM", 128, 64, 128), "BN": piece.param("BN", 128, 64, 128, 256)}
    p |= {"BK": piece.param("BK", 64, 32, 64), "STAGES": piece.param("STAGES", 3, 2, 3, 4)}
    p |= {"DOWN": piece.param("DOWN", 2, 1, 2, 4), "ACROSS": piece.param("ACROSS", 2, 1, 2, 4)}
    threads = f"32 * {p['DOWN']} * {p['ACROSS']}"
    smem = f"({p['BM']} + {p['BN']}) * {p['BK']} * {p['STAGES']} * 2"
    piece.where += [
        f"{smem} <= smem_max",
        f"{p['BM']} % (32 * {p['DOWN']}) == 0 and {p['BN']} % (32 * {p['ACROSS']}) == 0",
        f"{p['BM']} * {p['BN']} <= 128 * {threads}",
        f"{threads} <= {p['BM']} * {p['BK']} // {_VECTOR}",
    ]
    piece.code = render(
        "product_sm80.cu.j2", k=k, p=p, element=ELEMENT[k.dtype], operation=_OPERATION[k.dtype], vector=_VECTOR
    )
    grid = f"ceil_div({k.N}, {p['BN']})", f"ceil_div({k.M}, {p['BM']})", k.L
    whole = k.aligned(_VECTOR, along_k=True)
    for v, when in ((_VECTOR, whole), (1, f"not ({whole})")):
        piece.launch(f"{name}<{', '.join([*p.values(), str(v)])}>", grid, (threads,), k, when, smem)
    return piece
