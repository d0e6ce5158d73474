"""Identifiers of letters and digits: passports and travel documents, IBANs, tax and insurance codes, e-mail addresses.

Letters make a shape rarer than digits do, so most of these stand without a word beside them; a passport number does
not, because a part number looks the same.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from stdnum import iban

from memsvc.rules.redline.page import Finding, Page

_SERIAL = re.compile(
    r"(?<![A-Za-z0-9])(?:[A-Za-z]{1,3}[ -]?\d(?:[ -]?\d){5,9}+|\d{7,9}[A-Za-z]?|"
    r"[A-Za-z]\d[A-Za-z0-9]{6,7})(?![A-Za-z0-9])"
)
_TRAVEL_WORD = re.compile(
    r"护照|通行证|回乡证|台胞证|签证号|旅行证|军官证|士兵证|居留|永居|驾驶证|驾照|证件|passport|travel document|"
    r"driver'?s? licen[cs]e|driving licen[cs]e|\bvisa (?:no|num)|green card",
    re.IGNORECASE | re.ASCII,
)
_DIGITS = re.compile("[0-9](?:[^0-9]{0,4}[0-9]){4}")
_NOT_YET = re.compile(r"[,，。;；!?]")
_IBAN = re.compile(r"(?<![A-Za-z0-9])[A-Za-z]{2}\d{2}(?=[ -]?[A-Za-z0-9])")
_IBAN_BODY = re.compile(r"[A-Za-z0-9]+(?:[ -]?[A-Za-z0-9]+)*")
_NINO = re.compile(
    r"(?<![A-Za-z0-9])(?!(?:bg|gb|nk|kn|tn|nt|"
    r"zz))[abceghj-prstw-z][abceghj-nprstw-z][ -]?\d\d[ -]?\d\d[ -]?\d\d[ -]?[a-d]"
    r"(?![A-Za-z0-9])",
    re.IGNORECASE | re.ASCII,
)
_HK_ID = re.compile(r"(?<![A-Za-z0-9])[A-Z]{1,2}\d{6}\([0-9A]\)")
_TAIWAN_ID = re.compile(r"(?<![A-Za-z0-9])[A-Z][12]\d{8}(?![A-Za-z0-9])")
_TAIWAN_LETTERS = "ABCDEFGHJKLMNPQRSTUVXYWZIO"
_MAIL_LOCAL = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._%+\-]{0,62}[A-Za-z0-9_+\-])?\Z")
_MAIL_HOST = re.compile(r"(?:[A-Za-z0-9](?:[A-Za-z0-9\-]{0,61}[A-Za-z0-9])?\.){1,5}[A-Za-z]{2,24}")
_IBAN_MAX = 34
_CHECKED_MAX = 2000


def find(page: Page) -> Iterator[Finding]:
    """Yields the identifiers of `page` that hold letters. Linear: each look is bounded by the longest of its kind."""
    yield from _mails(page)
    if not _DIGITS.search(page.digits):
        return
    yield from _travel(page)
    yield from _ibans(page)
    for match in _NINO.finditer(page.text):
        yield page.finding("nino", match.start(), match.end())
    for match in _HK_ID.finditer(page.text):
        yield page.finding("resident_id", match.start(), match.end())
    for match in _TAIWAN_ID.finditer(page.text):
        if _taiwan_valid(match[0]):
            yield page.finding("resident_id", match.start(), match.end())


def _travel(page: Page) -> Iterator[Finding]:
    """Serial numbers beside a word for the document, in one clause with it."""
    for match in _SERIAL.finditer(page.digits):
        lead = _NOT_YET.split(page.before(match.start(), 28))[-1]
        tail = _NOT_YET.split(page.after(match.end(), 14))[0]
        if _TRAVEL_WORD.search(lead) or _TRAVEL_WORD.search(tail):
            yield page.finding("passport", match.start(), match.end())


def _ibans(page: Page) -> Iterator[Finding]:
    done = 0
    left = _CHECKED_MAX
    for head in _IBAN.finditer(page.text):
        body = _IBAN_BODY.match(page.text, head.start(), head.start() + _IBAN_MAX + 12)
        if head.start() < done or body is None:
            continue
        end = body.end()
        while end - head.start() >= 15:
            number = page.text[head.start() : end].replace(" ", "").replace("-", "")
            left -= 1
            if len(number) <= _IBAN_MAX and (left < 0 or iban.is_valid(number)):
                yield page.finding("iban", head.start(), end)
                done = end
                break
            end = max(page.text.rfind(" ", head.start(), end), page.text.rfind("-", head.start(), end))


def _mails(page: Page) -> Iterator[Finding]:
    at = page.text.find("@")
    while at >= 0:
        local = _MAIL_LOCAL.search(page.text[max(0, at - 64) : at])
        host = _MAIL_HOST.match(page.text, at + 1, at + 256)
        # git@host:path names a service, not a person.
        if local and host and not (local[0] == "git" and page.text[host.end() : host.end() + 1] == ":"):
            yield page.finding("email", at - len(local[0]), host.end())
        at = page.text.find("@", at + 1)


def _taiwan_valid(number: str) -> bool:
    """The check of the Taiwanese ID: the letter stands for two digits, the weights are 1 9 8 … 1 1."""
    letter = _TAIWAN_LETTERS.index(number[0]) + 10
    digits = [letter // 10, letter % 10, *map(int, number[1:])]
    weights = (1, 9, 8, 7, 6, 5, 4, 3, 2, 1, 1)
    return sum(d * w for d, w in zip(digits, weights, strict=True)) % 10 == 0
