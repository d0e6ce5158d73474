"""The block that GetContext returns, taken apart for the eye: every character of it in a piece, every piece with its
kind and, where the daemon names one, its source.

Reads the structure and no words, so that a language or a wording of a later daemon is shown as well. It rests on what
the daemon promises: in a section no line begins with quoted text, but each with a mark, or with `> ` where quoted text
goes on. Where a section is not built as promised its pieces are shown without sources rather than with wrong ones.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from memsvc_client import Context, Section, SectionKind, Source

CONTINUED = ">"
SPOKEN = "‹"
MARK = re.compile(r"‹[^›\n]*› ?|- ?|> ?")
HEADING = re.compile(r"（[^）\n]*）|\([^)\n]*\) ?")
UNSEEN = (
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u180e\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f\ufeff"
    r"\U000e0000-\U000e007f]"
)
"""What shows nothing, or turns its neighbours round. Joiners are left out: emoji are made with them."""
ODD = re.compile(rf"…\((?:略 \d+ 字|\d+ characters omitted)\)…|{UNSEEN}+")

NAMES = {
    SectionKind.CORE: "core",
    SectionKind.THREAD: "thread",
    SectionKind.RECALL: "recall",
    SectionKind.KNOWLEDGE: "knowledge",
}


class Kind(StrEnum):
    """What a piece is. All but the first three quote somebody."""

    FRAME = "frame"
    """A line that is the daemon's own: it opens or closes a section, or hands over to the user's words."""
    LABEL = "label"
    """A heading within a section."""
    DATE = "date"
    """The day of a recalled run."""
    FACT = "fact"
    SUMMARY = "summary"
    INPUT = "input"
    OUTPUT = "output"
    KNOWLEDGE = "knowledge"
    OTHER = "other"
    """Of a section that this console does not know, or that is not built as promised."""


@dataclass(frozen=True, slots=True)
class Piece:
    """One or more whole lines with their line feeds. `source` is None where the daemon names none."""

    text: str
    kind: Kind
    source: Source | None = None


@dataclass(frozen=True, slots=True)
class Span:
    """Some characters of a line. `style`: "mark" (the daemon's, before quoted text), "cut" (where a middle was left
    out), "unseen" (characters that show nothing), "text".
    """

    style: str
    text: str

    @property
    def codes(self) -> str:
        """The first characters by their numbers, as U+202E, and how many more there are."""
        named = " ".join(f"U+{ord(c):04X}" for c in self.text[:3])
        return named if len(self.text) <= 3 else f"{named} +{len(self.text) - 3}"


@dataclass(frozen=True, slots=True)
class Part:
    """A section of the block and its pieces; `name` is "core", "thread", "recall", "knowledge", "end" or "other".

    The part called "end" is the line that hands over to the user's words; no section holds it.
    """

    name: str
    pieces: tuple[Piece, ...]
    section: Section | None = None

    @property
    def text(self) -> str:
        """What the part takes of the block's text."""
        return "".join(piece.text for piece in self.pieces)

    @property
    def groups(self) -> tuple[tuple[Piece, ...], ...]:
        """The pieces, those of one source that stand together as one group."""
        found: list[list[Piece]] = []
        for piece in self.pieces:
            if found and piece.source is not None and found[-1][-1].source == piece.source:
                found[-1].append(piece)
            else:
                found.append([piece])
        return tuple(map(tuple, found))


@dataclass(frozen=True, slots=True)
class Share:
    """What a part takes of the budget, in tokens. `limit` is None for what has no limit of its own.

    `name` is a part's, or "reserved", or "free". `omitted` and `truncated` are what the section says of itself.
    """

    name: str
    tokens: int
    limit: int | None = None
    omitted: int = 0
    truncated: bool = False


def parts(context: Context) -> tuple[Part, ...]:
    """Takes the block apart. The texts of the parts, joined, are exactly `context.text`."""
    found: list[Part] = []
    rest = context.text
    for section in context.sections:
        if not section.text or not rest.startswith(section.text):
            break
        end = len(section.text) + rest.startswith("\n", len(section.text))
        text, rest = rest[:end], rest[end:]
        found.append(Part(NAMES.get(section.kind, "other"), _pieces(text, section), section))
    if rest:
        # Behind the last section stands one line. More than that is not what was promised.
        whole = len(found) == len(context.sections) and "\n" not in rest
        found.append(Part("end" if whole else "other", (Piece(rest, Kind.FRAME if whole else Kind.OTHER),)))
    return tuple(found)


def shares(context: Context, reserved: int = 0) -> tuple[Share, ...]:
    """How the budget is spent: what is reserved, each section, the closing line, and what is left.

    The tokens add up to the larger of `token_limit` plus `reserved` and what is spent.
    """
    spent = [
        Share(NAMES.get(s.kind, "other"), s.token_count, s.token_limit, s.omitted_count, s.truncated)
        for s in context.sections
    ]
    in_sections = sum(share.tokens for share in spent)
    found = [Share("reserved", reserved), *spent, Share("end", max(0, context.token_count - in_sections))]
    found.append(Share("free", max(0, context.token_limit - max(context.token_count, in_sections))))
    return tuple(share for share in found if share.tokens)


def spans(piece: Piece) -> tuple[Span, ...]:
    """Parts a piece by what its characters are. The texts, joined, are exactly the piece's."""
    found: list[Span] = []
    for number, line in enumerate(piece.text.splitlines(keepends=True)):
        mark = "" if piece.kind is Kind.FRAME else _mark(line, piece.kind, first=number == 0)
        if mark:
            found.append(Span("mark", mark))
        rest, position = line[len(mark) :], 0
        for odd in ODD.finditer(rest):
            found.append(Span("text", rest[position : odd.start()]))
            found.append(Span("cut" if odd[0][0] == "…" else "unseen", odd[0]))
            position = odd.end()
        found.append(Span("text", rest[position:]))
    return tuple(span for span in found if span.text)


def _mark(line: str, kind: Kind, first: bool) -> str:
    """What the daemon put before the quoted text of a line."""
    heading = HEADING.match(line) if first and kind is Kind.SUMMARY else None
    found = heading or MARK.match(line)
    return found[0] if found else ""


def _pieces(text: str, section: Section) -> tuple[Piece, ...]:
    lines = text.splitlines(keepends=True)
    if len(lines) < 3:
        return tuple(Piece(line, Kind.FRAME) for line in lines)
    opening, *content, closing = lines
    read = {
        SectionKind.CORE: _core,
        SectionKind.THREAD: _thread,
        SectionKind.RECALL: _recall,
        SectionKind.KNOWLEDGE: _knowledge,
    }.get(section.kind, _other)
    return (
        Piece(opening, Kind.FRAME),
        *read(list(_utterances(content)), section.sources),
        Piece(closing, Kind.FRAME),
    )


def _utterances(lines: Sequence[str]) -> Iterator[str]:
    """Joins each line that begins with a mark with the lines that continue it."""
    held = ""
    for line in lines:
        if held and not line.startswith(CONTINUED):
            yield held
            held = ""
        held += line
    if held:
        yield held


def _core(said: Sequence[str], sources: Sequence[Source]) -> list[Piece]:
    pieces = [Piece(text, Kind.FACT) for text in said]
    if len(sources) != len(pieces):
        return pieces
    return [replace(piece, source=source) for piece, source in zip(pieces, sources, strict=True)]


def _thread(said: Sequence[str], sources: Sequence[Source]) -> list[Piece]:
    """The summary, a label, and the runs: two utterances each. The label is what stands right before them."""
    spoken = [text.startswith(SPOKEN) for text in said]
    pieces: list[Piece] = []
    halves = 0
    for i, text in enumerate(said):
        if spoken[i]:
            source = _of(sources, halves // 2, halved=sum(spoken))
            pieces.append(Piece(text, Kind.OUTPUT if halves % 2 else Kind.INPUT, source))
            halves += 1
        elif i + 1 < len(said) and spoken[i + 1]:
            pieces.append(Piece(text, Kind.LABEL))
        else:
            pieces.append(Piece(text, Kind.SUMMARY))
    return pieces


def _recall(said: Sequence[str], sources: Sequence[Source]) -> list[Piece]:
    """Episodes: a day, an input, an output."""
    kinds = (Kind.DATE, Kind.INPUT, Kind.OUTPUT)
    if len(said) != 3 * len(sources):
        return _other(said, sources)
    return [Piece(text, kinds[i % 3], sources[i // 3]) for i, text in enumerate(said)]


def _knowledge(said: Sequence[str], _: Sequence[Source]) -> list[Piece]:
    return [Piece(text, Kind.KNOWLEDGE) for text in said]


def _other(said: Sequence[str], _: Sequence[Source]) -> list[Piece]:
    return [Piece(text, Kind.OTHER) for text in said]


def _of(sources: Sequence[Source], index: int, halved: int) -> Source | None:
    """The source of a run that is shown in two halves; None where halves and sources do not match."""
    return sources[index] if halved == 2 * len(sources) else None
