"""The builtin summarizer: what every thread has when no model may or can fold it. It only ever quotes: a
line a turn, what was asked → what came of it, in the words of the conversation; the newest in some detail,
the oldest in a few words, none twice. Equal input gives equal bytes, and what fits is never touched again.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import regex

from memsvc.model import RunOutcome
from memsvc.rules.frames import Frames, frames

# Sizes are estimated in quarters of a token (`_size`), so that the tokenizer is asked only about whole pages.
_QUARTERS = 4
_ASK_ROOM = 100 * _QUARTERS
_ANSWER_ROOM = 200 * _QUARTERS
_ITEM_ROOM = 24 * _QUARTERS
_LEAST_ROOM = 10 * _QUARTERS
"""What the oldest line keeps: about eight Chinese characters or seven English words."""
_ASK_ALONE_ROOM = 2 * _LEAST_ROOM
_WINDOW = 6_000
"""Characters of an answer that are looked at, from its start; a gist needs no more."""
_TRIES = 6

_ARROW = " → "
_LEGENDS = {
    "zh": "（每行一轮，旧的在前：用户所问 → 所得回答）",
    "en": "(one turn a line, oldest first: what the user asked → what came of it)",
}
_OMITTED = {"zh": ("（更早的 ", " 行从略）"), "en": ("(", " earlier lines left out)")}
_CODE = {"zh": ("（代码：", "）"), "en": ("(code: ", ")")}

_SENTENCE_END = re.compile(r"[。！？!?…]+[”’」』）)\"']*|[；;]|\.(?=\s|$)")
_ITEM = re.compile(r"(?:[-*+•·▪]|\(?\d{1,3}[.)）、．]|（\d{1,3}）|[一二三四五六七八九十]{1,3}、)\s*")
_HEADING = re.compile(r"#{1,6}\s+|>\s+")
_OPENER = re.compile(
    r"(?:好的|好|当然可以|当然|没问题|收到|明白了|明白|sure|of course|certainly|absolutely|okay|ok|got it|"
    r"no problem|great question|good question)\s{0,3}[，,。.！!～~—]{1,3}\s*",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Turn:
    """A run that is folded; its texts have passed the sanitizer."""

    input: str
    output: str
    outcome: RunOutcome = RunOutcome.COMPLETED


class _Line(NamedTuple):
    """One line of a summary: a turn, or a sentence of somebody else's summary, which has no answer."""

    ask: str
    answer: str

    @property
    def text(self) -> str:
        return f"{self.ask}{_ARROW}{self.answer}" if self.answer else self.ask


def summarize(previous: str, turns: Sequence[Turn], count: Callable[[str], int], limit: int, locale: str) -> str:
    """Returns the summary of what `previous` sums up and then `turns`, of at most `limit` tokens by `count`.

    `previous` may be a summary of ours or a model's. Every turn keeps a line while there is room for a few
    words each; beyond that the oldest lines go, and how many is said. `locale`, one of `frames.LOCALES`, is
    the conversation's language. The result is as trusted as the texts that went in, and no more: sanitize
    it before it is shown. Linear in the texts; `count` is called a handful of times, on pages of about
    `limit` tokens.
    """
    if not turns and count(previous) <= limit:
        return previous
    shown = frames(locale)
    lines, omitted = _parse(previous)
    most = max(0, limit) * _QUARTERS // _LEAST_ROOM + 1
    omitted += max(0, len(turns) - most)
    lines += [line for turn in turns[-most:] if (line := _line(turn, shown)).text]
    page = _page([line.text for line in lines], omitted, locale)
    if _size(page) <= 2 * limit * _QUARTERS and count(page) <= limit:
        return page
    return _fitted([part for line in lines for part in _parts(line)], omitted, count, limit, locale)


def _parse(summary: str) -> tuple[list[_Line], int]:
    """Reads a summary back, by lines alone, and how many lines it said were left out."""
    lines, omitted = [], 0
    for raw in summary.splitlines():
        text = raw.strip()
        if not text or text in _LEGENDS.values():
            continue
        counted = _left_out(text)
        if counted:
            omitted += counted
            continue
        ask, _, answer = text.partition(_ARROW)
        lines.append(_Line(ask, answer))
    return lines, omitted


def _left_out(line: str) -> int:
    for before, after in _OMITTED.values():
        number = line.removeprefix(before).removesuffix(after)
        if line == f"{before}{number}{after}" and number.isdecimal() and len(number) <= 9:
            return int(number)
    return 0


def _page(texts: Iterable[str], omitted: int, locale: str) -> str:
    texts = list(texts)
    before, after = _OMITTED[locale]
    head = [_LEGENDS[locale]] if any(_ARROW in text for text in texts) else []
    head += [f"{before}{omitted}{after}"] if omitted else []
    return "\n".join(head + texts)


def _parts(line: _Line) -> list[_Line]:
    """A paragraph that is not ours stands for many turns, so that its sentences shrink as lines of their
    own.
    """
    if line.answer or _size(line.ask) <= _ITEM_ROOM:
        return [line]
    return [_Line(sentence, "") for sentence in _sentences(line.ask)]


def _fitted(lines: list[_Line], omitted: int, count: Callable[[str], int], limit: int, locale: str) -> str:
    """Shrinks lines until the page takes at most `limit` tokens, and most of them.

    The estimate is corrected by what the page turned out to take, a few times.
    """
    best, room = "", max(0, limit) * _QUARTERS
    tries = 0
    while room > 0 and (tries < _TRIES or not best):
        tries += 1
        kept = lines[-max(1, room // _LEAST_ROOM) :]
        page = _page(_shrunk(kept, room), omitted + len(lines) - len(kept), locale)
        tokens = count(page)
        if tokens > limit:
            room = min(room * limit // tokens, room * 19 // 20) if tries <= _TRIES else room // 2
            continue
        best = max(best, page, key=len)
        if tokens * 20 >= limit * 19:
            break
        room = max(room + 1, room * limit // max(1, tokens) * 49 // 50)
    return best


def _shrunk(lines: Sequence[_Line], room: int) -> list[str]:
    """Draws the lines into `room`: each has a right to a few words and to a share that falls with its age.

    What a short line does not use goes to the others.
    """
    sizes = [_size(line.text) + _QUARTERS for line in lines]
    weights = [10_000 // (_QUARTERS + age) for age in reversed(range(len(lines)))]

    def grants(level: int) -> list[int]:
        return [min(size, _LEAST_ROOM + level * weight // 10_000) for size, weight in zip(sizes, weights, strict=True)]

    low, high = 0, max(sizes, default=0) * (len(lines) + _QUARTERS)
    while low < high:
        middle = (low + high + 1) // 2
        if sum(grants(middle)) <= room:
            low = middle
        else:
            high = middle - 1
    return [_drawn(line, grant - _QUARTERS) for line, grant in zip(lines, grants(low), strict=True)]


def _drawn(line: _Line, room: int) -> str:
    """One line in `room`: what was asked goes before the answer, and stands alone where both would be stumps.

    One word that was asked ("go on") says nothing alone and leaves room.
    """
    if _size(line.text) <= room:
        return line.text
    asked = _size(line.ask)
    if not line.answer or (room < _ASK_ALONE_ROOM and asked * 2 > room):
        return _cut(line.ask, room)
    room -= _size(_ARROW)
    ask = _cut(line.ask, max(room * 11 // 20, room - _size(line.answer)))
    return _Line(ask, _cut(line.answer, room - _size(ask))).text


def _line(turn: Turn, shown: Frames) -> _Line:
    """A turn at its longest: what was asked, and the gist of the answer."""
    ask = _asked(turn.input)
    if turn.outcome is RunOutcome.FAILED:
        return _Line(ask, shown.failed_turn)
    gist = _gist(turn.output, shown.locale)
    if turn.outcome is RunOutcome.CANCELLED:
        # In front, where no cut reaches it: half an answer must not pass for a whole one.
        gist = f"{shown.stopped_turn} {gist}".rstrip()
    return _Line(ask, gist)


def _asked(text: str) -> str:
    """The input on one line; of a long one its first and its last sentence, between which material was
    pasted.
    """
    flat = _flat(text)
    if _size(flat) <= _ASK_ROOM:
        return flat
    first, *others = _sentences(flat)
    half = _ASK_ROOM // 2
    return " ".join([_cut(first, half), *(_cut(last, half) for last in others[-1:])])


def _gist(text: str, locale: str) -> str:
    """An answer's sentences in their order, lists as their items' heads, code as its first line, as far as
    there is room; the politeness in front of it left out.
    """
    before, after = _CODE[locale]
    parts: list[str] = []
    in_code = code_shown = False
    for raw in text[:_WINDOW].splitlines():
        line = raw.strip()
        if line.startswith(("```", "~~~")):
            in_code, code_shown = not in_code, False
        elif in_code:
            if line and not code_shown:
                parts.append(f"{before}{_cut(line, _ITEM_ROOM)}{after}")
                code_shown = True
        elif line:
            parts += _prose(line)
        if sum(map(len, parts)) > _ANSWER_ROOM:
            break
    return _cut(_without_opener(_flat(" ".join(parts))), _ANSWER_ROOM)


def _prose(line: str) -> list[str]:
    """One line without its Markdown; of a list's item the head, of a table's row the cells."""
    if not line.strip("|-:=_*+ "):
        return []
    plain = line.replace("**", "").replace("`", "").strip("| ").replace("|", " ")
    heading = _HEADING.match(plain)
    if heading:
        return [plain[heading.end() :] + "："] if _wide(plain) else [plain[heading.end() :] + ":"]
    item = _ITEM.match(plain)
    if not item:
        return [plain]
    body = plain[item.end() :]
    head = min((n for n in (body.find(c) for c in "：:—") if n > 0), default=len(body))
    gist = _cut(body[:head], _ITEM_ROOM).rstrip(" 。．.；;，,")
    return [gist if gist.endswith(_SENTENCE_ENDS) else gist + ("；" if _wide(body) else ";")]


def _without_opener(text: str) -> str:
    """Drops 好的， and Sure! where something follows."""
    opener = _OPENER.match(text)
    return text[opener.end() :] or text if opener else text


def _flat(text: str) -> str:
    return " ".join(text.split())


def _wide(text: str) -> bool:
    return any("\u3000" <= char <= "\u9fff" for char in text)


def _sentences(text: str) -> list[str]:
    """Splits at what ends a sentence in Chinese or English; nothing is lost but blanks. Linear."""
    found, start = [], 0
    for end in _SENTENCE_END.finditer(text):
        found.append(text[start : end.end()].strip())
        start = end.end()
    return [sentence for sentence in (*found, text[start:].strip()) if sentence]


def _size(text: str) -> int:
    """Estimates the quarters of a token that `text` takes: a Latin letter one, a Chinese character five."""
    return len(text) if text.isascii() else len(text) + 4 * sum(char > "\u024f" for char in text)


_PAUSES = frozenset(" ，,；;、：:。！？!?")
_SENTENCE_ENDS = ("。", "！", "？", "!", "?")


def _cut(text: str, room: int) -> str:
    """The start of `text` in `room`, between user-perceived characters, at a pause if one is near and in no
    Latin word; `…` says where it breaks off within a sentence. Text that fits is left as it is.
    """
    if _size(text) <= room:
        return text
    room -= _size("…")
    end = pause = used = 0
    for piece in regex.finditer(r"\X", text):
        used += _size(piece[0])
        if used > room:
            break
        end = piece.end()
        if piece[0] in _PAUSES:
            pause = end
    if end < len(text) and text[end] in _PAUSES:
        pause = end
    in_word = 0 < end < len(text) and text[end - 1 : end + 1].isascii() and text[end - 1 : end + 1].isalnum()
    kept = text[: pause if pause * 3 >= end * 2 or (in_word and pause) else end].rstrip()
    if kept.endswith((*_SENTENCE_ENDS, ".")):
        return kept
    kept = kept.rstrip(" ，,；;、：:…")
    return f"{kept}…" if kept else ""
