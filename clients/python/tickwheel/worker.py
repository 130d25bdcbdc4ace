"""The worker on threads.

Each queue has a thread that reserves jobs, and ``concurrency`` threads that handle them. A reserve
asks for as many jobs as there are free places: ``concurrency`` plus ``prefetch``. One more thread
extends the leases of all jobs in hand when a third of the lease is over.
"""

from __future__ import annotations

import logging
import queue as queues
import signal
import threading
import time
from typing import Any, Callable, Dict, List, Optional

from . import _calls as calls
from . import types as t
from ._http import Abort
from ._work import (
    DEFAULT_LEASE, MAX_LIMIT, RESERVE_WAIT, Settings, default_name, outcome,
)  # fmt: skip
from .client import Client
from .errors import Aborted, StaleLease, TickwheelError

log = logging.getLogger("tickwheel.worker")

Handler = Callable[[t.Job], Any]
Middleware = Callable[[t.Job, Handler], Any]


class _InHand:
    """A job that this worker has leased."""

    def __init__(self, delivery: t.Delivery, settings: Settings) -> None:
        self.delivery, self.settings = delivery, settings
        self.extend_at = time.monotonic() + settings.extend_every
        self.is_lost = False


class Worker:
    """Handles jobs of any number of queues.

    A handler takes a job and returns its result, or ``None``. If it raises ``RetryJob``, ``DeadJob``
    or ``ReleaseJob``, that happens to the job; any other exception fails the attempt, and the job is
    retried by its policy. While a handler runs, its lease is extended. Delivery is at least once, so
    handlers must be idempotent.
    """

    def __init__(
        self,
        client: Client,
        *,
        name: Optional[str] = None,
        concurrency: int = 4,
        prefetch: int = 0,
        lease: t.Duration = DEFAULT_LEASE,
        grace: float = 30.0,
    ) -> None:
        self.client = client
        self.name = name or default_name()
        self._defaults = (concurrency, prefetch, lease)
        self._grace = grace
        self._settings: List[Settings] = []
        self._middleware: List[Middleware] = []
        self._in_hand: Dict[str, _InHand] = {}
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._finished = threading.Event()
        self._abort = [Abort()]

    def handler(
        self,
        queue: str,
        *,
        concurrency: Optional[int] = None,
        prefetch: Optional[int] = None,
        lease: Optional[t.Duration] = None,
    ) -> Callable[[Handler], Handler]:
        """Registers a function as the handler of a queue: ``@worker.handler("orders")``."""

        def register(function: Handler) -> Handler:
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

    def use(self, middleware: Middleware) -> Middleware:
        """Wraps all handlers: ``middleware(job, next)`` calls ``next(job)``. The first one that is
        registered is the outermost."""
        self._middleware.append(middleware)
        return middleware

    def is_lost(self, job: t.Job) -> bool:
        """Returns whether the lease of a job is lost. A long handler can check this and give up."""
        with self._lock:
            held = self._in_hand.get(job.id)
        return held is None or held.is_lost

    def run(self, *, signals: bool = True) -> None:
        """Works until ``stop`` is called or, with ``signals``, SIGINT or SIGTERM arrives."""
        if not self._settings:
            raise ValueError("the worker has no handler: register one with @worker.handler(queue)")
        if signals and threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                signal.signal(number, lambda *_: self._begin_stop())
        threads = [threading.Thread(target=self._extend_leases, daemon=True)]
        handlers: List[threading.Thread] = []
        for settings in self._settings:
            inbox: "queues.Queue[Optional[_InHand]]" = queues.Queue()
            places = threading.Semaphore(settings.concurrency + settings.prefetch)
            abort = Abort()
            self._abort.append(abort)
            threads.append(threading.Thread(target=self._fetch, args=(settings, inbox, places, abort), daemon=True))
            handlers += [
                threading.Thread(target=self._handle_all, args=(inbox, places), daemon=True)
                for _ in range(settings.concurrency)
            ]
        if self._stopping.is_set():
            self._begin_stop()
        for thread in threads + handlers:
            thread.start()
        while not self._stopping.wait(1.0):
            pass
        for thread in threads[1:]:
            thread.join()
        deadline = time.monotonic() + self._grace
        for thread in handlers:
            thread.join(max(0.0, deadline - time.monotonic()))
        self._finished.set()
        self._release_rest()
        threads[0].join()

    def start(self) -> threading.Thread:
        """Runs the worker in a thread of its own, which ``stop`` ends."""
        thread = threading.Thread(target=self.run, kwargs={"signals": False}, daemon=True)
        thread.start()
        return thread

    def stop(self) -> None:
        """Stops reserving, lets running handlers finish, and releases the jobs that have not been
        started. Handlers that take longer than ``grace`` seconds lose their job."""
        self._begin_stop()

    def _begin_stop(self) -> None:
        self._stopping.set()
        for abort in self._abort:
            abort.abort()

    def _fetch(
        self, settings: Settings, inbox: Any, places: threading.Semaphore, abort: Abort
    ) -> None:
        failures = 0
        while not self._stopping.is_set():
            if not places.acquire(timeout=0.2):
                continue
            count = 1
            while count < MAX_LIMIT and places.acquire(blocking=False):
                count += 1
            call = calls.reserve(settings.queue, count, settings.lease, RESERVE_WAIT, self.name)
            deliveries: List[t.Delivery] = []
            try:
                deliveries = self.client._do(call, abort, retry=False)
                failures = 0
            except Aborted:
                pass
            except Exception as error:
                # The server may be restarting: keep asking, less and less often.
                delay = calls.retry_delay(failures, error)
                log.warning("cannot reserve from %s, next try in %.1f s: %s", settings.queue, delay, error)
                failures = min(failures + 1, 10)
                self._stopping.wait(delay)
            for delivery in deliveries:
                held = _InHand(delivery, settings)
                with self._lock:
                    self._in_hand[delivery.job.id] = held
                inbox.put(held)
            for _ in range(count - len(deliveries)):
                places.release()
        for _ in range(settings.concurrency):
            inbox.put(None)

    def _handle_all(self, inbox: Any, places: threading.Semaphore) -> None:
        while True:
            held = inbox.get()
            if held is None:
                return
            try:
                # What has not been started when the worker stops is released.
                if not self._stopping.is_set():
                    self._handle(held)
            finally:
                places.release()

    def _handle(self, held: _InHand) -> None:
        delivery, result, error = held.delivery, None, None
        token = calls.current_traceparent.set(delivery.job.headers.get("traceparent"))
        try:
            result = self._wrapped(held.settings.handler)(delivery.job)
        except BaseException as raised:
            error = raised
        finally:
            calls.current_traceparent.reset(token)
        if held.is_lost:
            self._forget(held)
            log.warning("job %s: the lease was lost while its handler ran", delivery.job.id)
            return
        try:
            call = outcome(delivery, result, error)
        except (TypeError, ValueError) as wrong:
            call = outcome(delivery, None, TypeError(f"the result is not JSON: {wrong}"))
        try:
            self.client._do(call)
        except StaleLease:
            log.warning("job %s: its lease expired before its outcome was reported", delivery.job.id)
        except TickwheelError as failure:
            log.error("job %s: its outcome cannot be reported: %s", delivery.job.id, failure)
        finally:
            self._forget(held)

    def _wrapped(self, handler: Handler) -> Handler:
        for middleware in reversed(self._middleware):
            handler = _wrap(middleware, handler)
        return handler

    def _forget(self, held: _InHand) -> None:
        with self._lock:
            if self._in_hand.get(held.delivery.job.id) is held:
                del self._in_hand[held.delivery.job.id]

    def _extend_leases(self) -> None:
        while not self._finished.is_set():
            now = time.monotonic()
            with self._lock:
                due = [held for held in self._in_hand.values() if held.extend_at <= now and not held.is_lost]
                rest = [held.extend_at for held in self._in_hand.values() if held.extend_at > now]
            if due:
                self._extend(due)
            self._finished.wait(min([0.25, *(max(0.005, at - now) for at in rest)]))

    def _extend(self, due: List[_InHand]) -> None:
        items = [
            {"id": it.delivery.job.id, "token": it.delivery.token, "lease": it.settings.lease}
            for it in due
        ]
        try:
            results = self.client._do(calls.batch("extend", items), retry=False)
        except TickwheelError as error:
            log.warning("cannot extend %d leases: %s", len(due), error)
            for held in due:
                held.extend_at = time.monotonic() + min(1.0, held.settings.extend_every / 4)
            return
        for held, answer in zip(due, results):
            held.extend_at = time.monotonic() + held.settings.extend_every
            held.is_lost = isinstance(answer, t.Err)

    def _release_rest(self) -> None:
        with self._lock:
            rest = [held for held in self._in_hand.values() if not held.is_lost]
            for held in rest:
                held.is_lost = True
            self._in_hand.clear()
        if rest:
            try:
                self.client.release_many(
                    [{"id": it.delivery.job.id, "token": it.delivery.token} for it in rest]
                )
            except TickwheelError as error:
                log.warning("cannot release %d jobs, their leases will expire: %s", len(rest), error)


def _wrap(middleware: Middleware, handler: Handler) -> Handler:
    return lambda job: middleware(job, handler)
