"""The context inspector: an input, the block that an agent would be given for it, and where each line came from."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from memsvc_client.services import ThreadCalls
from starlette.responses import Response

from memsvc.v1 import memory_pb2 as pb
from memsvc_console import block, figures
from memsvc_console.daemon import one_page
from memsvc_console.inspection import THRESHOLD, Inspection, find_thread, inspect
from memsvc_console.view import View, scoped

THREADS = 20
DEFAULT_BUDGET, MAX_BUDGET = 6000, 128_000
MAX_RECALLED = 10


@dataclass(frozen=True, slots=True)
class Question:
    """What the form asks. Zero and empty mean the daemon's default, as in the contract."""

    thread_id: str = ""
    input: str = ""
    knowledge: str = ""
    budget: int = 0
    reserved: int = 0
    recalled: int = 0
    locale: str = ""
    zone: str = ""


@dataclass(frozen=True, slots=True)
class Number:
    """A field for a whole number: its name, the most it takes, and what stands in it when it is empty."""

    name: str
    most: int
    empty: str


NUMBERS = (
    Number("budget", MAX_BUDGET, str(DEFAULT_BUDGET)),
    Number("reserved", MAX_BUDGET, "0"),
    Number("recalled", MAX_RECALLED, "3"),
)


def read(form: Mapping[str, str]) -> tuple[Question, tuple[str, ...]]:
    """Reads the form, and names the fields that hold no number within their limits."""
    numbers: dict[str, int] = {}
    wrong = []
    for field in NUMBERS:
        text = form.get(field.name, "").strip()
        if not text:
            continue
        if not (text.isascii() and text.isdecimal() and len(text) <= 6 and int(text) <= field.most):
            wrong.append(field.name)
            continue
        numbers[field.name] = int(text)
    question = Question(
        thread_id=form.get("thread_id", "").strip(),
        input=form.get("input", ""),
        knowledge=form.get("knowledge", ""),
        budget=numbers.get("budget", 0),
        reserved=numbers.get("reserved", 0),
        recalled=numbers.get("recalled", 0),
        locale=form.get("locale", "").strip(),
        zone=form.get("zone", "").strip(),
    )
    return question, tuple(wrong)


async def context(view: View) -> Response:
    """The page: what would be remembered in the latest conversation, before anything is typed."""
    threads, thread = await _threads(view, view.param("thread", 64))
    if not view.param("thread", 64) and threads and "new" not in view.request.query_params:
        thread = threads[0]
    question = Question(thread_id=thread.thread_id if thread else "", input=view.param("input"))
    return await _answer(view, question, (), threads)


async def ask(view: View) -> Response:
    """The answer to the form: the whole page, or the picture alone where htmx asks."""
    question, wrong = read(await view.form())
    threads, _ = ([], None) if view.htmx else await _threads(view, question.thread_id)
    return await _answer(view, question, wrong, threads)


async def _answer(view: View, question: Question, wrong: Sequence[str], threads: Sequence[pb.Thread]) -> Response:
    seen = None if wrong else await look(view, question)
    template = "part_context.html" if view.htmx else "context.html"
    return view.render(
        template,
        422 if wrong else 200,
        question=question,
        wrong=wrong,
        threads=threads,
        numbers=NUMBERS,
        default_zone=view.console.settings.time_zone.key,
        **drawn(seen),
    )


async def look(view: View, question: Question) -> Inspection:
    """Asks the daemon for the block, leaving no trace, and looks up what it was made of."""
    found = await view.memory.get_context(
        view.scope,
        question.input,
        thread_id=question.thread_id,
        token_budget=question.budget,
        reserved_tokens=question.reserved,
        knowledge=question.knowledge,
        recall_top_k=question.recalled,
        locale=question.locale,
        time_zone=question.zone or view.console.settings.time_zone.key,
        preview=True,
    )
    return await inspect(view.memory, view.scope, found, question.input, question.reserved)


def drawn(seen: Inspection | None) -> dict[str, Any]:
    """What the templates of a block need."""
    return {"seen": seen, "spans": block.spans, "figures": figures, "threshold": THRESHOLD}


async def _threads(view: View, chosen: str) -> tuple[list[pb.Thread], pb.Thread | None]:
    """The latest threads, and the chosen one, which is among them; None where it has no run or none is chosen."""
    described = ThreadCalls.list.describe(None, view.scope, page_size=THREADS)
    (latest, _), thread = await asyncio.gather(
        one_page(view.memory, described), find_thread(view.memory, view.scope, chosen)
    )
    threads = list(latest)
    if thread is not None and all(each.thread_id != thread.thread_id for each in threads):
        threads.insert(0, thread)
    return threads, thread


ROUTES = [scoped("/context", context), scoped("/context", ask, "POST")]
