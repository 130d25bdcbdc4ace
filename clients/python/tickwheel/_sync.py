"""What the blocking client stands on: retries, batching and event streams."""

from __future__ import annotations

import json
import os
import ssl
import threading
import time
from typing import Any, Iterator, List, Optional, Sequence, TypeVar

from . import _calls as calls
from . import types as t
from ._batcher import Answer, Batch, is_refused_as_a_whole, size_of
from ._calls import Call
from ._http import Abort, HttpTransport
from .errors import ApiError, ConnectionFailed, error_of

T = TypeVar("T")
S = TypeVar("S", bound="SyncBase")

VERSION = "0.1.0"
USER_AGENT = f"tickwheel-python/{VERSION}"
DEFAULT_URL = "http://127.0.0.1:7300"


class Events:
    """A stream of events. Iterate over it; ``close`` ends it, also from another thread."""

    def __init__(self, lines: Iterator[str], abort: Abort) -> None:
        self._lines, self._abort = lines, abort

    def __iter__(self) -> Iterator[t.Event]:
        parser = calls.EventParser()
        for line in self._lines:
            event = parser.feed(line)
            if event is not None:
                yield event

    def close(self) -> None:
        """Ends the stream."""
        self._abort.abort()

    def __enter__(self) -> "Events":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()


class SyncBase:
    """The part of the blocking client that does I/O."""

    def __init__(
        self,
        url: Optional[str] = None,
        token: Optional[str] = None,
        *,
        timeout: float = 30.0,
        retry_for: float = 30.0,
        batch_window: float = 0.001,
        ssl_context: Optional[ssl.SSLContext] = None,
        transport: Any = None,
    ) -> None:
        url = url or os.environ.get("TICKWHEEL_URL") or DEFAULT_URL
        token = token or os.environ.get("TICKWHEEL_TOKEN")
        self.url = url.rstrip("/")
        self._transport = transport or HttpTransport(url, ssl_context)
        self._headers = {"user-agent": USER_AGENT, "accept": "application/json"}
        if token:
            self._headers["authorization"] = f"Bearer {token}"
        self._timeout, self._retry_for = timeout, retry_for
        self._window = batch_window
        self._batch: Optional[_OpenBatch] = None
        self._batch_lock = threading.Lock()

    def __enter__(self: S) -> S:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def close(self) -> None:
        """Closes the connections."""
        self._transport.close()

    def _do(self, call: Call[T], abort: Optional[Abort] = None, retry: bool = True) -> T:
        deadline = time.monotonic() + (self._retry_for if retry else 0)
        attempt = 0
        headers = {**self._headers, **call.headers}
        while True:
            refused: Optional[ApiError] = None
            failure: Exception
            try:
                answer = self._transport.request(
                    call.method, call.path, call.body, headers, self._timeout + call.wait, abort
                )
                if answer.status < 400:
                    return call.decode(json.loads(answer.body))
                refused = calls.problem_of(answer.status, answer.headers, answer.body)
                failure = refused
                again = calls.is_retried(call, refused)
            except ConnectionFailed as error:
                failure = error
                again = call.repeatable or not error.sent
            delay = calls.retry_delay(attempt, refused)
            if not again or time.monotonic() + delay > deadline:
                raise failure
            time.sleep(delay)
            attempt += 1

    def _put_batched(self, job: Any) -> t.PutResult:
        size = size_of(job)
        with self._batch_lock:
            batch = self._batch
            leads = batch is None or not batch.takes(size)
            if leads:
                batch = self._batch = _OpenBatch()
            assert batch is not None
            position = batch.add(job, size)
        if leads:
            time.sleep(self._window)
            with self._batch_lock:
                if self._batch is batch:
                    self._batch = None
            try:
                batch.answers = self._send(batch.jobs)
            except BaseException as error:
                batch.answers = [error] * len(batch.jobs)
            batch.done.set()
        else:
            batch.done.wait()
        answer = batch.answers[position]
        if isinstance(answer, BaseException):
            raise answer
        return answer

    def _send(self, jobs: Sequence[Any]) -> List[Answer]:
        if len(jobs) > 1:
            try:
                results = self._do(calls.put_many(jobs, None))
                return [error_of(it.error) if isinstance(it, t.Err) else it.ok for it in results]
            except ApiError as error:
                if not is_refused_as_a_whole(error):
                    raise
        answers: List[Answer] = []
        for job in jobs:
            try:
                answers.append(self._do(calls.put(job, None)))
            except (ApiError, ConnectionFailed) as error:
                answers.append(error)
        return answers

    def events(
        self,
        queue: Optional[str] = None,
        *,
        last_event_id: Optional[str] = None,
        event: Sequence[str] = (),
        state: Optional[str] = None,
        key: Optional[str] = None,
        key_prefix: Optional[str] = None,
        error: Optional[str] = None,
    ) -> Events:
        """Opens the stream of events, of one queue or of all. ``event`` has the names of the wanted
        ones, such as ``["failed", "dead"]``; ``error`` is a part of the error of a failure."""
        filters = {"state": state, "key": key, "key_prefix": key_prefix, "error": error}
        return self._follow(calls.events(queue, last_event_id, event, **filters))

    def target_events(self) -> Events:
        """Opens the stream of the states of all targets. ``data`` of an event has ``target``,
        ``state`` and ``reason``."""
        return self._follow(calls.target_events())

    def _follow(self, call: Call[None]) -> Events:
        abort = Abort()
        headers = {**self._headers, **call.headers, "accept": "text/event-stream"}
        # A quiet stream sends its position every 15 seconds.
        head, lines = self._transport.stream("GET", call.path, headers, max(self._timeout, 60), abort)
        if head.status != 200:
            raise calls.problem_of(head.status, head.headers, head.body)
        return Events(lines, abort)


class _OpenBatch(Batch):
    """A batch whose callers wait in threads."""

    def __init__(self) -> None:
        super().__init__()
        self.done = threading.Event()
        self.answers: List[Answer] = []
