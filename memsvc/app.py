"""The only builder: settings, store, worker, server, in this order; it stops them in reverse.

Everything that lives as long as the process is made here and handed down; no module reaches for a global.
"""

from __future__ import annotations

import asyncio
import gc
import os
import resource
import signal
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass

import structlog

from memsvc import config, exchange, metrics, retention
from memsvc.auth import Gate
from memsvc.config import Settings
from memsvc.errors import MemsvcError, SettingWrong
from memsvc.jobs import Job, JobKind, Jobs
from memsvc.llm import Models, ProviderConfig
from memsvc.memory import Memory
from memsvc.model import RunOutcome, Scope
from memsvc.modelwork import ModelWork
from memsvc.rpc.core import CoreService
from memsvc.rpc.guard import Guard
from memsvc.rpc.memory import MemoryService
from memsvc.rpc.ops import OpsService
from memsvc.rpc.recall import RecallService
from memsvc.rpc.threads import ThreadService
from memsvc.rules.shown import Renderer
from memsvc.server import Server, Services
from memsvc.status import Status
from memsvc.store import Recorded, Store, open_store
from memsvc.tls import Certificates
from memsvc.tokens import Tokenizer
from memsvc.touches import Touches
from memsvc.worker import Worker

log = structlog.get_logger()

SWITCH_SECONDS = 0.0005
OTHER_DESCRIPTORS = 100
"""What the daemon opens besides connections: its database, its providers, what the runtime needs."""
BACKLOG_SECONDS = 5.0
"""How old the metrics of the backlog may be."""


def now_us() -> int:
    """Returns the wall clock, in microseconds since the epoch."""
    return time.time_ns() // 1000


@dataclass(frozen=True)
class Daemon:
    """A running daemon, for those who started it: the address it listens on, and what is inside."""

    address: str
    store: Store
    worker: Worker[Job]
    gate: Gate


async def serve(settings: Settings) -> None:
    """Runs the daemon until SIGTERM or SIGINT; StartError where it cannot start."""
    # Folding and indexing compute on threads of their own. With the interpreter's default of 5 ms, each hop of a call
    # between threads could wait that long for one of them.
    sys.setswitchinterval(SWITCH_SECONDS)
    _raise_descriptors(settings.max_connections)
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    # A hangup ends a process that does not listen to it, and it may come before there is anything to reload.
    hung_up = asyncio.Event()
    loop.add_signal_handler(signal.SIGHUP, hung_up.set)
    async with running(settings) as daemon:
        gc.freeze()  # What is made by now stays as long as the process: no collection has to walk it again.
        loop.add_signal_handler(signal.SIGHUP, _reload, daemon.gate)
        if hung_up.is_set():
            _reload(daemon.gate)
        await stop.wait()
        log.info("stopping")
    log.info("stopped")


def _raise_descriptors(connections: int) -> None:
    """Lets the process have the descriptors that its connections take: what it is given may be 1,024 or fewer."""
    wanted = connections + OTHER_DESCRIPTORS
    given, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    if resource.RLIM_INFINITY in (given, most) or given >= wanted:
        return
    if most < wanted:
        log.warning("few_descriptors", allowed=most, max_connections=connections)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(wanted, most), most))


@asynccontextmanager
async def running(settings: Settings, clock: Callable[[], int] = now_us) -> AsyncIterator[Daemon]:
    """Runs a daemon for as long as the block lasts. `clock` gives microseconds since the epoch."""
    tokenizer = Tokenizer(settings.tokenizer)
    renderer = Renderer.of(tokenizer)
    certificates = Certificates.open(settings)
    async with AsyncExitStack() as stack:
        store = await open_store(settings.database, renderer, settings.readers)
        stack.push_async_callback(store.close)
        models = _models(settings)
        stack.push_async_callback(models.close)
        touches = Touches(
            store,
            clock,
            lambda scope: worker.enqueue(Job(JobKind.TOUCH, scope)),
            asyncio.get_running_loop().call_later,
        )
        stack.callback(touches.stop)
        means = ModelWork(store, models, settings, tokenizer, clock)
        jobs = Jobs(means, touches)
        worker: Worker[Job] = Worker(jobs.run, clock, settings.retry_first_ms, settings.retry_max_ms)
        stack.push_async_callback(worker.stop, settings.grace_ms)
        followups = FollowUps(worker, jobs)
        if any(limit.retention_days for limit in settings.limits):
            keeping = retention.keep(store, settings, clock, followups.shortened, metrics.clock_doubted)
            retaining = asyncio.create_task(keeping, name="memsvc-retention")
            stack.push_async_callback(_end, retaining)
        if settings.metrics_listen:
            stack.callback(metrics.serve(settings.metrics_listen))
            metrics.watch(
                lambda: len(worker.pending()),
                lambda: len(worker.failures()),
                store.erasure_owed,
                lambda: {provider.name: provider.usable for provider in models.statuses()},
                settings.database,
            )
            counting = asyncio.create_task(_watch_backlog(store, clock), name="memsvc-backlog")
            stack.push_async_callback(_end, counting)
        gate = Gate(settings.credentials)
        services = _services(means, renderer, worker, followups, touches)
        server = Server(services, Guard(gate, settings), settings, certificates)
        for job in await jobs.due():
            worker.enqueue(job)
        worker.start()
        await server.start()
        stack.push_async_callback(server.stop, settings.grace_ms)
        address = f"{config.host_port(settings.listen)[0]}:{server.port}"
        log.info("serving", address=address, database=str(settings.database), pid=os.getpid())
        if gate.open:
            log.warning("no_credentials", effect="whoever reaches this address has every role")
        yield Daemon(address, store, worker, gate)


@dataclass(frozen=True)
class FollowUps:
    """What a change leaves for the worker to do, or to leave."""

    worker: Worker[Job]
    jobs: Jobs

    def recorded(self, scope: Scope, run: Recorded, outcome: RunOutcome) -> None:
        """A run was recorded."""
        if run.fold_due:
            self.worker.enqueue(Job(JobKind.FOLD, scope, run.thread_id))
        if outcome is RunOutcome.COMPLETED and self.jobs.extracts(scope):
            self.worker.enqueue(Job(JobKind.EXTRACT, scope, run.thread_id))

    def shortened(self, scope: Scope, thread_id: str) -> None:
        """A thread lost runs. What its jobs failed on may be what was deleted, so they start afresh."""
        self.thread_gone(scope, thread_id)
        self.worker.enqueue(Job(JobKind.FOLD, scope, thread_id))
        if self.jobs.extracts(scope):
            self.worker.enqueue(Job(JobKind.EXTRACT, scope, thread_id))

    def thread_gone(self, scope: Scope, thread_id: str) -> None:
        """A thread was deleted."""
        for kind in (JobKind.FOLD, JobKind.EXTRACT):
            self.worker.forget(Job(kind, scope, thread_id))

    async def imported(self) -> None:
        """A scope was imported: what that leaves to do is in the database."""
        for job in await self.jobs.due():
            self.worker.enqueue(job)

    def scope_gone(self, scope: Scope) -> None:
        """A scope was deleted."""
        for job in self.worker.pending():
            if job.scope == scope:
                self.worker.forget(job)


def _services(
    means: ModelWork, renderer: Renderer, worker: Worker[Job], after: FollowUps, touches: Touches
) -> Services:
    store, settings, clock = means.store, means.settings, means.now_us
    memory = Memory(store, renderer, settings, clock, after.recorded, touches.shown)

    async def bring(scope: Scope, pieces: AsyncIterator[bytes], by: str) -> exchange.Import:
        done = await exchange.bring(store, renderer, settings, scope, pieces, by, clock())
        log.info("imported", **done.brought._asdict(), refused=done.refused)
        if any(done.brought):
            await after.imported()
        return done

    status = Status(store, worker, means.models, settings.local_fallback, clock)
    return Services(
        memory=MemoryService(memory),
        threads=ThreadService(store, after.shortened, after.thread_gone, settings.page_bytes),
        recall=RecallService(memory),
        core=CoreService(store, clock),
        ops=OpsService(store, settings, status, after.scope_gone, bring),
    )


async def _watch_backlog(store: Store, clock: Callable[[], int]) -> None:
    """Keeps the metrics of runs that wait to be folded: only the database knows them."""
    while True:
        with suppress(MemsvcError):  # a database that cannot be read tells of itself where it is asked for more
            runs, since_us = await store.backlog()
            metrics.backlog(runs, max(0, clock() - since_us) / 1_000_000 if runs else 0)
        await asyncio.sleep(BACKLOG_SECONDS)


async def _end(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.wait([task])


def _models(settings: Settings) -> Models:
    return Models(
        [ProviderConfig(name=name, **entry.model_dump()) for name, entry in settings.providers.items()],
        environ=os.environ,
        deadline_ms=settings.model_deadline_ms,
        circuit_failures=settings.circuit_failures,
        circuit_ms=settings.circuit_ms,
    )


def _reload(gate: Gate) -> None:
    """Takes the credentials anew; a wrong file leaves the old ones in force, and says so."""
    try:
        settings = config.load()
    except SettingWrong as error:
        log.error("reload_refused", why=error.message)
        return
    if gate.open != (not settings.credentials):
        log.error("reload_refused", why="credentials cannot be added to or taken from a running daemon; restart it")
        return
    gate.replace(settings.credentials)
    log.info("reloaded", credentials=len(settings.credentials))
