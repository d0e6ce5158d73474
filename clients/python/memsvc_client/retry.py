"""When to try again, as arithmetic: no clock, no sleep, no randomness of its own. Only calls that cannot do
harm twice are tried again, and never beyond the deadline that the caller gave for the whole.

Its own loop and not gRPC's retry policy, which knows no time limit for one attempt and not the daemon's own
wish in RATE_LIMITED. (gRPC still sends a call anew by itself when it is certain that the daemon has not
seen it.)
"""

from __future__ import annotations

from dataclasses import dataclass

from memsvc_client.errors import DeadlineExceeded, MemsvcError, RateLimited, Unavailable

SHORTEST_ATTEMPT_S = 0.5


@dataclass(frozen=True, slots=True)
class Deadlines:
    """Seconds that a call may take in all, attempts and pauses together, by its kind.

    - `context`: `get_context`; a user waits for it.
    - `record`: `record_run`.
    - `interrupted`: recording a cancelled run while the cancellation waits.
    - `read`, `write`: the calls of the other services.
    - `transfer`: export and import of a scope, and its deletion.
    """

    context: float = 5.0
    record: float = 10.0
    interrupted: float = 2.0
    read: float = 10.0
    write: float = 10.0
    transfer: float = 300.0


@dataclass(frozen=True, slots=True)
class Backoff:
    """Seconds between attempts: `first_s`, doubling to `most_s`; each drawn from its upper half."""

    first_s: float = 0.1
    most_s: float = 2.0

    def pause_s(self, failures: int, chance: float) -> float:
        """The pause after so many failures (from 1 on); `chance` is a random number from 0 to 1."""
        longest = min(self.most_s, self.first_s * 2.0 ** min(failures - 1, 30))
        return longest * (0.5 + chance / 2)


@dataclass(slots=True)
class Attempts:
    """The attempts of one call. Times are seconds of one monotonic clock."""

    ends_s: float
    retryable: bool
    backoff: Backoff
    failures: int = 0

    def timeout_s(self, now_s: float) -> float:
        """What the next attempt may take: all that is left, or half of it where another could follow."""
        left_s = max(self.ends_s - now_s, 0.0)
        if not self.retryable:
            return left_s
        return min(left_s, max(left_s / 2, SHORTEST_ATTEMPT_S))

    def pause_s(self, error: MemsvcError, now_s: float, chance: float) -> float | None:
        """How long to wait before the next attempt; None when there is to be none and the error is the
        answer.

        Tried again: UNAVAILABLE, an attempt's own DEADLINE_EXCEEDED, and RATE_LIMITED no sooner than the
        daemon asks. DISK_FULL is not: it needs a person, and the caller should hear of it at once.
        """
        self.failures += 1
        if not self.retryable or not isinstance(error, Unavailable | DeadlineExceeded | RateLimited):
            return None
        pause_s = self.backoff.pause_s(self.failures, chance)
        if isinstance(error, RateLimited):
            pause_s += error.retry_after_s
        return pause_s if now_s + pause_s < self.ends_s else None
