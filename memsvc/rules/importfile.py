"""Whether the lines of an export belong together: in order, nothing twice, nothing named that is not there.

What a red line forbids is left out and counted; whatever else is wrong refuses the whole file, by the number of the
line and what to do.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from memsvc.errors import ImportInvalid, InvalidField, RedLine
from memsvc.rules import facts, redline
from memsvc.rules.exportfile import (
    KINDS,
    MAX_KEYS,
    VERSION,
    CandidateLine,
    ChangeLine,
    End,
    FactLine,
    Header,
    Key,
    Line,
    OpLine,
    RunLine,
    SummaryLine,
    ThreadLine,
    decode,
)

LINES_BESIDE = 100_000
LINES_PER_RUN = 20
"""Lines that a file may have for each run it may have, and beside those: far more than memory makes of a run."""

MAX_FACT_LINES = 1_000
"""Facts that a file may have, and as many candidates: a scope keeps far fewer of both."""

_JUDGED = (SummaryLine, FactLine, CandidateLine, ChangeLine)


class Reader:
    """Reads a file line by line and remembers what it named: ids and orders, no text.

    `refused` counts what red lines kept out; `run_ids` has the ids of all runs in their order, and
    `runs_of` those of each thread.
    """

    def __init__(self, max_runs: int) -> None:
        self.refused = 0
        self.runs_of: dict[str, list[str]] = {}
        self.run_ids: dict[str, None] = {}
        self._max_runs, self._max_lines = max_runs, LINES_BESIDE + LINES_PER_RUN * max_runs
        self._number = self._rank = self._keys = 0
        self._ids: set[tuple[str, str]] = set()
        self._covered: dict[str, int] = {}
        self._extracted: dict[str, tuple[int, int]] = {}
        self._locales: dict[str, str] = {}
        self._facts: Counter[str] = Counter()

    def read(self, data: bytes) -> Line | None:
        """Takes the next line, without its line feed; None where a red line keeps it out. ImportInvalid."""
        self._number += 1
        if self._number > self._max_lines:
            raise self._wrong(f"more than {self._max_lines} lines; raise MEMSVC_MAX_IMPORT_RUNS")
        line = decode(self._number, data)
        self._in_order(line)
        return self._kept(line) if isinstance(line, _JUDGED) else self._looked_at(line)

    def finish(self) -> None:
        """Says that no more lines come. ImportInvalid where the file was cut off."""
        if self._rank != len(KINDS) - 1:
            self._number += 1
            raise self._wrong("the line of type end is missing; the file was cut off: export again")

    def _kept(self, line: Line) -> Line | None:
        """The line as it may be kept; None, and counted, where a red line keeps it out."""
        kept: Line | None = line
        match line:
            case SummaryLine():
                kept = self._summary(line)
            case FactLine():
                kept = self._fact(line)
            case CandidateLine():
                kept = self._candidate(line)
            case ChangeLine() if redline.category(line.text_before) or redline.category(line.text_after):
                kept = None
        self.refused += kept is None
        return kept

    def _looked_at(self, line: Line) -> Line:
        match line:
            case Header():
                self._header(line)
            case Key():
                self._once("key", line.key)
                self._keys += 1
                if self._keys > MAX_KEYS:
                    raise self._wrong(f"more than {MAX_KEYS} keys; this scope has come through too many databases")
            case ThreadLine():
                self._thread(line)
            case RunLine():
                self._run(line)
            case OpLine() if line.thread_id is not None:
                self._known_thread(line.thread_id)
            case End():
                if line.line_count != self._number - 1:
                    raise self._wrong("counts other lines than stand before it; some were lost: export again")
        return line

    def _wrong(self, why: str) -> ImportInvalid:
        return ImportInvalid(self._number, why)

    def _in_order(self, line: Line) -> None:
        rank = KINDS.index(type(line))
        if self._number == 1 and not isinstance(line, Header):
            raise self._wrong("is not the header of an export, with which a file begins")
        if rank < self._rank or (rank == self._rank and isinstance(line, (Header, End)) and self._number > 1):
            raise self._wrong(f"of type {line.kind} is behind a later type; keep the lines in the order of an export")
        if rank > self._rank >= 0 and rank > KINDS.index(RunLine) >= self._rank:
            self._check_extracted()
        self._rank = rank

    def _header(self, line: Header) -> None:
        if line.version > VERSION:
            raise self._wrong(f"is of version {line.version}, this memsvc reads up to {VERSION}; use a newer one")

    def _once(self, kind: str, name: str) -> None:
        if (kind, name) in self._ids:
            raise self._wrong(f"names a {kind} a second time; leave one of the two out")
        self._ids.add((kind, name))

    def _thread(self, line: ThreadLine) -> None:
        self._once("thread", line.thread_id)
        if line.thread_key:
            self._once("thread_key", line.thread_key)
        self.runs_of[line.thread_id] = []
        self._extracted[line.thread_id] = (self._number, line.extracted_run_count)
        self._locales[line.thread_id] = line.locale

    def _run(self, line: RunLine) -> None:
        self._known_thread(line.thread_id)
        if line.run_id in self.run_ids:
            raise self._wrong("names a run a second time; leave one of the two out")
        if len(self.run_ids) == self._max_runs:
            raise self._wrong(f"more than {self._max_runs} runs; raise MEMSVC_MAX_IMPORT_RUNS")
        if line.own_offset > len(line.input):
            raise self._wrong("own_offset is behind the end of the input")
        self.run_ids[line.run_id] = None
        self.runs_of[line.thread_id].append(line.run_id)

    def _check_extracted(self) -> None:
        for thread_id, (number, count) in self._extracted.items():
            if count > len(self.runs_of[thread_id]):
                raise ImportInvalid(number, "extracted_run_count is more than the thread has runs")

    def _summary(self, line: SummaryLine) -> Line:
        self._known_thread(line.thread_id)
        if not self._covered.get(line.thread_id, 0) < line.run_count <= len(self.runs_of[line.thread_id]):
            raise self._wrong(
                "run_count must be more than that of the summary before it, and at most the thread's runs"
            )
        if not line.text:
            raise self._wrong("text is empty, and covers runs all the same; leave the line out")
        self._covered[line.thread_id] = line.run_count
        redacted = redline.redact(line.text, self._locales[line.thread_id])
        if redacted == line.text:
            return line
        self.refused += 1
        return replace(line, text=redacted)

    def _one_more(self, kind: str) -> None:
        self._facts[kind] += 1
        if self._facts[kind] > MAX_FACT_LINES:
            raise self._wrong(f"more than {MAX_FACT_LINES} lines of type {kind}; leave out those that count least")

    def _fact(self, line: FactLine) -> Line | None:
        self._once("fact", line.fact_id)
        self._one_more("fact")
        self._known_runs(line.source_run_ids)
        try:
            return replace(line, text=facts.checked(line.text))
        except (InvalidField, RedLine):
            return None

    def _candidate(self, line: CandidateLine) -> Line | None:
        self._once("candidate", line.candidate_id)
        self._one_more("candidate")
        self._known_runs(line.source_run_ids)
        text = facts.proposed(line.text)
        if text is None or redline.category(line.text) or redline.category(text):
            return None
        return replace(line, text=text)

    def _known_thread(self, thread_id: str) -> None:
        if thread_id not in self.runs_of:
            raise self._wrong("names a thread that has no line before this one")

    def _known_runs(self, run_ids: Sequence[str]) -> None:
        if any(run_id not in self.run_ids for run_id in run_ids):
            raise self._wrong("names a run that has no line before this one")
