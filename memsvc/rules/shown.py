"""How one run is shown to a model: sanitized, short enough, with a hole in the middle where it was too long.

A run is prepared once, when it is recorded, and the result is kept beside it: no later call sanitizes it, counts it
or reads its megabyte again. What is kept is derived; `renderer_id` tells whether the running code derived it.
"""

from __future__ import annotations

import datetime
import json
import re
import unicodedata
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any
from zoneinfo import ZoneInfo

import regex

from memsvc.model import RunOutcome
from memsvc.rules.boundary import sanitize
from memsvc.rules.budget import GIST_INPUT_LIMIT, GIST_OUTPUT_LIMIT, RECENT_LIMIT, Meter
from memsvc.rules.frames import Frames, lay_out
from memsvc.rules.frames import frames as frames_of
from memsvc.rules.tags import disown

RENDERER_VERSION = 1
"""Raise it whenever the sanitizer, the marks or the cut change: kept forms are then made anew when read."""

CHARACTERS_PER_TOKEN = 16
"""What a text is cut to before anything is counted: four times what a token holds in prose, for long tokens."""

REMEMBERED_CUTS = 512
"""How many cut texts are remembered, of at most what the recent runs share each: a few megabytes."""

TITLE_LENGTH = 40
TITLE_WINDOW = 4_000
"""Characters that a title is drawn from: enough for 40 of any length a person perceives as one."""

_HAN = re.compile("[\u3400-\u9fff\U00020000-\U0003ffff]")


@dataclass(frozen=True, slots=True)
class ShownText:
    """Sanitized text; where `omitted` is not 0, that many characters are missing between its two ends."""

    before: str
    omitted: int = 0
    after: str = ""

    def joined(self, frames: Frames) -> str:
        """Returns the text on one string, the hole named in the language of the frames."""
        return self.before + frames.omitted(self.omitted) + self.after if self.omitted else self.before


@dataclass(frozen=True, slots=True)
class Line:
    """A text, and the tokens of the lines that show it."""

    text: ShownText
    tokens: int


@dataclass(frozen=True, slots=True)
class Shown:
    """A run's texts as its thread shows them, and their gist as recall does; counted in `locale`'s frames."""

    locale: str
    input: Line
    output: Line
    gist_input: Line
    gist_output: Line

    @property
    def gist(self) -> tuple[ShownText, ShownText]:
        """What recall shows; of two runs with the same, one tells it all."""
        return self.gist_input.text, self.gist_output.text


def renderer_id(meter: Meter) -> int:
    """Names the renderer and tokenizer that a kept `Shown` depends on."""
    return zlib.crc32(f"{RENDERER_VERSION}/{meter.name}".encode())


def script(text: str) -> str:
    """Returns 'zh' where at least one letter in four is Chinese, else 'en'. Looks at the first 2,000 characters."""
    start = text[:2000]
    han = len(_HAN.findall(start))
    letters = sum(map(str.isalpha, start))
    return "zh" if han and han * 4 >= letters else "en"


def clip(text: str, limit: int) -> ShownText:
    """Sanitizes `text` and bounds its length to what `limit` tokens can hold; linear in the limit, not the text."""
    window = limit * CHARACTERS_PER_TOKEN
    if len(text) <= 2 * window:
        return ShownText(sanitize(text))
    head, tail = text[:window], text[-window:]
    return ShownText(sanitize(head), len(text) - 2 * window, sanitize(tail))


def cut(text: ShownText, limit: int, draw: Callable[[ShownText], str], meter: Meter) -> Line | None:
    """Opens (or widens) the hole of `text` until `draw(text)` takes at most `limit` tokens; None where none can.

    Both ends keep about equally much.
    """
    return shorten(Line(text, meter.count(draw(text))), limit, draw, meter)


def shorten(line: Line, limit: int, draw: Callable[[ShownText], str], meter: Meter) -> Line | None:
    """Does what `cut` does for a line that has been counted; costs nothing where it fits.

    How many characters to keep follows from how many a token holds in this text, so that an attempt is one count. Ends
    that are denser than the middle take another attempt, and thinner ones get the room that they left.
    """
    if line.tokens <= limit:
        return line
    length = len(line.text.before) + line.text.omitted + len(line.text.after)
    bare = ShownText("", length)
    bare_tokens = meter.count(draw(bare))
    kept = (limit - bare_tokens) * (len(line.text.before) + len(line.text.after)) // line.tokens
    fitting, grown = None, False
    while kept > 0:
        ends = _ends(line.text, kept, length)
        tokens = meter.count(draw(ends))
        if tokens > limit:
            if fitting:
                break
            # In proportion: a text of many short lines takes far more when every line has its mark.
            kept = min(kept - 1, kept * limit // tokens * 31 // 32)
            continue
        fitting = Line(ends, tokens)
        if grown or tokens * 8 >= limit * 7:
            break
        kept, grown = min(kept * limit // tokens * 31 // 32, length - 1), True
    if fitting:
        return fitting
    return Line(bare, bare_tokens) if bare_tokens <= limit else None


def fit_run(
    shown: Shown, outcome: RunOutcome, input_limit: int, output_limit: int, meter: Meter
) -> tuple[Line | None, Line | None]:
    """Returns a run's two texts within their limits, None for one that cannot be shown at all.

    From turn to turn, and from one call to the next of the same turn, the same texts are cut to the same limits.
    """
    return (
        _fit(shown.input, input_limit, None, shown.locale, meter),
        _fit(shown.output, output_limit, outcome, shown.locale, meter),
    )


@lru_cache(REMEMBERED_CUTS)
def _fit(line: Line, limit: int, answered: RunOutcome | None, locale: str, meter: Meter) -> Line | None:
    frames = frames_of(locale)
    if answered is None:
        return shorten(line, limit, lambda t: draw_input(t, frames), meter)
    return shorten(line, limit, lambda t: draw_output(t, answered, frames), meter)


def prepare(own_input: str, output: str, outcome: RunOutcome, locale: str, meter: Meter) -> Shown:
    """Makes what is shown of a run: no text above what the recent runs share, counted in `locale`'s frames."""
    draw_input, draw_output = _drawers(outcome, locale)
    # A failed run's output is for people: a model that sees an error text works around it.
    answer = "" if outcome is RunOutcome.FAILED else output
    shown_input = _must(cut(clip(own_input, RECENT_LIMIT), RECENT_LIMIT, draw_input, meter))
    shown_output = _must(cut(clip(answer, RECENT_LIMIT), RECENT_LIMIT, draw_output, meter))
    gist_input, gist_output = shown_input, shown_output
    if outcome is RunOutcome.COMPLETED:  # nothing else is recalled
        gist_input = _must(shorten(shown_input, GIST_INPUT_LIMIT, draw_input, meter))
        gist_output = _must(shorten(shown_output, GIST_OUTPUT_LIMIT, draw_output, meter))
    return Shown(locale, shown_input, shown_output, gist_input, gist_output)


@lru_cache(REMEMBERED_CUTS)
def quoted(shown: Shown, outcome: RunOutcome, locale: str, tag: str, meter: Meter) -> Shown:
    """Returns `shown` as frames of `locale` that bear `tag` may quote it, tokens counted for them.

    That is `shown` itself where it is of that language and does not speak of the tag. Remembered, like the cuts.
    """
    lines = (shown.input, shown.output, shown.gist_input, shown.gist_output)
    texts = [ShownText(disown(t.before, tag), t.omitted, disown(t.after, tag)) for t in (line.text for line in lines)]
    if shown.locale == locale and all(text == line.text for text, line in zip(texts, lines, strict=True)):
        return shown
    draw_input, draw_output = _drawers(outcome, locale)

    def counted(text: ShownText, draw: Callable[[ShownText], str]) -> Line:
        return Line(text, meter.count(draw(text)))

    return Shown(
        locale,
        counted(texts[0], draw_input),
        counted(texts[1], draw_output),
        counted(texts[2], draw_input),
        counted(texts[3], draw_output),
    )


def draw_input(text: ShownText, frames: Frames) -> str:
    """Returns the lines that show an input."""
    return lay_out(frames.user_mark, text.joined(frames))


def draw_output(text: ShownText, outcome: RunOutcome, frames: Frames) -> str:
    """Returns the lines that show an output; a failed run's is a placeholder, a cancelled one's is marked."""
    if outcome is RunOutcome.FAILED:
        return lay_out(frames.assistant_mark, frames.failed_turn)
    ending = frames.stopped_turn if outcome is RunOutcome.CANCELLED else ""
    return lay_out(frames.assistant_mark, text.joined(frames) + ending)


def encode(shown: Shown, own_input: str, output: str) -> tuple[int, str]:
    """Returns `whole` (1: the input is shown as it is, 2: the output is) and the JSON of what is not derivable."""
    whole = (shown.input.text == ShownText(own_input)) | (shown.output.text == ShownText(output)) << 1
    kept = [
        shown.locale,
        *_packed(shown.input, bool(whole & 1)),
        *_packed(shown.output, bool(whole & 2)),
        *_packed(shown.gist_input, shown.gist_input == shown.input),
        *_packed(shown.gist_output, shown.gist_output == shown.output),
    ]
    return whole, json.dumps(kept, ensure_ascii=False, separators=(",", ":"))


def decode(kept: str, own_input: str, output: str) -> Shown:
    """Reads what `encode` wrote; the texts are looked at only where it found them shown as they are."""
    locale, *fields = json.loads(kept)
    shown_input = _unpacked(fields[0:2], ShownText(own_input))
    shown_output = _unpacked(fields[2:4], ShownText(output))
    return Shown(
        locale,
        shown_input,
        shown_output,
        _unpacked(fields[4:6], shown_input.text),
        _unpacked(fields[6:8], shown_output.text),
    )


def _packed(line: Line, derivable: bool) -> tuple[list[str | int] | None, int]:
    text = line.text
    return (None if derivable else [text.before, text.omitted, text.after]), line.tokens


def _unpacked(fields: list[Any], derived: ShownText) -> Line:
    return Line(derived if fields[0] is None else ShownText(*fields[0]), fields[1])


def _drawers(outcome: RunOutcome, locale: str) -> tuple[Callable[[ShownText], str], Callable[[ShownText], str]]:
    frames = frames_of(locale)
    return lambda t: draw_input(t, frames), lambda t: draw_output(t, outcome, frames)


def _must(line: Line | None) -> Line:
    assert line is not None, "a mark and a hole fit into every limit of a prepared run"
    return line


def _ends(text: ShownText, kept: int, length: int) -> ShownText:
    """Returns both ends of a text of `length` characters, about `kept` characters in all and never the whole of it."""
    last = text.after if text.omitted else text.before
    before = text.before[: kept - kept // 2]
    after = last[len(last) - min(kept // 2, len(last)) :]
    after = after[max(0, len(before) + len(after) + 1 - length) :]  # they do not meet: something is left out
    before, after = _whole_characters(before, after)
    return ShownText(before, length - len(before) - len(after), after)


def _whole_characters(before: str, after: str) -> tuple[str, str]:
    """Takes from the ends at the hole what belongs to a user-perceived character that lost its other half."""
    start = 0
    while start < len(after) and unicodedata.category(after[start]) in ("Mn", "Me", "Mc", "Cf"):
        start += 1
    return before.rstrip("\u200d"), after[start:]


@dataclass(frozen=True, slots=True)
class Renderer:
    """Prepares runs and reads them back, for one tokenizer."""

    meter: Meter
    renderer_id: int

    @classmethod
    def of(cls, meter: Meter) -> Renderer:
        """Returns the renderer that counts with `meter`."""
        return cls(meter, renderer_id(meter))

    def restore(self, renderer: int, kept: str, own_input: str, output: str, outcome: RunOutcome) -> Shown:
        """Returns what `encode` kept, or prepares it anew where another renderer had made it."""
        if renderer == self.renderer_id:
            return decode(kept, own_input, output)
        return prepare(own_input, output, outcome, script(own_input), self.meter)


def title(own_input: str) -> str:
    """Returns the title of a thread that begins with this input: its first 40 perceived characters, on one line."""
    start = own_input.lstrip()[:TITLE_WINDOW]
    line = " ".join("".join(c for c in start if c.isspace() or unicodedata.category(c) != "Cc").split())
    return "".join(regex.findall(r"\X", line)[:TITLE_LENGTH]).rstrip()


def day(time_us: int, zone: ZoneInfo) -> str:
    """Returns the day of a time in `zone`; one that no calendar holds is shown as the nearest it does."""
    seconds = min(max(time_us // 1_000_000, -62_135_510_400), 253_402_214_400)
    return datetime.datetime.fromtimestamp(seconds, zone).date().isoformat()
