"""A Pygments lexer for SASS as nvdisasm prints it (Pygments' own `SassLexer` is for style sheets)."""

from __future__ import annotations

from typing import Any, ClassVar

from pygments.lexer import RegexLexer, bygroups
from pygments.token import Comment, Keyword, Name, Number, Punctuation, String, Text


class NvidiaSassLexer(RegexLexer):  # type: ignore[misc]  # Pygments has no types
    name = "NVIDIA SASS"
    aliases: ClassVar[list[str]] = ["nvidia-sass"]
    filenames: ClassVar[list[str]] = []
    tokens: ClassVar[dict[str, list[Any]]] = {
        "root": [
            (r"\s+", Text),
            (r"/\*.*?\*/|//[^\n]*", Comment),
            (r'"[^"\n]*"', String),
            (r"^(\s*)([.\w$]+)(:)", bygroups(Text, Name.Label, Punctuation)),
            (r"^(\s*)(\.[\w.]+)", bygroups(Text, Comment.Preproc)),
            (r"@!?U?P[T\d]+", Keyword.Type),
            (r"[!~|-]?\b(?:U?R(?:\d+|Z)|U?P(?:\d+|T)|SR_[\w.]+|SB\d|B\d+)(?:\.[\w.]+)?\b", Name.Class),
            (r"-?\b0x[0-9a-fA-F]+\b|[+-]?\b\d+(?:\.\d+)?(?:[eE][+-]?\d+)?\b", Number),
            (r"\b([A-Z][A-Z0-9_]+)((?:\.[A-Z0-9_]+)*)", bygroups(Keyword, Keyword.Type)),
            (r"[\w$.]+", Name),
            (r".", Punctuation),
        ]
    }
