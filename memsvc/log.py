"""Logs: pretty on a terminal, JSON elsewhere. Fields are ids, sizes, times and reasons, and never a word of content."""

from __future__ import annotations

import logging
import sys
from collections.abc import MutableMapping
from typing import Any

import structlog

_LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}


def configure(level: str, log_format: str) -> None:
    """Sets up structlog and the standard library's logging, both to standard error, from `level` up."""
    pretty = log_format == "pretty" or (log_format == "auto" and sys.stderr.isatty())
    shared: list[Any] = [
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    renderer: Any = structlog.dev.ConsoleRenderer() if pretty else structlog.processors.JSONRenderer(ensure_ascii=False)
    structlog.configure(
        processors=[*shared, renderer],
        wrapper_class=structlog.make_filtering_bound_logger(_LEVELS[level]),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )
    # Libraries log as well; what they say of a request could hold its text, so they are heard from warnings up, by
    # their place alone.
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(foreign_pre_chain=shared, processors=[_place_alone, renderer])
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)


def _place_alone(_: Any, __: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    record: logging.LogRecord = event["_record"]
    kept: dict[str, Any] = {key: event[key] for key in ("level", "timestamp") if key in event}
    error = record.exc_info[0].__name__ if record.exc_info and record.exc_info[0] else ""
    return {
        "event": "library_log",
        "logger": record.name,
        "where": f"{record.module}:{record.lineno}",
        "error": error,
        **kept,
    }
