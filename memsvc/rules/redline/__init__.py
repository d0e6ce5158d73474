"""What may never be kept: identity numbers, accounts, contacts, marks and health, found before they become memory.

The same `find` refuses a fact (with the category, never the words) and blots a summary. It looks at folded text and
answers in places of the source. It errs towards the person: what is labelled as an ID number is one even with a wrong
digit; but an exam's specification, an order number and a disease as a topic are no secrets.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from memsvc.rules.redline import (
    complaints_en,
    complaints_zh,
    gates,
    health_en,
    health_zh,
    identifiers,
    marks_zh,
    numbers,
    scores_en,
    scores_zh,
)
from memsvc.rules.redline.page import Finding, Gate, Page, read, squeezed

__all__ = ["CATEGORIES", "Finding", "category", "find", "placeholder", "redact"]

# Category -> what a reader of a summary is told in its place, Chinese and English.
_TOLD = {
    "resident_id": ("证件号码", "identity number"),
    "passport": ("证件号码", "identity number"),
    "ssn": ("证件号码", "identity number"),
    "itin": ("证件号码", "identity number"),
    "nino": ("证件号码", "identity number"),
    "nhs": ("证件号码", "identity number"),
    "aadhaar": ("证件号码", "identity number"),
    "bank_card": ("银行账户", "bank account"),
    "iban": ("银行账户", "bank account"),
    "phone": ("联系方式", "contact details"),
    "email": ("联系方式", "contact details"),
    "score": ("学生成绩", "grades"),
    "health": ("健康信息", "health"),
}
CATEGORIES = frozenset(_TOLD)

_Rule = Callable[[Page], Iterator[Finding]]
_HAN = re.compile(r"[\u4e00-\u9fff]")
_LATIN = re.compile(r"[A-Za-z]{3}")
_ROUNDS_MAX = 4
# Characters of suspicious sentences that a rule reads in one text. Facts and summaries are ten times shorter and more.
_READ_MAX = 25_000
_BETWEEN = re.compile(r"\s{0,2}(?:[、,，;；|和及]|and\b)?\s{0,2}")


def placeholder(category: str, locale: str) -> str:
    """Returns what stands for a finding of `category`: Chinese for locales that begin with `zh`, else English."""
    zh, en = _TOLD[category]
    return f"(涉及{zh}，略)" if locale.lower().startswith("zh") else f"({en} omitted)"


_PLACEHOLDERS = sorted({placeholder(c, locale) for c in _TOLD for locale in ("zh", "en")})
_OURS = re.compile("|".join(map(re.escape, _PLACEHOLDERS)))


def find(text: str) -> list[Finding]:
    """Returns what may not be kept in `text`, by place; spans are of `text` and may overlap across categories.

    Placeholders of ours are ends of sentences: nothing is found in them, and what stands before one says nothing of
    what stands behind. Linear in the length of `text`; never raises.
    """
    walled = _OURS.sub(lambda ours: "\n" * len(ours[0]), text)
    return sorted(_find_in(walled), key=lambda f: (f.start, -f.end, f.category))


def category(text: str) -> str | None:
    """Returns the category of the first finding in `text`, None when all of it may be kept."""
    found = find(text)
    return found[0].category if found else None


def redact(text: str, locale: str) -> str:
    """Returns `text` with each finding replaced by its placeholder in `locale`; nothing is found in the answer.

    Redacting twice equals redacting once. Findings of one kind with only a comma or a space between become one.
    """
    found = find(text)
    for _ in range(_ROUNDS_MAX):
        if not found:
            return text
        parts: list[str] = []
        at = 0
        for finding in _merged(text, found):
            # A finding may begin with the blank that parts it from the words before; the reader needs it.
            kept = finding.start + (text[finding.start] == " ")
            parts += (text[at:kept], placeholder(finding.category, locale))
            at = finding.end
        text = "".join(parts) + text[at:]
        # A cut may lay open what its neighbour had hidden, so what is left is looked through again.
        found = find(text)
    return placeholder(found[0].category, locale) if found else text


def _merged(text: str, found: list[Finding]) -> list[Finding]:
    """Joins findings that overlap, and those of one kind that only a separator parts."""
    merged = found[:1]
    for finding in found[1:]:
        last = merged[-1]
        gap = text[last.end : finding.start]
        same = _TOLD[last.category] == _TOLD[finding.category]
        if finding.start < last.end or (same and _BETWEEN.fullmatch(gap)):
            merged[-1] = Finding(last.category, last.start, max(last.end, finding.end))
        else:
            merged.append(finding)
    return merged


def _find_in(text: str) -> Iterator[Finding]:
    """Asks each kind of rule about the sentences that could have anything for it."""
    page = read(text)
    yield from numbers.find(page)
    yield from identifiers.find(page)
    if _HAN.search(page.text):
        close = squeezed(page)
        for chinese in (page, close) if close else (page,):
            yield from _told(chinese, "score", (scores_zh.find, marks_zh.find), gates.SCORES_ZH)
            yield from _told(chinese, "health", (health_zh.find, complaints_zh.find), gates.HEALTH_ZH)
    if _LATIN.search(page.text):
        yield from _told(page, "score", (scores_en.find, scores_en.find_told), gates.SCORES_EN)
        yield from _told(page, "health", (health_en.find,), gates.HEALTH_EN)
        yield from _told(page, "health", (complaints_en.find,), gates.COMPLAINTS_EN)


def _told(page: Page, category: str, rules: tuple[_Rule, ...], looks: tuple[Gate, ...]) -> Iterator[Finding]:
    """Reads what passes the gates until there was too much of it; what is left from there on counts as found."""
    left = _READ_MAX
    for stretch in page.stretches(*looks):
        if left <= 0:
            first = stretch.finding(category, 0, 1)
            last = page.finding(category, len(page.text) - 1, len(page.text))
            yield Finding(category, first.start, last.end)
            return
        for rule in rules:
            yield from rule(stretch)
        left -= len(stretch.text)
