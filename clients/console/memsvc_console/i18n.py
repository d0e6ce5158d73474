"""What the pages say: which of the two languages a reader gets, and how a number changes a sentence."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Literal, cast

from memsvc_console.texts import TEXTS

Language = Literal["zh", "en"]
LANGUAGES: tuple[Language, ...] = ("zh", "en")
DEFAULT: Language = "en"

_TAG = re.compile(r"\s*([A-Za-z]{1,8})(?:-[A-Za-z0-9-]{1,32})?\s*(?:;\s*q\s*=\s*([01](?:\.[0-9]{0,3})?))?\s*")


def is_language(text: str) -> bool:
    """Says whether a text names one of the two."""
    return text in LANGUAGES


def choose(chosen: str, accept: str) -> Language:
    """The language that the person chose, or else the one that their browser prefers (`Accept-Language`)."""
    if chosen in LANGUAGES:
        return chosen
    best: tuple[float, Language] = (0.0, DEFAULT)
    for part in accept[:1000].split(","):
        found = _TAG.fullmatch(part)
        if found and (tag := found[1].lower()) in LANGUAGES and (weight := float(found[2] or 1)) > best[0]:
            best = (weight, cast(Language, tag))
    return best[1]


class Words:
    """The texts in one language. `words("memory.title")`, `words("memory.runs", n=3)`."""

    def __init__(self, language: Language, texts: Mapping[str, tuple[str, str]] = TEXTS) -> None:
        self.language = language
        self._column = LANGUAGES.index(language)
        self._texts = texts

    def __call__(self, key: str, **values: object) -> str:
        """The text of a key, with `{name}` filled in. An English text of two forms ("one|other") goes by `n`."""
        text = self._texts[key][self._column]
        if "n" in values and "|" in text:
            one, other = text.split("|", 1)
            text = one if values["n"] == 1 else other
        return text.format(**values) if values else text

    def get(self, key: str, other: str, **values: object) -> str:
        """The text of a key that need not exist: that of `other` where it does not."""
        return self(key if key in self._texts else other, **values)
