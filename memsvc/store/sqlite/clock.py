"""What was seen of the clock (rules/seentime.py), in one row that is written as often as retention looks.

A database without that row has seen the time of its newest run, and an empty one has nothing to lose.
"""

from __future__ import annotations

import json
import sqlite3

from memsvc.rules import seentime
from memsvc.rules.seentime import SeenTime

NEWEST = "SELECT max((SELECT max(created_us) FROM runs WHERE runs.scope_no = scopes.scope_no)) FROM scopes"
"""By the index, a scope at a time."""


def look_at_clock(db: sqlite3.Connection, clock_us: int, awake_us: int) -> SeenTime:
    """See Store.look_at_clock."""
    row = db.execute("SELECT value FROM meta WHERE name = 'clock'").fetchone()
    if row:
        before = SeenTime(*json.loads(row[0]))
    else:
        (newest_us,) = db.execute(NEWEST).fetchone()
        newest_us = clock_us if newest_us is None else newest_us
        before = SeenTime(newest_us, newest_us)
    seen = seentime.look(before, clock_us, awake_us)
    db.execute("INSERT OR REPLACE INTO meta (name, value) VALUES ('clock', ?)", (json.dumps(seen).encode(),))
    return seen
