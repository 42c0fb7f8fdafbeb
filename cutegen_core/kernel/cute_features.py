"""Count which parts of CuTe a kernel really uses, in its code without comments and strings."""

from __future__ import annotations

import re
from collections.abc import Mapping

from cutegen_core.kernel.screening import blank_comments

_FEATURES: Mapping[str, str] = {
    "Tensor": r"\bmake_tensor\b",
    "Layout": r"\bmake_layout\b|\bLayout\s*<",
    "local_tile": r"\blocal_tile\b",
    "local_partition": r"\blocal_partition\b",
    "copy": r"\bcopy\s*\(|\bcopy_if\s*\(",
    "TiledCopy": r"\bmake_tiled_copy\w*\b|\bTiledCopy\b",
    "TiledMMA": r"\bmake_tiled_mma\b|\bTiledMMA\b",
    "gemm": r"\bcute::gemm\s*\(|(?<![\w:])gemm\s*\(\s*\w*mma",
    "Swizzle": r"\bSwizzle\s*<",
    "shared memory tensor": r"\bmake_smem_ptr\b",
    "register tensor": r"\bmake_tensor\s*<|\bmake_fragment_like\b|\bmake_rmem_tensor\b",
    "vectorised copy": r"\bAutoVectorizingCopy\w*|\bUniversalCopy\s*<\s*(?:cute::)?uint128_t",
    "cp.async": r"\bSM80_CP_ASYNC\w*",
    "TMA": r"\bSM90_TMA\w*",
}


def cute_features(source: str) -> Mapping[str, int]:
    """Return feature -> number of uses; unused features are left out."""
    code = blank_comments(source)
    counts = {name: len(re.findall(pattern, code)) for name, pattern in _FEATURES.items()}
    return {name: count for name, count in counts.items() if count}
