"""The text as every red line reads it: folded, with each digit of each script an ASCII digit, and spans that lead back.

A rule looks a bounded number of characters to either side of what it found, never further: that keeps the whole
linear, and keeps a word at one end of a summary from speaking for a number at the other.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from memsvc.rules.text import View, view

HAN_DIGITS = "零〇○一二三四五六七八九壹贰叁肆伍陆柒捌玖貳參陸幺兩两"
_TO_ASCII = str.maketrans(HAN_DIGITS, "000123456789123456789236122")
_HAN_DIGIT = re.compile(f"[{HAN_DIGITS}]")
_FOREIGN_DIGIT = re.compile(r"(?![0-9])\d")
_SENTENCE_END = re.compile(r"[。!?！？;；\n\r\u2028\u2029]")
_SPACED_OUT = re.compile(r"[\u4e00-\u9fff](?: [\u4e00-\u9fff0-9](?![\u4e00-\u9fff])){2,}+")
_REACH = 60
# What one pattern may find in a text and have its surroundings weighed. Beyond it the pattern alone decides: a text
# with more marks or diseases than that is no fact and no summary, and too much is blocked rather than too slowly.
_WEIGHED_MAX = 1000


@dataclass(frozen=True, slots=True)
class Finding:
    """One place that may not be kept: its category and its half-open span in the source text."""

    category: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Page:
    """`text` is folded (NFKC, nothing invisible); `digits` is the same, length for length, with digits made ASCII."""

    text: str
    digits: str
    view: View

    def finding(self, category: str, start: int, end: int) -> Finding:
        """Returns the finding for the characters `start` to `end` of this page, in places of the source."""
        return Finding(category, *self.view.span(start, end))

    def before(self, at: int, reach: int = _REACH) -> str:
        """Returns what stands before `at` in its sentence, at most `reach` characters of it."""
        piece = self.text[max(0, at - reach) : at]
        cut = 0
        for end in _SENTENCE_END.finditer(piece):
            cut = end.end()
        return piece[cut:]

    def after(self, at: int, reach: int = _REACH) -> str:
        """Returns what stands from `at` to the end of its sentence, at most `reach` characters of it."""
        piece = self.text[at : at + reach]
        end = _SENTENCE_END.search(piece)
        return piece[: end.start()] if end else piece

    def sentences(self) -> Iterator[tuple[int, int]]:
        """Yields the half-open spans of the sentences, in order; their end marks belong to none."""
        start = 0
        for end in _SENTENCE_END.finditer(self.text):
            if end.start() > start:
                yield start, end.start()
            start = end.end()
        if start < len(self.text):
            yield start, len(self.text)


def read(text: str) -> Page:
    """Returns the page of `text`; linear. Chinese digits count as digits in `digits` and stay words in `text`."""
    seen = view(text)
    folded = seen.text
    digits = folded
    if not folded.isascii():
        if _FOREIGN_DIGIT.search(folded):
            folded = _FOREIGN_DIGIT.sub(lambda m: str(unicodedata.decimal(m[0])), folded)
        digits = folded.translate(_TO_ASCII) if _HAN_DIGIT.search(folded) else folded
    return Page(folded, digits, seen)


def squeezed(page: Page) -> Page | None:
    """Returns the page without the spaces between Chinese characters written apart (数 学 9 2 分), None without any."""
    spaces = {
        place
        for stretch in _SPACED_OUT.finditer(page.text)
        for place in range(stretch.start(), stretch.end())
        if page.text[place] == " "
    }
    if not spaces:
        return None
    kept = [i for i in range(len(page.text)) if i not in spaces]
    text = "".join(page.text[i] for i in kept)
    digits = "".join(page.digits[i] for i in kept)
    return Page(text, digits, View(text, [page.view.origin[i] for i in kept], page.view.source_length))


def ration(matches: Iterable[re.Match[str]]) -> Iterator[tuple[re.Match[str], bool]]:
    """Yields each match and whether its surroundings may still be weighed; when not, it counts as found."""
    for count, match in enumerate(matches):
        yield match, count < _WEIGHED_MAX
