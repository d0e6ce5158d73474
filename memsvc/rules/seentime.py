"""The time that retention goes by: the clock's, as long as the clock moves as time does.

What is deleted is gone for good, and a clock can be years ahead: a broken one, a wrong answer of a time server. So the
daemon looks at its clock every now and then and keeps what it saw in the database. From one look to the next the clock
may gain a day on what the daemon itself was awake for, because a daemon may be stopped and a machine asleep. A clock
that is further off, ahead or behind, is doubted: the time retention goes by moves on with the daemon alone. It follows
once the clock has gone on from there for `PROOF_US`, or at once where the clock comes back.

Of a doubted clock only what it was seen to go through is ever believed, and no look counts for more than the daemon was
awake and a day. So a jump is waited out whole, however often the daemon is started meanwhile; and one that runs for an
hour a week follows some starts behind.
"""

from __future__ import annotations

from typing import NamedTuple

SLACK_US = 86_400_000_000
"""By how much a clock may gain or lose between two looks: a day, for a machine that is off over night."""
PROOF_US = 3 * 86_400_000_000
"""How far a doubted clock has to go on: three days, for a person who is off over the weekend to see to it."""


class SeenTime(NamedTuple):
    """What was seen of the clock up to the last look. Times are microseconds since the epoch."""

    believed_us: int
    """The time that is believed."""
    clock_us: int
    """What the clock showed."""
    doubted_us: int | None = None
    """What the clock showed when it began to be doubted; None while it is believed."""
    watched_us: int = 0
    """How far it was seen to go on from there, in microseconds."""

    @property
    def retained_us(self) -> int:
        """The time that retention goes by: never ahead of the clock, so that one which steps back deletes nothing."""
        return min(self.believed_us, self.clock_us)


def look(seen: SeenTime, clock_us: int, awake_us: int) -> SeenTime:
    """Returns what is known after another look at the clock.

    `awake_us` is how long the daemon itself ran since the last look, by a clock that nobody sets: 0 at the first look
    of a process.
    """
    believed_us = seen.believed_us + awake_us
    if abs(clock_us - believed_us) <= SLACK_US:
        return SeenTime(clock_us, clock_us)
    watched_us = seen.watched_us + min(clock_us - seen.clock_us, awake_us + SLACK_US)
    if seen.doubted_us is None or watched_us < 0:
        return SeenTime(believed_us, clock_us, clock_us)
    if watched_us < PROOF_US:
        return SeenTime(believed_us, clock_us, seen.doubted_us, watched_us)
    proven_us = seen.doubted_us + watched_us
    if clock_us - proven_us <= SLACK_US:
        return SeenTime(clock_us, clock_us)
    return SeenTime(proven_us, clock_us, clock_us)
