"""The worker on asyncio: handlers are coroutines.

Each queue has a task that reserves jobs and starts one task per job. A reserve asks for as many jobs
as there are free places: ``concurrency`` plus ``prefetch``; a semaphore lets ``concurrency`` of them
run. One more task extends the leases of all jobs in hand when a third of the lease is over.
"""

from __future__ import annotations

import asyncio
import logging
import signal
from typing import Any, Awaitable, Callable, Dict, List, Optional, Set

from . import _calls as calls
from . import types as t
from ._work import (
    DEFAULT_LEASE, MAX_LIMIT, RESERVE_WAIT, Settings, default_name, outcome,
)  # fmt: skip
from .aio import AsyncClient
from .errors import StaleLease, TickwheelError

log = logging.getLogger("tickwheel.worker")

AsyncHandler = Callable[[t.Job], Awaitable[Any]]
AsyncMiddleware = Callable[[t.Job, AsyncHandler], Awaitable[Any]]


class _InHand:
    """A job that this worker has leased."""

    def __init__(self, delivery: t.Delivery, settings: Settings, now: float) -> None:
        self.delivery, self.settings = delivery, settings
        self.extend_at = now + settings.extend_every
        self.is_lost = False


class AsyncWorker:
    """Handles jobs of any number of queues with coroutines; otherwise like ``Worker``. The handler of
    a job whose lease is lost is cancelled."""

    def __init__(
        self,
        client: AsyncClient,
        *,
        name: Optional[str] = None,
        concurrency: int = 16,
        prefetch: int = 0,
        lease: t.Duration = DEFAULT_LEASE,
        grace: float = 30.0,
    ) -> None:
        self.client = client
        self.name = name or default_name()
        self._defaults = (concurrency, prefetch, lease)
        self._grace = grace
        self._settings: List[Settings] = []
        self._middleware: List[AsyncMiddleware] = []
        self._in_hand: Dict[str, _InHand] = {}
        self._running: Dict[str, "asyncio.Task[None]"] = {}
        self._tasks: Set["asyncio.Task[None]"] = set()
        self._is_stopping = False
        self._wake: Optional[asyncio.Event] = None

    def handler(
        self,
        queue: str,
        *,
        concurrency: Optional[int] = None,
        prefetch: Optional[int] = None,
        lease: Optional[t.Duration] = None,
    ) -> Callable[[AsyncHandler], AsyncHandler]:
        """Registers a coroutine function as the handler of a queue."""

        def register(function: AsyncHandler) -> AsyncHandler:
            if any(settings.queue == queue for settings in self._settings):
                raise ValueError(f"queue {queue!r} has a handler already")
            default_concurrency, default_prefetch, default_lease = self._defaults
            self._settings.append(
                Settings(
                    queue,
                    function,
                    default_concurrency if concurrency is None else concurrency,
                    default_prefetch if prefetch is None else prefetch,
                    default_lease if lease is None else lease,
                )
            )
            return function

        return register

    def use(self, middleware: AsyncMiddleware) -> AsyncMiddleware:
        """Wraps all handlers: ``middleware(job, next)`` awaits ``next(job)``."""
        self._middleware.append(middleware)
        return middleware

    def stop(self) -> None:
        """Stops reserving, lets running handlers finish, and releases the jobs that have not been
        started. Handlers that take longer than ``grace`` seconds are cancelled."""
        self._is_stopping = True
        if self._wake is not None:
            self._wake.set()

    async def run(self, *, signals: bool = False) -> None:
        """Works until ``stop`` is called or, with ``signals``, SIGINT or SIGTERM arrives."""
        if not self._settings:
            raise ValueError("the worker has no handler: register one with @worker.handler(queue)")
        self._wake = asyncio.Event()
        if self._is_stopping:
            self._wake.set()
        loop = asyncio.get_running_loop()
        if signals:
            for number in (signal.SIGINT, signal.SIGTERM):
                loop.add_signal_handler(number, self.stop)
        extender = asyncio.ensure_future(self._extend_leases())
        fetchers = [asyncio.ensure_future(self._fetch(settings)) for settings in self._settings]
        try:
            await self._wake.wait()
        finally:
            self._is_stopping = True
            for task in fetchers:
                task.cancel()
            await asyncio.gather(*fetchers, return_exceptions=True)
            if self._tasks:
                _, late = await asyncio.wait(list(self._tasks), timeout=self._grace)
                await self._release_rest()
                for task in late:
                    task.cancel()
                await asyncio.gather(*late, return_exceptions=True)
            extender.cancel()
            await asyncio.gather(extender, return_exceptions=True)
            await self._release_rest()

    async def _fetch(self, settings: Settings) -> None:
        places = settings.concurrency + settings.prefetch
        freed = asyncio.Event()
        running = asyncio.Semaphore(settings.concurrency)
        in_hand = 0
        failures = 0

        def done(task: "asyncio.Task[None]") -> None:
            nonlocal in_hand
            in_hand -= 1
            self._tasks.discard(task)
            freed.set()

        while True:
            while in_hand >= places:
                freed.clear()
                await freed.wait()
            limit = min(MAX_LIMIT, places - in_hand)
            call = calls.reserve(settings.queue, limit, settings.lease, RESERVE_WAIT, self.name)
            try:
                deliveries = await self.client._do(call, retry=False)
                failures = 0
            except Exception as error:
                delay = calls.retry_delay(failures, error)
                log.warning("cannot reserve from %s, next try in %.1f s: %s", settings.queue, delay, error)
                failures = min(failures + 1, 10)
                await asyncio.sleep(delay)
                continue
            now = asyncio.get_running_loop().time()
            for delivery in deliveries:
                held = _InHand(delivery, settings, now)
                self._in_hand[delivery.job.id] = held
                in_hand += 1
                task = asyncio.ensure_future(self._handle(held, running))
                self._running[delivery.job.id] = task
                self._tasks.add(task)
                task.add_done_callback(done)

    async def _handle(self, held: _InHand, running: asyncio.Semaphore) -> None:
        job = held.delivery.job
        async with running:
            # What has not been started when the worker stops is released.
            if self._is_stopping or held.is_lost:
                return
            result, error = None, None
            calls.current_traceparent.set(job.headers.get("traceparent"))
            try:
                result = await self._wrapped(held.settings.handler)(job)
            except asyncio.CancelledError:
                if held.is_lost:
                    log.warning("job %s: the lease was lost while its handler ran", job.id)
                raise
            except Exception as raised:
                error = raised
            try:
                call = outcome(held.delivery, result, error)
            except (TypeError, ValueError) as wrong:
                call = outcome(held.delivery, None, TypeError(f"the result is not JSON: {wrong}"))
            try:
                await self.client._do(call)
            except StaleLease:
                log.warning("job %s: its lease expired before its outcome was reported", job.id)
            except TickwheelError as failure:
                log.error("job %s: its outcome cannot be reported: %s", job.id, failure)
            finally:
                self._in_hand.pop(job.id, None)
                self._running.pop(job.id, None)

    def _wrapped(self, handler: AsyncHandler) -> AsyncHandler:
        for middleware in reversed(self._middleware):
            handler = _wrap(middleware, handler)
        return handler

    async def _extend_leases(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            held = [it for it in self._in_hand.values() if not it.is_lost]
            due = [it for it in held if it.extend_at <= loop.time()]
            if due:
                await self._extend(due)
            rest = [it.extend_at - loop.time() for it in held if it not in due]
            await asyncio.sleep(min([0.25, *(max(0.005, left) for left in rest)]))

    async def _extend(self, due: List[_InHand]) -> None:
        now = asyncio.get_running_loop().time
        items = [
            {"id": it.delivery.job.id, "token": it.delivery.token, "lease": it.settings.lease}
            for it in due
        ]
        try:
            results = await self.client._do(calls.batch("extend", items), retry=False)
        except TickwheelError as error:
            log.warning("cannot extend %d leases: %s", len(due), error)
            for held in due:
                held.extend_at = now() + min(1.0, held.settings.extend_every / 4)
            return
        for held, answer in zip(due, results):
            held.extend_at = now() + held.settings.extend_every
            id = held.delivery.job.id
            # An error for a job that was reported meanwhile means nothing.
            if isinstance(answer, t.Err) and self._in_hand.get(id) is held:
                held.is_lost = True
                del self._in_hand[id]
                self._running[id].cancel()

    async def _release_rest(self) -> None:
        rest = [held for held in self._in_hand.values() if not held.is_lost]
        self._in_hand.clear()
        if rest:
            items = [{"id": it.delivery.job.id, "token": it.delivery.token} for it in rest]
            try:
                await self.client.release_many(items)
            except TickwheelError as error:
                log.warning("cannot release %d jobs, their leases will expire: %s", len(rest), error)


def _wrap(middleware: AsyncMiddleware, handler: AsyncHandler) -> AsyncHandler:
    return lambda job: middleware(job, handler)
