"""Moments as people read them, in the zone of the settings."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from google.protobuf.timestamp_pb2 import Timestamp

from memsvc_console.i18n import Words

MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


def when(stamp: Timestamp, zone: ZoneInfo, words: Words, now: datetime | None = None) -> str:
    """The day and the time to the minute; the day by its name where it is today or yesterday."""
    if not stamp.seconds:
        return words("time.never")
    moment = stamp.ToDatetime(UTC).astimezone(zone)
    today = (now or datetime.now(UTC)).astimezone(zone).date()
    time = f"{moment:%H:%M}"
    if moment.date() == today:
        return words("time.today", time=time)
    if moment.date() == today - timedelta(days=1):
        return words("time.yesterday", time=time)
    if moment.year != today.year:
        return date(stamp, zone, words)
    return words("time.day", month=moment.month, day=moment.day, name=MONTHS[moment.month - 1], time=time)


def date(stamp: Timestamp, zone: ZoneInfo, words: Words) -> str:
    """The day with its year."""
    if not stamp.seconds:
        return words("time.never")
    moment = stamp.ToDatetime(UTC).astimezone(zone)
    return words("time.date", year=moment.year, month=moment.month, day=moment.day, name=MONTHS[moment.month - 1])
