"""The one gate for text from outside: what forges structure loses its force and stays readable.

Nothing is taken away that can be seen: brackets become parentheses, a label's colon a dash. Those are what NFKC
leaves alone and no marker has. Sanitizing twice equals sanitizing once, and costs time in proportion to the length.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from memsvc.rules.excuses import EXCUSES
from memsvc.rules.frames import CONTINUATION, LOCALES, Frames, frames, lay_out, leading_block
from memsvc.rules.lookalikes import CACHED_LIMIT, skeleton
from memsvc.rules.markers import ANGLE_OPEN, BREAKS, CLOSERS, RULES, SQUARE_OPEN, Rule, suspect
from memsvc.rules.text import view

__all__ = ["CONTINUATION", "LOCALES", "Frames", "frames", "lay_out", "leading_block", "sanitize"]

# Characters that the folded view and the skeleton leave as they are, letter case apart: text of these alone needs no
# folding. Everything else (other scripts, full width letters, what shows nothing) is folded first.
_UNUSUAL = re.compile(
    "[^\t\n -~°±²³·–—‘’“”…、。〃々〈-】〔-〗"
    "\u3041-\u3094\u30a1-\u30fc\u3400-\u4dbf\u4e00-\u4e27\u4e29-\u9fff\uac00-\ud7a3"
    "！（），：；？～￥→←\U0001f300-\U0001f64f\U0001f680-\U0001f6fc\U0001f900-\U0001f9ff]+"
)
# Characters that spell ASCII unseen. Flags of regions are their one use: a black flag, letters, the closing tag.
_TAGS = re.compile("(\U0001f3f4[\U000e0020-\U000e007e]{1,8}\U000e007f)|[\U000e0000-\U000e007f]+")
# An excuse may rest on what stands beside a match and is disarmed itself. Two passes hear excuses; if the second still
# found something, none are heard any more, so that nobody can make a chain of them.
_EXCUSED_PASSES, _PASSES = 2, 6


class _Rough(dict[int, str]):
    """For `str.translate`: the skeleton of a character's view, to look at a text before positions matter."""

    def __missing__(self, point: int) -> str:
        if 0x20000 <= point < 0x2F800 or 0x30000 <= point < 0xE0000 or point >= 0xF0000:
            return chr(point)  # Rare ideographs and private use, hundreds of thousands: none looks like a letter.
        plain = view(chr(point)).text.translate(skeleton)
        if len(self) < CACHED_LIMIT:
            self[point] = plain
        return plain


_rough = _Rough()
_ASCII = {point: chr(point).translate(_rough) for point in range(0x80)}
# What stands in a disarmed character's place, by the group of the pattern that named it.
_INSTEAD: dict[str, Callable[[str], str]] = {
    "open": lambda _: "(",
    "close": lambda _: ")",
    "paren": lambda _: "「",
    "unparen": lambda _: "」",
    "colon": lambda colon: "——" if colon == "：" else " -",
    "seam": lambda after: "—" + after,
}
_CLOSER = re.compile(rf"[^{SQUARE_OPEN}{ANGLE_OPEN}{BREAKS}]{{0,300}}?([{CLOSERS}])")


def sanitize(text: str) -> str:
    """Returns `text` with every forgery of structure disarmed: markers, template tokens, role labels, our own frames.

    Text without any is returned as it is. Linear in the length; sanitizing the result changes nothing more.
    """
    for number in range(_PASSES):
        changed = _disarm(text, excused=number < _EXCUSED_PASSES)
        if changed == text:
            break
        text = changed
    return text


def _disarm(text: str, excused: bool) -> str:
    """Returns `text` after one pass over all rules, excuses heard or not."""
    if text.isascii():
        usual = text.translate(_ASCII)
        unusual = len(usual) < len(text)
    else:
        # In UTF-8 all tag characters begin so; to look for them costs little, to replace them much.
        if b"\xf3\xa0" in text.encode("utf-8", "surrogatepass"):
            text = _TAGS.sub(lambda found: found[1] or "", text)
        usual, count = _UNUSUAL.subn(lambda found: found[0].translate(_rough), text)
        usual, unusual = usual.lower(), count > 0
    if not suspect("\n" + usual):
        return text
    if unusual:
        folded = view(text)
        shown, origin = "\n" + folded.text, folded.origin
        plain = "\n" + folded.text.translate(skeleton)
    else:
        shown, origin, plain = "\n" + text, range(len(text)), "\n" + usual
    edits: dict[int, str] = {}
    for rule in RULES:
        for found in rule.pattern.finditer(plain):
            if rule.caps and _quiet(shown[slice(*found.span(rule.caps))]):
                continue
            if not (excused and rule.excuse and EXCUSES[rule.excuse](shown, found)):
                _mark(rule, found, plain, edits)
    pieces, done = [], 0
    for at, part in sorted((origin[at - 1], part) for at, part in edits.items()):
        if at >= done:
            pieces += [text[done:at], _INSTEAD[part](text[at])]
            done = at + 1
    return "".join([*pieces, text[done:]]) if edits else text


def _quiet(word: str) -> bool:
    """Whether a word is written as prose and headings write it: in lower case, or with a capital at its start."""
    return word[1:].islower()


def _mark(rule: Rule, found: re.Match[str], plain: str, edits: dict[int, str]) -> None:
    """Notes the characters of a match that lose their force, by the group that names them."""
    for part in rule.parts:
        start, end = found.span(part)
        if start >= 0:
            edits[start] = part
        for at in range(start + 1, end):
            edits[at] = part
    if rule.unclosed and (closer := _CLOSER.match(plain, found.end("open"))):
        edits[closer.start(1)] = "close"
