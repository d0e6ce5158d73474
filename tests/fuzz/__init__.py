"""Whatever anybody sends: the daemon answers with a status of the contract, logs no traceback, and lives.

Bounded in the suite; `make fuzz` tries for longer (MEMSVC_FUZZ_EXAMPLES, of each test).
"""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

EXAMPLES = int(os.environ.get("MEMSVC_FUZZ_EXAMPLES", "0"))


def tried(examples: int) -> settings:
    """So many examples in the suite, or as many as somebody asked for."""
    return settings(
        max_examples=EXAMPLES or examples,
        deadline=None,
        # One daemon serves all examples of a test, and keeps what the ones before have left: so does a real one.
        suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.data_too_large],
    )
