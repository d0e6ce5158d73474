"""What has been read and cannot change stays in memory for a while, within a bound.

Only what bears a name that never means anything else belongs here: a run's sequence as of the last import, the number
of a page of the recall index. Whoever looks something up has learnt the name from a snapshot of its own, so that what
was deleted is out of reach at the commit that deleted it. Nothing here is ever written to a file.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

CACHE_BYTES = 64 << 20
"""Most that is kept by size of its texts and postings: pages of some 40,000 runs of a kilobyte. Objects take more."""
_OVERHEAD = 200  # bytes of an object, its key and its slot


class Cache:
    """Keeps what was used lately, up to `limit_bytes`. Threads may share one: what is kept is never changed.

    Two halves instead of a list by last use: a full young half becomes the old one; what is used of that comes back.
    """

    def __init__(self, limit_bytes: int = CACHE_BYTES) -> None:
        self._limit_bytes = limit_bytes
        self._young: dict[Hashable, tuple[Any, int]] = {}
        self._old: dict[Hashable, tuple[Any, int]] = {}
        self._size = 0

    def get(self, key: Hashable) -> Any:
        """Returns what was put under `key`, or None."""
        found = self._young.get(key)
        if found is None:
            found = self._old.get(key)
            if found is None:
                return None
            self.put(key, *found)
        return found[0]

    def put(self, key: Hashable, value: Any, size_bytes: int) -> None:
        """Keeps a value for a while."""
        # Two threads that meet here may miscount by one value, which the next turn of the halves forgets.
        if self._size > self._limit_bytes // 2:
            self._young, self._old, self._size = {}, self._young, 0
        self._young[key] = (value, size_bytes)
        self._size += size_bytes + _OVERHEAD
