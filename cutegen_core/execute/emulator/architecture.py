"""Give a candidate the macros of the architecture it is compiled for; the prelude has those of sm_90a."""

from __future__ import annotations

import re
from collections.abc import Mapping

_PRELUDE = "sm_90a"


def write_macros(arch: str) -> str:
    """Return the directives to put above a candidate; "" for the prelude's own architecture."""
    if arch == _PRELUDE:
        return ""
    undefined = "".join(f"#undef {name}\n" for name in _macros(_PRELUDE))
    return undefined + "".join(f"#define {name}{text}\n" for name, text in _macros(arch).items())


def replace(table: Mapping[str, str], arch: str) -> dict[str, str]:
    """Return a table of macros with those of another architecture."""
    return {name: text for name, text in table.items() if name not in _macros(_PRELUDE)} | _macros(arch)


def _macros(arch: str) -> dict[str, str]:
    number = re.sub(r"\D", "", arch)
    features = {f"__CUDA_ARCH_FEAT_SM{number}_ALL": " 1"} if arch.endswith("a") else {}
    return {"__CUDA_ARCH__": f" {number}0", **features}
