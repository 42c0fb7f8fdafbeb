"""Parts of CuTeGen's strategy that can be switched off or changed, each a strategy of its own, to see what it is worth.

They repeat the ablations of the CuTeGen paper (`python -m benchmarks.guide.ablation`); no session needs them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

_CUTE = re.compile(r"#\s*include\s*<(?:cute|cutlass)/|\busing\s+namespace\s+(?:cute|cutlass)\b|\b(?:cute|cutlass)\s*::")
_LITERAL = re.compile(r"//[^\n]*|/\*.*?\*/|\"(?:[^\"\\\n]|\\.)*\"", re.DOTALL)


class ProfileText(StrEnum):
    """When the profile of the best kernel enters a prompt."""

    DELAYED = "delayed"
    NEVER = "never"
    ALWAYS = "always"


@dataclass(frozen=True)
class Switches:
    """How the strategy differs from CuTeGen's own.

    Attributes:
        menus: a prompt offers the ideas of the problem's family.
        plain_cuda: kernels are CUDA C++ without CuTe and CUTLASS.
        refines: the first kernel is a seed; without, it is the only one, from one call.
    """

    profile: ProfileText = ProfileText.DELAYED
    menus: bool = True
    plain_cuda: bool = False
    refines: bool = True

    @property
    def language(self) -> str:
        """Return what the prompt calls a kernel's language."""
        return "plain CUDA C++" if self.plain_cuda else "CuTe"


CUTEGEN = Switches()


class Ablation(NamedTuple):
    """A variant of CuTeGen's strategy."""

    title: str
    switches: Switches


ABLATIONS: Mapping[str, Ablation] = {
    "cutegen-no-profile": Ablation("CuTeGen without profiles", Switches(profile=ProfileText.NEVER)),
    "cutegen-profile-always": Ablation("CuTeGen with a profile in each step", Switches(profile=ProfileText.ALWAYS)),
    "cutegen-no-menus": Ablation("CuTeGen without menus of ideas", Switches(menus=False)),
    "cutegen-cuda": Ablation("CuTeGen's loop with CUDA instead of CuTe", Switches(plain_cuda=True)),
    "cutegen-one-shot": Ablation("One call, one kernel, no refinement", Switches(refines=False)),
}


def uses_cute(source: str) -> bool:
    """Return whether a kernel file's code names CuTe or CUTLASS; comments and texts do not count."""
    return bool(_CUTE.search(_LITERAL.sub(" ", source)))
