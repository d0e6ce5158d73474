"""recall_log.jsonl: what was asked and answered, a run a line, as a file that people and other programs write and read.

Reading turns a log into lines of an export (rules/exportfile.py), so that what comes in this way is judged, limited and
kept as any import. docs/recall.md says the same for people: which fields are read, and what is made of them.
"""

from __future__ import annotations

import base64
import datetime
import hashlib
import json
from collections.abc import Mapping
from typing import Any

from memsvc.errors import ImportInvalid
from memsvc.model import Scope
from memsvc.rules.exportfile import (
    FIRST_US,
    LAST_US,
    MAX_INPUT_BYTES,
    MAX_LINE_BYTES,
    MAX_OUTPUT_BYTES,
    OUTCOMES,
    VERSION,
    End,
    Header,
    RunLine,
    ThreadLine,
    encode,
    read_object,
)
from memsvc.rules.fields import Check, name, one_of, text
from memsvc.rules.shown import script

TIME_NAMES = ("ts", "time", "timestamp", "created_at")
INPUT_NAMES = ("input", "user", "question")
OUTPUT_NAMES = ("output", "assistant", "answer")
"""Names under which a field is looked for; the first that a line has, and that is not null, is read."""

MILLISECONDS_FROM = 1e11
"""A time that is a number counts seconds below this (they end in the year 5138), and milliseconds from here on."""

_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_MICROSECOND = datetime.timedelta(microseconds=1)
_BOM = b"\xef\xbb\xbf"


class Reader:
    """Reads a log line by line into the lines of an export of one archived thread; remembers ids, and no text.

    The thread's id follows from the scope and the name of the file, a run's from the name and what its line says: the
    same file makes the same lines, and one that has grown makes some more. A line that says the same as an earlier one
    is that run again. A time that is still to come is taken for `now_us`.
    """

    def __init__(self, scope: Scope, file_name: str, now_us: int) -> None:
        self._scope, self._now_us = scope, now_us
        self._name = file_name.encode("utf-8", "replace").decode()
        digest = hashlib.sha256("\0".join(("recall-log", *scope, self._name)).encode()).digest()
        self._thread_id = "th_" + base64.b32encode(digest[:15]).decode("ascii").lower()
        self._number = 0
        self._run_ids: set[str] = set()
        self._locale = ""
        self._first_us = self._last_us = 0

    def read(self, data: bytes) -> bytes:
        """Takes the next line; returns the run's, or nothing for a blank or a repeated one. ImportInvalid."""
        self._number += 1
        if len(data) > MAX_LINE_BYTES:
            raise ImportInvalid(self._number, f"is longer than {MAX_LINE_BYTES} bytes")
        if self._number == 1:
            data = data.removeprefix(_BOM)
        if not data.strip():
            return b""
        run = self._run(read_object(self._number, data))
        if run.run_id in self._run_ids:
            return b""
        self._locale = self._locale or script(run.input or run.output)
        self._first_us = min(self._first_us, run.ended_us) if self._run_ids else run.ended_us
        self._last_us = max(self._last_us, run.ended_us) if self._run_ids else run.ended_us
        self._run_ids.add(run.run_id)
        return encode(run)

    def head(self) -> bytes:
        """Returns what stands before the runs, once all are read."""
        header = encode(Header(VERSION, *self._scope))
        if not self._run_ids:
            return header
        times = (self._first_us, self._last_us)
        return header + encode(ThreadLine(self._thread_id, "", self._name, True, True, self._locale, *times, 0))

    def end(self) -> bytes:
        """Returns what stands behind the runs, once all are read."""
        return encode(End(len(self._run_ids) + 1 + bool(self._run_ids)))

    def _run(self, line: Mapping[str, Any]) -> RunLine:
        time_us = self._field(line, TIME_NAMES, _time_us)
        asked = self._field(line, INPUT_NAMES, text(MAX_INPUT_BYTES))
        answered = self._field(line, OUTPUT_NAMES, text(MAX_OUTPUT_BYTES), "")
        outcome = self._field(line, ("outcome",), one_of(OUTCOMES), "COMPLETED")
        provider = self._field(line, ("provider",), name(128), "")
        model = self._field(line, ("model",), name(128), "")
        said = json.dumps([self._name, time_us, asked, answered, outcome])
        kept_us = min(time_us, self._now_us)
        return RunLine(
            run_id="recall-" + hashlib.sha256(said.encode()).hexdigest()[:32],
            thread_id=self._thread_id,
            outcome=outcome,
            input=asked,
            output=answered,
            provider=provider,
            served_by=provider,
            model=model,
            own_offset=0,
            input_tokens=0,
            output_tokens=0,
            cost_micros=0,
            context_token_count=0,
            labels={},
            created_us=kept_us,
            ended_us=kept_us,
        )

    def _field(self, line: Mapping[str, Any], names: tuple[str, ...], check: Check, missing: Any = None) -> Any:
        found = next((each for each in names if line.get(each) is not None), None)
        if found is None:
            if missing is None:
                raise ImportInvalid(self._number, f"{names[0]} is missing; each line of a recall log needs it")
            return missing
        try:
            return check(line[found])
        except ValueError as why:
            raise ImportInvalid(self._number, f"{found} {why}") from None


def write(run: RunLine) -> bytes:
    """Returns a run as a line of a log, with its line feed; a context block of ours is left out of its input."""
    content = {
        "ts": (_EPOCH + run.ended_us * _MICROSECOND).isoformat(timespec="microseconds"),
        "input": run.input[run.own_offset :],
        "output": run.output,
    }
    content |= {key: said for key, said in (("provider", run.provider), ("model", run.model)) if said}
    return json.dumps(content, ensure_ascii=False).encode() + b"\n"


def _time_us(value: Any) -> int:
    """A time of ISO 8601, in UTC where it names no zone, or a number of seconds or milliseconds since the epoch."""
    time_us: int | None = None
    try:
        if isinstance(value, str):
            time = datetime.datetime.fromisoformat(value)
            time_us = ((time if time.tzinfo else time.replace(tzinfo=datetime.UTC)) - _EPOCH) // _MICROSECOND
        elif isinstance(value, (int, float)) and not isinstance(value, bool):
            time_us = round(value * (1e3 if abs(value) >= MILLISECONDS_FROM else 1e6))
    except (ValueError, OverflowError):
        pass
    if time_us is None or not FIRST_US <= time_us <= LAST_US:
        raise ValueError("must be a time of ISO 8601, or seconds or milliseconds since 1970, in the years 1 to 9999")
    return time_us
