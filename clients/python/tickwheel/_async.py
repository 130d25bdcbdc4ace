"""What the asyncio client stands on: an HTTP/1.1 transport, retries, batching and event streams."""

from __future__ import annotations

import asyncio
import json
import os
import ssl
from typing import Any, AsyncIterator, Dict, List, Mapping, Optional, Sequence, Tuple, TypeVar
from urllib.parse import urlsplit

from . import _calls as calls
from . import types as t
from ._batcher import Answer, Batch, is_refused_as_a_whole, size_of
from ._calls import Call
from ._http import Response, is_readable
from ._sync import DEFAULT_URL, USER_AGENT
from .errors import ApiError, ConnectionFailed, error_of

T = TypeVar("T")
S = TypeVar("S", bound="AsyncBase")

_Streams = Tuple[asyncio.StreamReader, asyncio.StreamWriter]
_BROKEN = (OSError, EOFError, ValueError, asyncio.LimitOverrunError)


class AsyncHttpTransport:
    """Sends requests to one server and reuses its connections."""

    def __init__(self, url: str, context: Optional[ssl.SSLContext] = None) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"{url!r} is not a URL of a server: write it like http://127.0.0.1:7300")
        self._host = parts.hostname
        self._port = parts.port or (443 if parts.scheme == "https" else 80)
        self._name = parts.netloc.rpartition("@")[2]
        self._prefix = parts.path.rstrip("/")
        self._context = context or (ssl.create_default_context() if parts.scheme == "https" else None)
        self._idle: List[_Streams] = []

    async def _connect(self) -> _Streams:
        try:
            return await asyncio.open_connection(self._host, self._port, ssl=self._context)
        except OSError as error:
            raise ConnectionFailed(f"cannot connect to {self._host}:{self._port}: {error}", False) from error

    async def _take(self) -> _Streams:
        while self._idle:
            reader, writer = self._idle.pop()
            if not reader.at_eof() and not writer.is_closing() and not self._is_closed(writer):
                return reader, writer
            writer.close()
        return await self._connect()

    @staticmethod
    def _is_closed(writer: asyncio.StreamWriter) -> bool:
        """Tells whether the server has closed an idle connection, even if the event loop was too
        busy to notice."""
        sock = writer.get_extra_info("socket")
        return sock is not None and is_readable(sock)

    def _write(
        self, writer: asyncio.StreamWriter, method: str, path: str, body: Optional[bytes],
        headers: Mapping[str, str],
    ) -> None:  # fmt: skip
        lines = [f"{method} {self._prefix}{path} HTTP/1.1", f"host: {self._name}"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        if body is not None or method in ("POST", "PUT", "PATCH"):
            lines.append(f"content-length: {len(body or b'')}")
        if any("\r" in line or "\n" in line for line in lines):
            raise ValueError("a header must not contain line breaks")
        writer.write("\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + (body or b""))

    @staticmethod
    async def _head(reader: asyncio.StreamReader) -> Tuple[int, Dict[str, str]]:
        text = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        first, *lines = text.split("\r\n")
        headers = {}
        for line in lines:
            name, _, value = line.partition(":")
            if name:
                headers[name.strip().lower()] = value.strip()
        return int(first.split(" ")[1]), headers

    @staticmethod
    async def _chunks(reader: asyncio.StreamReader) -> AsyncIterator[bytes]:
        while True:
            size = int((await reader.readuntil(b"\r\n")).split(b";")[0], 16)
            if size == 0:
                while (await reader.readuntil(b"\r\n")) != b"\r\n":
                    pass
                return
            yield await reader.readexactly(size)
            await reader.readexactly(2)

    async def request(
        self, method: str, path: str, body: Optional[bytes], headers: Mapping[str, str],
        timeout: float,
    ) -> Response:  # fmt: skip
        """Sends a request and reads its whole answer. Cancelling it closes the connection."""
        reader, writer = await self._take()
        is_reusable = False
        try:
            self._write(writer, method, path, body, headers)
            status, fields = await asyncio.wait_for(self._head(reader), timeout)
            if fields.get("transfer-encoding", "").lower() == "chunked":
                content = b"".join([chunk async for chunk in self._chunks(reader)])
            else:
                content = await reader.readexactly(int(fields.get("content-length", "0")))
            is_reusable = fields.get("connection", "").lower() != "close"
            return Response(status, fields, content)
        except asyncio.TimeoutError as error:
            message = f"{method} {path}: no answer within {timeout} seconds"
            raise ConnectionFailed(message, True) from error
        except _BROKEN as error:
            raise ConnectionFailed(f"{method} {path}: {type(error).__name__}: {error}", True) from error
        finally:
            if is_reusable:
                self._idle.append((reader, writer))
            else:
                writer.close()

    async def stream(
        self, path: str, headers: Mapping[str, str], timeout: float
    ) -> Tuple[Response, AsyncIterator[str]]:
        """Sends a GET and returns the head of its answer with an iterator over its lines."""
        reader, writer = await self._connect()
        try:
            self._write(writer, "GET", path, None, headers)
            status, fields = await asyncio.wait_for(self._head(reader), timeout)
            content = b""
            if status != 200:
                content = await reader.readexactly(int(fields.get("content-length", "0")))
                writer.close()
        except _BROKEN + (asyncio.TimeoutError,) as error:
            writer.close()
            raise ConnectionFailed(f"GET {path}: {error}", True) from error

        async def lines() -> AsyncIterator[str]:
            rest = b""
            try:
                async for chunk in self._chunks(reader):
                    *whole, rest = (rest + chunk).split(b"\n")
                    for line in whole:
                        yield line.decode("utf-8").rstrip("\r")
            except _BROKEN as error:
                raise ConnectionFailed(f"GET {path}: {error}", True) from error
            finally:
                writer.close()

        return Response(status, fields, content), lines()

    async def close(self) -> None:
        """Closes the idle connections."""
        idle, self._idle = self._idle, []
        for _, writer in idle:
            writer.close()
        closing = (writer.wait_closed() for _, writer in idle)
        await asyncio.gather(*closing, return_exceptions=True)


class AsyncBase:
    """The part of the asyncio client that does I/O."""

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
        self._transport = transport or AsyncHttpTransport(url, ssl_context)
        self._headers = {"user-agent": USER_AGENT, "accept": "application/json"}
        if token:
            self._headers["authorization"] = f"Bearer {token}"
        self._timeout, self._retry_for = timeout, retry_for
        self._window = batch_window
        self._batch: Optional[_OpenBatch] = None

    async def __aenter__(self: S) -> S:
        return self

    async def __aexit__(self, *_: Any) -> None:
        await self.close()

    async def close(self) -> None:
        """Closes the connections."""
        await self._transport.close()

    async def _do(self, call: Call[T], retry: bool = True) -> T:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + (self._retry_for if retry else 0)
        attempt = 0
        headers = {**self._headers, **call.headers}
        while True:
            refused: Optional[ApiError] = None
            failure: Exception
            try:
                answer = await self._transport.request(
                    call.method, call.path, call.body, headers, self._timeout + call.wait
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
            if not again or loop.time() + delay > deadline:
                raise failure
            await asyncio.sleep(delay)
            attempt += 1

    async def _put_batched(self, job: Any) -> t.PutResult:
        size = size_of(job)
        batch = self._batch
        if batch is None or not batch.takes(size):
            batch = self._batch = _OpenBatch()
            # A task of its own: a caller that is cancelled must not take the others with it.
            batch.task = asyncio.ensure_future(self._send_soon(batch))
        position = batch.add(job, size)
        assert batch.task is not None
        answers = await asyncio.shield(batch.task)
        answer = answers[position]
        if isinstance(answer, BaseException):
            raise answer
        return answer

    async def _send_soon(self, batch: "_OpenBatch") -> List[Answer]:
        await asyncio.sleep(self._window)
        if self._batch is batch:
            self._batch = None
        try:
            return await self._send(batch.jobs)
        except Exception as error:
            return [error] * len(batch.jobs)

    async def _send(self, jobs: Sequence[Any]) -> List[Answer]:
        if len(jobs) > 1:
            try:
                results = await self._do(calls.put_many(jobs, None))
                return [error_of(it.error) if isinstance(it, t.Err) else it.ok for it in results]
            except ApiError as error:
                if not is_refused_as_a_whole(error):
                    raise
        answers: List[Answer] = []
        for job in jobs:
            try:
                put: t.PutResult = await self._do(calls.put(job, None))
                answers.append(put)
            except (ApiError, ConnectionFailed) as error:
                answers.append(error)
        return answers

    async def events(
        self,
        queue: Optional[str] = None,
        *,
        last_event_id: Optional[str] = None,
        event: Sequence[str] = (),
        state: Optional[str] = None,
        key: Optional[str] = None,
        key_prefix: Optional[str] = None,
        error: Optional[str] = None,
    ) -> AsyncIterator[t.Event]:
        """Opens the stream of events, of one queue or of all. Its ``aclose`` ends it. ``event`` has
        the names of the wanted ones, such as ``["failed", "dead"]``; ``error`` is a part of the error
        of a failure."""
        filters = {"state": state, "key": key, "key_prefix": key_prefix, "error": error}
        return await self._follow(calls.events(queue, last_event_id, event, **filters))

    async def target_events(self) -> AsyncIterator[t.Event]:
        """Opens the stream of the states of all targets. ``data`` of an event has ``target``,
        ``state`` and ``reason``."""
        return await self._follow(calls.target_events())

    async def _follow(self, call: Call[None]) -> AsyncIterator[t.Event]:
        headers = {**self._headers, **call.headers, "accept": "text/event-stream"}
        head, lines = await self._transport.stream(call.path, headers, self._timeout)
        if head.status != 200:
            raise calls.problem_of(head.status, head.headers, head.body)
        return self._events(lines)

    @staticmethod
    async def _events(lines: AsyncIterator[str]) -> AsyncIterator[t.Event]:
        parser = calls.EventParser()
        async for line in lines:
            event = parser.feed(line)
            if event is not None:
                yield event


class _OpenBatch(Batch):
    """A batch whose callers wait in tasks."""

    def __init__(self) -> None:
        super().__init__()
        self.task: "Optional[asyncio.Future[List[Answer]]]" = None
