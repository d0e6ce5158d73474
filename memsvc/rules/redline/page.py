"""The text as every red line reads it: folded, with each digit of each script an ASCII digit, and spans that lead back.

A rule looks a bounded number of characters to either side of what it found, never further: that keeps the whole
linear, and keeps a word at one end of a summary from speaking for a number at the other.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property

from memsvc.rules.text import View, view

HAN_DIGITS = "零〇○一二三四五六七八九壹贰叁肆伍陆柒捌玖貳參陸幺兩两"
_TO_ASCII = str.maketrans(HAN_DIGITS, "000123456789123456789236122")
# Numerals as a bank writes them; alone each is a word or a name as well (收拾, 大陆), so they count from two on.
_FORMAL = re.compile("[壹贰叁肆伍陆柒捌玖拾佰]{2,}")
_TO_PLAIN = str.maketrans("壹贰叁肆伍陆柒捌玖拾佰", "一二三四五六七八九十百")
_HAN_DIGIT = re.compile(f"[{HAN_DIGITS}]")
_FOREIGN_DIGIT = re.compile(r"[^\D0-9]")
# A full stop ends a sentence behind a word of four letters: "no. C01234567" and "Dr. Li" go on.
_SENTENCE_END = re.compile(r"[.。!?！？;；\n\r\u2028\u2029](?:(?<!\.)|(?<=[a-z0-9]{4}\.)(?=\s))")
_SPACED_OUT = re.compile(r"[\u4e00-\u9fff](?: [\u4e00-\u9fff0-9](?![\u4e00-\u9fff])){2,}+")
_PUNCTUATION = (("，", ","), ("：", ":"), ("；", ";"), ("（", "("), ("）", ")"), ("！", "!"), ("？", "?"))
_PLAIN = re.compile(r"[ -~\n\u4e00-\u9fff。、“”《》，：；（）！？]*")
_REACH = 60
# What one pattern may find in a text and have its surroundings weighed. Beyond it the pattern alone decides: a text
# with more marks or diseases than that is no fact and no summary, and too much is blocked rather than too slowly.
_WEIGHED_MAX = 1000
# A stretch without any sentence end is read in pieces; they overlap by more than a rule's reach and a match together.
_PIECE = 4000
_OVERLAP = 200


Gate = Callable[[str], object]
"""A quick look at a sentence: true where a rule may find something, and now and then where none does."""


class Lazy:
    """A pattern that is compiled at its first use: most texts hold nothing that any of the long ones has to read."""

    def __init__(self, source: str, flags: int = 0) -> None:
        self._source = source
        self._flags = flags

    @cached_property
    def compiled(self) -> re.Pattern[str]:
        """The pattern itself, kept from then on."""
        return re.compile(self._source, self._flags)

    def search(self, text: str) -> re.Match[str] | None:
        """As `re.Pattern.search`."""
        return self.compiled.search(text)

    def match(self, text: str) -> re.Match[str] | None:
        """As `re.Pattern.match`."""
        return self.compiled.match(text)

    def fullmatch(self, text: str) -> re.Match[str] | None:
        """As `re.Pattern.fullmatch`."""
        return self.compiled.fullmatch(text)

    def finditer(self, text: str) -> Iterator[re.Match[str]]:
        """As `re.Pattern.finditer`."""
        return self.compiled.finditer(text)

    def split(self, text: str) -> list[str]:
        """As `re.Pattern.split`, for patterns without groups."""
        return self.compiled.split(text)


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

    def stretches(self, *gates: Gate) -> Iterator[Page]:
        """Yields pages of the sentences in which every gate finds something, neighbours together.

        Gates are quick looks that may say yes where there is nothing. Rules bound what they see by the sentence, so
        they find in a stretch what they would find in the whole.
        """
        begin = end = -1
        for start, stop in self._suspects(*gates):
            # One mark parts neighbours; with more between them the stretch before is done, and so is a long one.
            if end >= 0 and (start > end + 1 or end - begin > _PIECE):
                yield from self._pieces(begin, end)
                end = -1
            begin = begin if end >= 0 else start
            end = stop
        if end >= 0:
            yield from self._pieces(begin, end)

    def _suspects(self, *gates: Gate) -> Iterator[tuple[int, int]]:
        start = 0
        while start < len(self.text):
            mark = _SENTENCE_END.search(self.text, start)
            stop = mark.start() if mark else len(self.text)
            sentence = self.text[start:stop]
            if all(gate(sentence) for gate in gates):
                yield start, stop
            start = stop + 1

    def _pieces(self, begin: int, end: int) -> Iterator[Page]:
        for start in range(begin, end, _PIECE):
            stop = min(end, start + _PIECE + _OVERLAP)
            text = self.text[start:stop]
            origin = self.view.origin[start:stop]
            yield Page(text, self.digits[start:stop], View(text, origin, self.view.source_length))


def read(text: str) -> Page:
    """Returns the page of `text`; linear. Chinese digits are digits in `digits`, and everyday words in `text`."""
    seen = _plain(text) or view(text)
    folded = seen.text
    digits = folded
    if not folded.isascii():
        if _FOREIGN_DIGIT.search(folded):
            folded = _FOREIGN_DIGIT.sub(lambda m: str(unicodedata.decimal(m[0])), folded)
        folded = _FORMAL.sub(lambda m: m[0].translate(_TO_PLAIN), folded)
        digits = folded.translate(_TO_ASCII) if _HAN_DIGIT.search(folded) else folded
    return Page(folded, digits, seen)


def _plain(text: str) -> View | None:
    """Returns what `view` would, for text of Chinese and ASCII alone: only its punctuation folds, one for one."""
    if not _PLAIN.fullmatch(text):
        return None
    folded = text
    for wide, narrow in _PUNCTUATION:
        folded = folded.replace(wide, narrow)
    return View(folded, range(len(text)), len(text))


def squeezed(page: Page) -> Page | None:
    """Returns the page without the spaces between Chinese characters written apart (数 学 9 2 分); None without any."""
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
