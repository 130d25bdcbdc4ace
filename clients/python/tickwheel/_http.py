"""The blocking transport: a pool of HTTP/1.1 connections on ``http.client``."""

from __future__ import annotations

import http.client
import select
import socket
import ssl
import threading
from typing import Dict, Iterator, List, Mapping, NamedTuple, Optional
from urllib.parse import urlsplit

from .errors import Aborted, ConnectionFailed


class Response(NamedTuple):
    status: int
    headers: Dict[str, str]
    body: bytes


def is_readable(sock: socket.socket) -> bool:
    """Tells whether a read would return at once. An idle connection that can be read was closed by
    the server."""
    if hasattr(select, "poll"):
        # Other than ``select``, it takes descriptors of any size.
        poll = select.poll()
        poll.register(sock, select.POLLIN)
        return bool(poll.poll(0))
    return bool(select.select([sock], [], [], 0)[0])


class Abort:
    """Ends a request from another thread while it waits for its answer."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._connection: Optional[http.client.HTTPConnection] = None
        self.is_set = False

    def abort(self) -> None:
        """Ends the request that is attached now, and every later one."""
        with self._lock:
            self.is_set = True
            sock = self._connection.sock if self._connection else None
            if sock is not None:
                try:
                    sock.shutdown(socket.SHUT_RDWR)
                except OSError:
                    pass  # The server has closed it already.

    def attach(self, connection: Optional[http.client.HTTPConnection]) -> None:
        with self._lock:
            self._connection = connection
            if self.is_set and connection is not None:
                raise Aborted("the request was aborted")


class HttpTransport:
    """Sends requests to one server and reuses its connections."""

    def __init__(self, url: str, context: Optional[ssl.SSLContext] = None) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"{url!r} is not a URL of a server: write it like http://127.0.0.1:7300")
        self._host, self._port = parts.hostname, parts.port
        self._prefix = parts.path.rstrip("/")
        self._context = context or (ssl.create_default_context() if parts.scheme == "https" else None)
        self._idle: List[http.client.HTTPConnection] = []
        self._lock = threading.Lock()

    def _connect(self, timeout: float) -> http.client.HTTPConnection:
        connection: http.client.HTTPConnection
        if self._context is not None:
            connection = http.client.HTTPSConnection(
                self._host, self._port, timeout=timeout, context=self._context
            )
        else:
            connection = http.client.HTTPConnection(self._host, self._port, timeout=timeout)
        try:
            connection.connect()
        except OSError as error:
            raise ConnectionFailed(f"cannot connect to {self._host}:{self._port}: {error}", False) from error
        connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return connection

    def _take(self, timeout: float) -> http.client.HTTPConnection:
        while True:
            with self._lock:
                connection = self._idle.pop() if self._idle else None
            if connection is None:
                return self._connect(timeout)
            if connection.sock is not None and not is_readable(connection.sock):
                connection.sock.settimeout(timeout)
                return connection
            connection.close()

    def request(
        self, method: str, path: str, body: Optional[bytes], headers: Mapping[str, str],
        timeout: float, abort: Optional[Abort] = None,
    ) -> Response:  # fmt: skip
        """Sends a request and reads its whole answer."""
        connection = self._take(timeout)
        try:
            if abort is not None:
                abort.attach(connection)
            connection.request(method, self._prefix + path, body, dict(headers))
            answer = connection.getresponse()
            content = answer.read()
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            if abort is not None and abort.is_set:
                raise Aborted("the request was aborted") from error
            raise ConnectionFailed(f"{method} {path}: {type(error).__name__}: {error}", True) from error
        except BaseException:
            connection.close()
            raise
        finally:
            if abort is not None:
                abort._connection = None
        fields = {name.lower(): value for name, value in answer.getheaders()}
        if answer.will_close:
            connection.close()
        else:
            with self._lock:
                self._idle.append(connection)
        return Response(answer.status, fields, content)

    def stream(
        self, method: str, path: str, headers: Mapping[str, str], timeout: float, abort: Abort
    ) -> "tuple[Response, Iterator[str]]":
        """Sends a request and returns the head of its answer with an iterator over its lines."""
        connection = self._connect(timeout)
        try:
            abort.attach(connection)
            connection.request(method, self._prefix + path, headers=dict(headers))
            answer = connection.getresponse()
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            raise ConnectionFailed(f"{method} {path}: {error}", True) from error
        fields = {name.lower(): value for name, value in answer.getheaders()}

        def lines() -> Iterator[str]:
            try:
                while True:
                    line = answer.readline()
                    if not line:
                        return
                    yield line.decode("utf-8").rstrip("\r\n")
            except (OSError, http.client.HTTPException) as error:
                if not abort.is_set:
                    raise ConnectionFailed(f"{method} {path}: {error}", True) from error
            finally:
                connection.close()

        content = answer.read() if answer.status != 200 else b""
        return Response(answer.status, fields, content), lines()

    def close(self) -> None:
        """Closes the idle connections."""
        with self._lock:
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()
