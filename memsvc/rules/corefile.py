"""core_memory.json: what is known of a user as a file that people can read, edit and carry to another daemon.

Reading is tolerant of what it does not know and strict about what it keeps: each text passes what a call's would, and
what fails is counted, never quoted. Whose words a fact was drawn from goes along; where the file does not say, nobody
knows, and no cloud is ever shown it.
"""

from __future__ import annotations

import datetime
import json
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from memsvc.errors import ImportInvalid, InvalidField, RedLine
from memsvc.model import Candidate, Fact
from memsvc.rules import facts as rules
from memsvc.rules import redline
from memsvc.rules.extraction import confidence

VERSION = 1
MAX_BYTES = 4 << 20
MAX_ENTRIES = 1_000
"""Entries of a list that are looked at: a scope holds 30 facts and 200 candidates."""
UNKNOWN_ORIGIN = frozenset({""})
"""Whose runs something was drawn from where the file does not say: nobody knows."""

_FACT_LISTS = ("facts", "confirmed", "core")
_TEXT_NAMES = ("fact", "text", "content")
_ID = re.compile(r"[A-Za-z0-9._:@-]{1,128}")
MAX_NAME = 160
_LAST_US = 253_402_300_799_000_000  # the end of the year 9999


@dataclass(frozen=True, slots=True)
class Entry:
    """A fact or a candidate of a file. Times are 0 where the file does not tell them."""

    text: str
    named_id: str = ""
    source_run_ids: tuple[str, ...] = ()
    served_by: frozenset[str] = UNKNOWN_ORIGIN
    created_us: int = 0
    last_used_us: int = 0
    confirmed_by: str = ""
    confidence: float = 0.0
    supersedes_fact_id: str = ""


@dataclass(frozen=True, slots=True)
class CoreFile:
    """What a file holds that may be kept; `refused` counts the rest by RED_LINE and FORM."""

    facts: Sequence[Entry]
    candidates: Sequence[Entry]
    refused: Mapping[str, int] = field(default_factory=dict)


def read(data: bytes) -> CoreFile:
    """Reads a file; ImportInvalid where it is none. Facts stay in its order, oldest confirmation first."""
    if len(data) > MAX_BYTES:
        raise ImportInvalid(1, f"the file is above {MAX_BYTES} bytes")
    try:
        content = json.loads(data.decode("utf-8-sig"), parse_int=float)
    except json.JSONDecodeError as error:
        raise ImportInvalid(error.lineno, "is not JSON") from None
    except (ValueError, RecursionError):  # not UTF-8; a thousand brackets
        raise ImportInvalid(1, "is not JSON in UTF-8") from None
    if not isinstance(content, dict) or not any(name in content for name in (*_FACT_LISTS, "candidates")):
        raise ImportInvalid(1, 'is no core_memory.json: it has neither "facts" nor "candidates"')
    refused: Counter[str] = Counter()
    listed = [raw for name in _FACT_LISTS for raw in _list(content.get(name))]
    known = [e for raw in listed if (e := _entry(raw, rules.checked, refused))]
    waiting = [e for raw in _list(content.get("candidates")) if (e := _entry(raw, _proposed, refused))]
    return CoreFile(known, waiting, dict(refused))


def write(facts: Sequence[Fact], candidates: Sequence[Candidate], origins: Mapping[str, frozenset[str]]) -> bytes:
    """Returns the file of facts, given oldest confirmation first, and candidates; `origins` by their ids."""
    content = {
        "version": VERSION,
        "facts": [
            {
                "fact": fact.text,
                "fact_id": fact.fact_id,
                "confirmed_by": fact.confirmed_by,
                "source_runs": list(fact.source_run_ids),
                "served_by": sorted(origins[fact.fact_id]),
                "created_at": _told(fact.created_us),
                "last_used": _told(fact.last_used_us),
            }
            for fact in facts
        ],
        "candidates": [
            {
                "fact": candidate.text,
                "confidence": round(candidate.confidence, 6),
                "source_run": candidate.source_run_ids[0] if candidate.source_run_ids else None,
                "source_runs": list(candidate.source_run_ids),
                "served_by": sorted(origins[candidate.candidate_id]),
                "supersedes": candidate.supersedes_fact_id or None,
                "created_at": _told(candidate.created_us),
            }
            for candidate in candidates
        ],
    }
    return (json.dumps(content, ensure_ascii=False, indent=2) + "\n").encode()


def _list(value: Any) -> list[Any]:
    return value[:MAX_ENTRIES] if isinstance(value, list) else []


def _entry(raw: Any, admit: Callable[[str], str], refused: Counter[str]) -> Entry | None:
    """Returns an entry whose text may be kept; a bare string is one that is nothing but its text."""
    read = raw if isinstance(raw, dict) else {"fact": raw}
    said = next((read[name] for name in _TEXT_NAMES if isinstance(read.get(name), str)), "")
    try:
        text = admit(said)
    except RedLine:
        refused["RED_LINE"] += 1
        return None
    except InvalidField:
        refused["FORM"] += 1
        return None
    created_us = _time_us(read.get("created_at"))
    runs = read["source_runs"] if isinstance(read.get("source_runs"), list) else [read.get("source_run")]
    names = read.get("served_by")
    return Entry(
        text=text,
        named_id=_id(read.get("fact_id")),
        source_run_ids=tuple(run_id for run in runs[: rules.MAX_SOURCES] if (run_id := _id(run))),
        served_by=frozenset(map(_id, names)) if isinstance(names, list) else UNKNOWN_ORIGIN,
        created_us=created_us,
        last_used_us=max(created_us, _time_us(read.get("last_used"))),
        confirmed_by=_name(read.get("confirmed_by")),
        confidence=confidence(read.get("confidence")),
        supersedes_fact_id=_id(read.get("supersedes")),
    )


def _proposed(said: str) -> str:
    """Returns a candidate's text as it may be kept; raises what `rules.checked` does."""
    text = rules.proposed(said)
    if text is None:
        raise InvalidField("fact", "cannot be the text of a fact")
    if category := redline.category(said) or redline.category(text):
        raise RedLine(category)
    return text


def _id(value: Any) -> str:
    return value if isinstance(value, str) and _ID.fullmatch(value) else ""


def _name(value: Any) -> str:
    return value.strip()[:MAX_NAME] if isinstance(value, str) and value.isprintable() else ""


def _time_us(value: Any) -> int:
    """Returns a time of ISO 8601 or in seconds since the epoch; 0 where it is neither. Without a zone it is UTC."""
    try:
        if isinstance(value, str):
            time = datetime.datetime.fromisoformat(value)
            value = (time if time.tzinfo else time.replace(tzinfo=datetime.UTC)).timestamp()
        return min(max(round(float(value) * 1e6), 0), _LAST_US)
    except (TypeError, ValueError, OverflowError):
        return 0


def _told(time_us: int) -> str:
    return datetime.datetime.fromtimestamp(time_us / 1e6, datetime.UTC).isoformat(timespec="microseconds")
