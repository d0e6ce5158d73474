"""The passage of a past run that bears most on a query: what a person looks at to see why it was found."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator

from memsvc.rules.terms import count_terms

SNIPPET_CHARACTERS = 200
SEARCHED_CHARACTERS = 65_536

_BREAK = re.compile(r"[。！？；!?;…\n]+|[.](?=\s)")


def snippet(texts: Collection[str], terms: Collection[str]) -> str:
    """Returns the passage, at most 200 characters on one line, with most of the query's distinct terms.

    Of equal ones the first; where no passage has any term, the beginning. Looks at the first 65,536 characters of
    each text.
    """
    wanted = frozenset(terms)
    best, most = "", -1
    for text in texts:
        for passage in _passages(text[:SEARCHED_CHARACTERS]):
            found = len(wanted & count_terms(passage).keys())
            if found > most:
                best, most = passage, found
    return best


def _passages(text: str) -> Iterator[str]:
    """Sentences, each joined by those behind it while they fit; one too long is taken in pieces."""
    start = 0
    ends = [m.end() for m in _BREAK.finditer(text)] + [len(text)]
    held = 0
    for end in ends:
        if end - start > SNIPPET_CHARACTERS and held > start:
            yield _line(text[start:held])
            start = held
        while end - start > SNIPPET_CHARACTERS:
            yield _line(text[start : start + SNIPPET_CHARACTERS])
            start += SNIPPET_CHARACTERS
        held = end
    if text[start:].strip():
        yield _line(text[start:])


def _line(text: str) -> str:
    return " ".join(text.split())
