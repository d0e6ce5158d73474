"""Cost and work: what runs and memory took, the curve of a conversation, what the worker owes, and memory's calls."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime
from typing import TypeVar

from memsvc_client.services import OpsCalls
from starlette.responses import Response

from memsvc.v1 import memory_pb2 as pb
from memsvc.v1 import memory_service_pb2 as rpc
from memsvc_console import figures, spending
from memsvc_console.curve import curve
from memsvc_console.daemon import one_page
from memsvc_console.inspection import find_thread
from memsvc_console.view import View, scoped

T = TypeVar("T")

THREADS = 10
CALLS = 50
MAX_TURNS, MAX_CALLS = 1000, 5000


async def cost(view: View) -> Response:
    """The sums of a period, and how the work stands."""
    period, now = _period(view), datetime.now(UTC)
    zone, begin = view.console.settings.time_zone, spending.start_of(period, view.console.settings.time_zone, now)

    def usage(group: rpc.UsageGroup.ValueType) -> asyncio.Future[rpc.GetUsageResponse]:
        return asyncio.ensure_future(
            view.memory.ops.usage(view.scope, start_time=begin, group_by=group, time_zone=zone.key)
        )

    days, providers, threads, status = await asyncio.gather(
        usage(rpc.USAGE_GROUP_DAY),
        usage(rpc.USAGE_GROUP_PROVIDER),
        usage(rpc.USAGE_GROUP_THREAD),
        view.memory.ops.worker_status(view.scope),
    )
    unit = view.param("unit", 9)
    if unit not in spending.UNITS:
        unit = "cost" if days.total.cost_micros else "tokens"
    by_day = spending.by_day(days.buckets, unit, period, zone, now)
    top = spending.largest(threads.buckets, unit)
    named = await asyncio.gather(*(find_thread(view.memory, view.scope, row.key) for row in top[:THREADS]))
    return view.render(
        "cost.html",
        period=period,
        periods=spending.PERIODS,
        unit=unit,
        units=spending.UNITS,
        usage=days,
        by_day=by_day,
        drawing=spending.draw_days(by_day, unit, view.words, days.currency_code),
        day_label=lambda key: spending.day_label(key, view.words),
        by_provider=spending.largest(providers.buckets, unit),
        by_thread=list(zip(top, named, strict=False)),
        more_threads=max(0, len(top) - THREADS),
        write=spending.writer(unit, days.currency_code),
        worth=spending.worth(unit),
        figures=figures,
        owed=status,
    )


async def work(view: View) -> Response:
    """How the work stands, for a page that watches it."""
    status = await view.memory.ops.worker_status(view.scope)
    return view.render("part_work.html" if view.htmx else "work.html", owed=status)


async def thread(view: View) -> Response:
    """The curve of one conversation: its first thousand turns."""
    thread_id = view.request.path_params["id"]
    thread, runs, ops, sums = await asyncio.gather(
        view.memory.threads.get(view.scope, thread_id),
        _first(view.memory.threads.runs(view.scope, thread_id, view=pb.RUN_VIEW_BASIC, page_size=200), MAX_TURNS),
        _first(view.memory.ops.memory_ops(view.scope, thread_id=thread_id, page_size=200), MAX_CALLS),
        view.memory.ops.usage(view.scope, thread_id=thread_id),
    )
    found = curve(runs, ops)
    return view.render(
        "curve.html",
        thread=thread,
        curve=found,
        turns=spending.draw_turns(found, view.words),
        running=spending.draw_running(found, view.words),
        sums=sums,
        cut=thread.run_count > len(runs) or len(ops) == MAX_CALLS,
        figures=figures,
    )


async def calls(view: View) -> Response:
    """Memory's own calls of a model, newest first, a page at a time."""
    thread_id = view.param("thread", 64)
    described = OpsCalls.memory_ops.describe(None, view.scope, thread_id=thread_id, page_size=CALLS)
    (ops, following), sums = await asyncio.gather(
        one_page(view.memory, described, view.param("page")), view.memory.ops.usage(view.scope, thread_id=thread_id)
    )
    return view.render(
        "calls.html",
        ops=ops,
        following=following,
        paged=bool(view.param("page")),
        thread_id=thread_id,
        currency=sums.currency_code,
        figures=figures,
    )


async def _first(items: AsyncIterator[T], most: int) -> Sequence[T]:
    found: list[T] = []
    async for item in items:
        found.append(item)
        if len(found) == most:
            break
    return found


def _period(view: View) -> int:
    asked = view.param("days", 3)
    return int(asked) if asked.isdecimal() and int(asked) in spending.PERIODS else spending.DEFAULT_PERIOD


ROUTES = [
    scoped("/cost", cost),
    scoped("/cost/work", work),
    scoped("/cost/calls", calls),
    scoped("/cost/threads/{id}", thread),
]
