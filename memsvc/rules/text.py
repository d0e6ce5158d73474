"""A folded view of text that remembers where each of its characters stood.

Rules that look for something in text a hostile hand may have written (frames, red lines) look in the view and
act on the source: full width, ligatures and zero-width characters are gone in the one and untouched in the other.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

# Format, control, combining and unassigned-tag characters carry no letter of their own: whoever hides a marker
# between them counts on a reader that skips them, so the view skips them too. Variation selectors are Mn.
_DROPPED = frozenset({"Cf", "Cc", "Mn", "Me"})
_LAYOUT = frozenset("\t\n\r\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029")

REMEMBERED_CHARACTERS = 65_536
"""Characters whose folded form is kept: more than any language writes, fewer than a hostile text can name."""


@dataclass(frozen=True, slots=True)
class View:
    """Folded text; `origin[i]` is the index in the source of the character that `text[i]` came from."""

    text: str
    origin: Sequence[int]
    source_length: int

    def span(self, start: int, end: int) -> tuple[int, int]:
        """Returns the half-open span of the source that view characters `start` to `end` (not empty) came from.

        What was dropped inside the span belongs to it; what was dropped behind its last character does not.
        """
        return self.origin[start], self.origin[end - 1] + 1


class _Fold(dict[str, str]):
    """One character's folded form, computed once. NFKC by character: no composition across characters."""

    def __missing__(self, char: str) -> str:
        folded = "".join(
            c for c in unicodedata.normalize("NFKC", char) if c in _LAYOUT or unicodedata.category(c) not in _DROPPED
        )
        if len(self) < REMEMBERED_CHARACTERS:
            self[char] = folded
        return folded


_fold = _Fold()


def view(text: str) -> View:
    """Returns `text` under NFKC without characters that show nothing; linear in its length. Case is kept."""
    if text.isascii() and text.isprintable():
        return View(text, range(len(text)), len(text))
    parts = [_fold[c] for c in text]
    folded = "".join(parts)
    if len(folded) == len(text) and all(parts):
        return View(folded, range(len(text)), len(text))
    origin = [i for i, part in enumerate(parts) for _ in part]
    return View(folded, origin, len(text))
