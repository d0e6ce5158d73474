"""The only user of tiktoken: counts tokens, and takes the ends of a text by tokens.

Counting costs about half a millisecond for 1,000 tokens, so what is counted again and again (frames, facts, the last
runs of a thread) is remembered by its text. Special tokens count as the plain text they are.
"""

from __future__ import annotations

from functools import lru_cache

import tiktoken

from memsvc.errors import TokenizerMissing

REMEMBERED_TEXTS = 4096
REMEMBERED_LENGTH = 16_384
"""Longest text whose count is remembered, in characters: with the number above a bound on memory."""

# Pieces of a block as the renderer makes them: a mark first, one line feed last. Every pair must count like its parts.
_PROBES = (
    "‹用户› 出一份数据结构试卷\n",
    "‹助手› 好的：\n",
    "> 1. for i in range(10):\n",
    ">     print(i)...\n",
    "- 2026-12-01 ‹user› What's next?!\n",
    "> \n",
    "[本会话前情 #3fa9c1 — x]\n",
    "（最近对话）\n",
    "> ends in space \n",
    "> 12345\n",
    "> e\u0301👩‍👩‍👧\n",
    "…(略 12 字)…\n",
)


class Tokenizer:
    """One loaded encoding. `additive` says that counts of the renderer's pieces add up to that of their join."""

    def __init__(self, name: str) -> None:
        """Loads the encoding `name` without touching the network; TokenizerMissing where it cannot be had."""
        self.name = name
        known = ", ".join(sorted(tiktoken.list_encoding_names()))
        if name not in known.split(", "):
            raise TokenizerMissing(name, f"is no encoding known here (there are {known})")
        try:
            self._encoding = tiktoken.get_encoding(name)
        except (OSError, ImportError) as error:  # a download that cannot be made ends here
            raise TokenizerMissing(name, f"cannot be loaded without a download ({type(error).__name__})") from None
        self._count_remembered = lru_cache(REMEMBERED_TEXTS)(self._count)
        self.additive = all(self._count(a + b) == self._count(a) + self._count(b) for a in _PROBES for b in _PROBES)

    def count(self, text: str) -> int:
        """Returns how many tokens `text` takes. Lone surrogates are not text; what they count is not said."""
        if len(text) <= REMEMBERED_LENGTH:
            return self._count_remembered(text)
        return self._count(text)

    def ends(self, text: str, head: int, tail: int) -> tuple[str, str]:
        """Returns a prefix of about `head` and a suffix of about `tail` tokens, on character boundaries.

        Either may be all of the text. Counted again they may differ by a token or two, since a cut ends words early:
        callers count what they build.
        """
        tokens = self._encoding.encode_ordinary(text)
        first = text if head >= len(tokens) else self._decode(tokens[:head])
        last = text if tail >= len(tokens) else self._decode(tokens[len(tokens) - tail :])
        return first, last

    def _count(self, text: str) -> int:
        return len(self._encoding.encode_ordinary(text))

    def _decode(self, tokens: list[int]) -> str:
        # A token may end in the middle of a character; what is left of that character is dropped.
        return self._encoding.decode_bytes(tokens).decode("utf-8", "ignore")
