"""A process to be killed: writes numbers from many callers at once and says each on standard output once it is durable.

python -m tests.faults.writer DATABASE FIRST
"""

from __future__ import annotations

import asyncio
import itertools
import os
import sqlite3
import sys

from memsvc.store.sqlite.db import Database

CALLERS = 8


def put(connection: sqlite3.Connection, number: int) -> None:
    """Two rows in one unit: a crash must keep both or neither."""
    connection.execute("INSERT INTO written VALUES (?, 'a', ?)", (number, "x" * (number % 7 * 1000)))
    connection.execute("INSERT INTO written VALUES (?, 'b', '')", (number,))


async def main(path: str, first: int) -> None:
    database = await Database.open(path)
    numbers = itertools.count(first)

    async def caller() -> None:
        for number in numbers:
            await database.write(put, number)
            os.write(1, b"%d\n" % number)

    await asyncio.gather(*(caller() for _ in range(CALLERS)))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2])))
