"""Dates as terms: a run is found by the day it ended on, however a question writes that day.

A date is a term of its own form (`@2024-01-05`, `@2024-01`, `@01-05`), so that no word of a text is taken for one.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, tzinfo

SIGN = "@"
"""What a date's term begins with; no term of a text does."""

MAX_DATES = 4
"""Dates that are read of one question, in each of the forms people write them in."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MONTHS = {name: at for at, name in enumerate("jan feb mar apr may jun jul aug sep oct nov dec".split(), 1)}
_MONTH = (
    r"(?P<name>jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?"
    r"|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)\b\.?"
)
_YEAR = r"(?P<year>(?:19|20)\d\d)(?!\d)"
_DAY = r"(?P<day>\d{1,2})"
_NUMBER = r"(?P<month>\d{1,2})"
_FORMS = [
    re.compile(form)
    for form in (
        rf"(?<![\d.]){_YEAR}[-/.]{_NUMBER}[-/.]{_DAY}(?!\d)",
        rf"(?<![\d.]){_DAY}\.{_NUMBER}\.{_YEAR}(?!\.\d)",
        rf"(?<!\d){_YEAR} ?年 ?{_NUMBER} ?月(?:份? ?{_DAY} ?[日号])?",
        rf"(?<![\d年])(?<!年 ){_NUMBER} ?月 ?{_DAY} ?[日号]",
        rf"(?<!\d){_DAY}(?:st|nd|rd|th)?(?: of)? {_MONTH},?(?: {_YEAR})?",
        rf"\b{_MONTH} {_DAY}(?:st|nd|rd|th)?\b(?:,? {_YEAR})?",
        rf"\b{_MONTH},?(?: of)? {_YEAR}",
    )
]


def of_time(time_us: int, zone: tzinfo) -> tuple[str, ...]:
    """Returns the terms of the day on which a time (microseconds since 1970) falls in `zone`: day, month, anniversary.

    None for a time beyond the years 1 to 9999.
    """
    try:
        day = (_EPOCH + timedelta(microseconds=time_us)).astimezone(zone)
    except OverflowError:
        return ()
    return (*_terms(day.year, day.month, day.day), f"{SIGN}{day.month:02}-{day.day:02}")


def mentioned(folded: str) -> list[str]:
    """Returns the terms of the dates that a text in small letters names; of each form, the first `MAX_DATES`.

    A day with its year also stands for its month: what was said around it may bear on it. A day without a year is
    that day of any year; a month without one is no date (may, march and a "5月" are too many other things).
    """
    if not any(c.isdecimal() for c in folded):
        return []
    terms: dict[str, None] = {}
    for form in _FORMS:
        for match, _ in zip(form.finditer(folded), range(MAX_DATES), strict=False):
            found = match.groupdict()
            name = found.get("name")
            month = _MONTHS[name[:3]] if name else int(found["month"])
            day = int(found.get("day") or 0)
            if 1 <= month <= 12 and day <= 31:
                terms.update(dict.fromkeys(_terms(int(found.get("year") or 0), month, day)))
    return list(terms)


def _terms(year: int, month: int, day: int) -> tuple[str, ...]:
    if not year:
        return (f"{SIGN}{month:02}-{day:02}",) if day else ()
    of_month = f"{SIGN}{year}-{month:02}"
    return (f"{of_month}-{day:02}", of_month) if day else (of_month,)
