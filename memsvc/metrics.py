"""Prometheus metrics: counts, durations and costs by names of ours; no id, no content, no telemetry.

Served on an address of its own, off unless configured.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, start_http_server

from memsvc.config import host_port
from memsvc.errors import AddressTaken
from memsvc.model import OpKind
from memsvc.store import NewOp

registry = CollectorRegistry()
ProcessCollector(registry=registry)

_calls = Counter("memsvc_calls", "Calls answered.", ["method", "code"], registry=registry)
_call_seconds = Histogram(
    "memsvc_call_seconds",
    "Time from request to answer, in seconds.",
    ["method"],
    buckets=(0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5),
    registry=registry,
)
_refusals = Counter(
    "memsvc_refusals", "Calls refused, by the reason that the caller was told.", ["method", "reason"], registry=registry
)
_memory_ops = Counter(
    "memsvc_memory_ops", "Calls that memory made for itself.", ["kind", "provider", "reason"], registry=registry
)
_memory_tokens = Counter(
    "memsvc_memory_tokens", "Tokens that memory's own calls used.", ["provider", "direction"], registry=registry
)
_memory_cost = Counter(
    "memsvc_memory_cost_micros", "What memory's own calls cost, in millionths.", ["provider"], registry=registry
)
_queue = Gauge("memsvc_pending_jobs", "Jobs that wait, run, or will be tried again.", registry=registry)
_failed = Gauge("memsvc_failed_jobs", "Jobs whose last attempt failed.", registry=registry)
_unfolded = Gauge("memsvc_unfolded_runs", "Runs that neither a summary nor the recent window shows.", registry=registry)
_oldest = Gauge(
    "memsvc_oldest_unfolded_seconds", "How long the run that has waited longest is due to be folded.", registry=registry
)
_usable = Gauge(
    "memsvc_provider_usable",
    "1 while memory's calls go to the provider, 0 while it is left alone.",
    ["provider"],
    registry=registry,
)
_database_bytes = Gauge("memsvc_database_bytes", "Size of the database, without its log.", registry=registry)
_log_bytes = Gauge("memsvc_database_log_bytes", "Size of the database's write-ahead log.", registry=registry)
_erasure = Gauge(
    "memsvc_erasure_owed", "1 while words of something deleted may still be in the log of the file.", registry=registry
)
_doubted = Gauge(
    "memsvc_clock_doubted",
    "1 while the clock stands where it should not, and retention waits for proof.",
    registry=registry,
)


def call(method: str, code: str, seconds: float) -> None:
    """Counts one answered call."""
    _calls.labels(method, code).inc()
    _call_seconds.labels(method).observe(seconds)


def refused(method: str, reason: str) -> None:
    """Counts one call that was refused."""
    _refusals.labels(method, reason).inc()


def memory_op(op: NewOp) -> None:
    """Counts one call that memory made for itself."""
    _memory_ops.labels(OpKind(op.kind).name.lower(), op.provider, op.error_reason or "OK").inc()
    _memory_tokens.labels(op.provider, "input").inc(op.usage.input_tokens)
    _memory_tokens.labels(op.provider, "output").inc(op.usage.output_tokens)
    _memory_cost.labels(op.provider).inc(op.usage.cost_micros)


def watch(
    pending: Callable[[], int],
    failed: Callable[[], int],
    erasure_owed: Callable[[], bool],
    usable: Callable[[], Mapping[str, bool]],
    database: Path,
) -> None:
    """Takes these whenever somebody asks: the depth of the queue, what deletions owe, which providers are usable, and
    the sizes of the database and its log.
    """
    _queue.set_function(pending)
    _failed.set_function(failed)
    _erasure.set_function(erasure_owed)
    for name in usable():
        _usable.labels(name).set_function(partial(_is_usable, usable, name))
    _database_bytes.set_function(partial(_size, database))
    _log_bytes.set_function(partial(_size, Path(f"{database}-wal")))


def _is_usable(usable: Callable[[], Mapping[str, bool]], name: str) -> float:
    return usable().get(name, False)


def _size(path: Path) -> int:
    """A log is there only while somebody has the database open."""
    return os.stat(path).st_size if path.exists() else 0


def backlog(runs: int, oldest_seconds: float) -> None:
    """Tells how many runs wait to be folded, and for how long the first of them has."""
    _unfolded.set(runs)
    _oldest.set(oldest_seconds)


def clock_doubted(doubted: bool) -> None:
    """Tells whether retention doubts the clock."""
    _doubted.set(doubted)


def serve(address: str) -> Callable[[], None]:
    """Serves the metrics on `address`; returns what stops it. AddressTaken."""
    host, port = host_port(address)
    try:
        server, thread = start_http_server(port, host.strip("[]"), registry=registry)
    except OSError:
        raise AddressTaken(address) from None

    def stop() -> None:
        server.shutdown()
        server.server_close()
        thread.join()

    return stop
