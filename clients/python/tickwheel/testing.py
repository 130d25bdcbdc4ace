"""Support for tests: a real server whose time stands still, and an in-memory fake.

``Server`` starts the real binary with ``--clock manual``, so that a test of a 30-minute timeout
takes milliseconds. ``Fake`` needs no binary: it keeps jobs in memory, for unit tests of producers
and handlers. It has jobs, keys, leases, retries, pausing and lists; it has no schedules, pacing,
follow-ups, events, tokens or statistics, and answers those with 501.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import tempfile
import threading
from typing import Any, List, Optional, Sequence

from ._fake import FakeTransport
from .aio import AsyncClient
from .client import Client
from .types import Clock, Duration

__all__ = ["Fake", "Server"]

START_SECONDS = 60


class Server:
    """A ``tickwheel serve --clock manual`` on a free port, with a data directory of its own.

    ``binary`` defaults to the environment variable ``TICKWHEEL_BIN``, then to ``tickwheel`` on the
    path. With ``manual_clock=False`` the server follows real time.
    """

    def __init__(
        self, binary: Optional[str] = None, *, args: Sequence[str] = (), manual_clock: bool = True
    ) -> None:
        self._binary = binary or os.environ.get("TICKWHEEL_BIN") or "tickwheel"
        self._args = ["--clock", "manual", *args] if manual_clock else list(args)
        self._data = tempfile.mkdtemp(prefix="tickwheel-test-")
        self._listen = "127.0.0.1:0"
        self.url = ""
        try:
            self.start()
        except BaseException:
            shutil.rmtree(self._data, ignore_errors=True)
            raise

    def start(self) -> None:
        """Starts the server again after ``stop`` or ``kill``, on the same port and directory."""
        environment = {k: v for k, v in os.environ.items() if not k.startswith("TICKWHEEL_")}
        command = [self._binary, "serve", "--listen", self._listen, "--access-log", "none"]
        command += ["--data", self._data, *self._args]
        try:
            self._process = subprocess.Popen(
                command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE, text=True, encoding="utf-8",
            )  # fmt: skip
        except FileNotFoundError:
            raise FileNotFoundError(
                f"{self._binary!r} does not exist: set TICKWHEEL_BIN to the tickwheel binary"
            ) from None
        self._log: List[str] = []
        listening = threading.Event()
        threading.Thread(target=self._read_log, args=(listening,), daemon=True).start()
        if not listening.wait(START_SECONDS) or not self.url:
            self._process.kill()
            raise RuntimeError("the server did not start:\n" + "".join(self._log))

    def _read_log(self, listening: threading.Event) -> None:
        stream = self._process.stderr
        assert stream is not None
        for line in stream:
            self._log.append(line)
            found = re.search(r"listening on (https?://(\S+))", line)
            if found:
                self.url, self._listen = found[1], found[2]
                listening.set()
        listening.set()
        stream.close()

    def client(self, **options: Any) -> Client:
        """Returns a client of this server."""
        return Client(self.url, **options)

    def async_client(self, **options: Any) -> AsyncClient:
        """Returns an asyncio client of this server."""
        return AsyncClient(self.url, **options)

    def advance(self, by: Duration) -> Clock:
        """Advances the clock, and returns when everything that is due is done."""
        with self.client() as client:
            return client.advance(by)

    def stop(self) -> None:
        """Stops the server as an operator would."""
        self._process.send_signal(signal.SIGTERM)
        self._process.wait(START_SECONDS)

    def kill(self) -> None:
        """Kills the server, as a crash would."""
        self._process.kill()
        self._process.wait()

    def close(self) -> None:
        """Kills the server and removes its data."""
        self.kill()
        shutil.rmtree(self._data, ignore_errors=True)

    def __enter__(self) -> "Server":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()


class Fake:
    """An in-memory stand-in for a server. Its clock starts at a fixed time and stands still."""

    def __init__(self) -> None:
        self._transport = FakeTransport()

    def client(self, **options: Any) -> Client:
        """Returns a client of the fake."""
        return Client("http://fake", transport=self._transport, **options)

    def async_client(self, **options: Any) -> AsyncClient:
        """Returns an asyncio client of the fake."""
        return AsyncClient("http://fake", transport=self._transport.for_asyncio(), **options)

    def advance(self, by: Duration) -> Clock:
        """Advances the clock: jobs become ready, and leases expire."""
        return self.client().advance(by)

    def close(self) -> None:
        """Does nothing; for symmetry with ``Server``."""

    def __enter__(self) -> "Fake":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()
