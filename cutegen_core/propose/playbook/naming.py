"""Choose the names of a kernel file: none twice, and none that its code uses for anything else.

Which words a template uses is known once it is filled in, so a file's code is written twice (`variants`):

1. With marked names: every other word of the code belongs to a template, to CuTe or to C++ (`words_of`).
2. With names that avoid those words. A new variable of a template therefore never meets a tensor of that name.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from itertools import chain, count
from typing import NamedTuple

from cutegen_core.kernel.plan_toml import CPP_WORDS

_MARK, _VIEW = "__chosen", "__view__chosen"
_CODE = re.compile(r'//[^\n]*|/\*.*?\*/|"[^"\n]*"|(?:\.|->)\s*[A-Za-z_]\w*|(?<!\w)([A-Za-z_]\w*)', re.DOTALL)
"""A comment, a string or a member, none of which a name can meet; else a word, as the group."""


class Words(NamedTuple):
    """What code that was written with marked names consists of.

    Attributes:
        used: every word that no `Naming` chose.
        letters: those which views of tensors begin with.
    """

    used: frozenset[str] = frozenset()
    letters: frozenset[str] = frozenset()


def words_of(codes: Iterable[str]) -> Words:
    """Return the words of C++ code; members, comments and strings do not count."""
    found = {word for code in codes for word in _CODE.findall(code) if word}
    letters = frozenset(word[0] for word in found if _VIEW in word)
    return Words(frozenset(word for word in found if not is_chosen(word)), letters)


def is_chosen(word: str) -> bool:
    """Return whether a `Naming` chose a word of code that was written with marked names."""
    return _MARK in word


@dataclass
class Naming:
    """The names that all kernels of a file share.

    Attributes:
        taken: names of the plan, which no other may have; those chosen here are added.
        words: what the code has for anything else; None marks every name, so that `words_of` tells.
        lets: expression -> name in `[let]`.
        tensors: tensor of the plan -> name in C++.
    """

    taken: set[str]
    words: Words | None
    lets: dict[str, str] = field(default_factory=dict)
    tensors: dict[str, str] = field(default_factory=dict)

    def let(self, wanted: str, expression: str) -> str:
        """Return the name of a number of the plan; the same expression has one name in a file."""
        if expression not in self.lets:
            self.lets[expression] = self.fresh(wanted)
        return self.lets[expression]

    def tensor(self, name: str) -> str:
        """Return the C++ name of a tensor: its own, unless the code uses that otherwise."""
        if name not in self.tensors:
            self.tensors[name] = self._tensor(name)
            self.taken.add(self.tensors[name])
        return self.tensors[name]

    def _tensor(self, name: str) -> str:
        if self.words is None:
            return name + _MARK
        own = name
        while name in self.words.used or name in CPP_WORDS or (name != own and name in self.taken):
            name += "_"
        return name

    def fresh(self, wanted: str) -> str:
        """Return a name like this one that nothing else has."""
        if self.words is None:
            return fresh(wanted + _MARK, self.taken)
        words = self.words
        name = _first_free(wanted, lambda name: name in self.taken or name in words.used)
        self.taken.add(name)
        return name

    def view(self, tensor: str, others: Collection[str]) -> str:
        """Return what the views of a tensor are called behind their first letter; `others` are taken."""
        wanted = tensor[:1].upper() + tensor[1:]
        if self.words is None:
            return fresh(wanted + _VIEW, set(others))
        words = self.words

        def is_taken(name: str) -> bool:
            views = (letter + name for letter in words.letters)
            return name in others or any(view in words.used or view in self.taken for view in views)

        return _first_free(wanted, is_taken)


def fresh(wanted: str, taken: set[str]) -> str:
    """Return `wanted`, with a number after it if the name is taken, and take it."""
    name = _first_free(wanted, taken.__contains__)
    taken.add(name)
    return name


def _first_free(wanted: str, is_taken: Callable[[str], bool]) -> str:
    names = chain([wanted], (f"{wanted}{number}" for number in count(2)))
    return next(name for name in names if not is_taken(name))
