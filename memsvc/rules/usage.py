"""Usage added up: what runs and memory took, apart and together, by day, provider or thread."""

from __future__ import annotations

import datetime
from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum
from typing import Protocol
from zoneinfo import ZoneInfo

from memsvc.model import Usage


class Group(IntEnum):
    """What a bucket is. Numbers as on the wire."""

    NONE = 0
    DAY = 1
    PROVIDER = 2
    THREAD = 3


class Row(Protocol):
    """What one time, provider and thread used."""

    @property
    def created_us(self) -> int:
        """Microseconds since the epoch."""

    @property
    def provider(self) -> str:
        """The provider's name, empty where none was named."""

    @property
    def thread_id(self) -> str:
        """The thread's id, empty where the thread was deleted."""

    @property
    def memory(self) -> bool:
        """Whether memory itself used it, and not a run."""

    @property
    def usage(self) -> Usage:
        """How much."""


@dataclass(frozen=True, slots=True)
class Bucket:
    """Usage of one day, provider or thread."""

    key: str
    runs: Usage
    memory: Usage


def add_up(rows: Iterable[Row], group: Group, zone: ZoneInfo) -> tuple[Bucket, list[Bucket]]:
    """Returns the sums over all rows, and per group by ascending key; days are those of `zone`."""
    total = Bucket("", Usage(), Usage())
    buckets: dict[str, Bucket] = {}
    for row in rows:
        total = _with(total, row)
        if group is not Group.NONE:
            key = _key(row, group, zone)
            buckets[key] = _with(buckets.get(key, Bucket(key, Usage(), Usage())), row)
    return total, [buckets[key] for key in sorted(buckets)]


def _with(bucket: Bucket, row: Row) -> Bucket:
    if row.memory:
        return Bucket(bucket.key, bucket.runs, bucket.memory + row.usage)
    return Bucket(bucket.key, bucket.runs + row.usage, bucket.memory)


def _key(row: Row, group: Group, zone: ZoneInfo) -> str:
    if group is Group.DAY:
        return datetime.datetime.fromtimestamp(row.created_us / 1e6, zone).date().isoformat()
    return row.provider if group is Group.PROVIDER else row.thread_id
