"""What both workers share, without I/O: what a handler's end means for its job."""

from __future__ import annotations

import os
import socket
from dataclasses import dataclass
from typing import Any, Optional

from . import _calls as calls
from . import types as t
from .errors import DeadJob, ReleaseJob, RetryJob

DEFAULT_LEASE = "30s"
MAX_ERROR_BYTES = 4_096
#: How long a reserve waits for a job. A stopping worker aborts it.
RESERVE_WAIT = "30s"
MAX_LIMIT = 1_000


@dataclass
class Settings:
    """How one queue is worked on."""

    queue: str
    handler: Any
    concurrency: int
    prefetch: int
    lease: t.Duration

    def __post_init__(self) -> None:
        if self.concurrency < 1:
            raise ValueError(f"concurrency must be at least 1, got {self.concurrency}")
        if self.prefetch < 0:
            raise ValueError(f"prefetch must be at least 0, got {self.prefetch}")
        seconds = t.parse_duration(t.duration_to_wire(self.lease)).total_seconds()
        if seconds <= 0:
            raise ValueError(f"lease must be greater than zero, got {self.lease!r}")
        self.extend_every = seconds / 3


def default_name() -> str:
    return f"{socket.gethostname()}-{os.getpid()}"


def bounded_error(error: BaseException) -> str:
    """Returns the error's text within the limit of the API."""
    text = str(error)
    if not isinstance(error, (RetryJob, DeadJob)):
        text = f"{type(error).__name__}: {text}" if text else type(error).__name__
    return text.encode("utf-8", "replace")[:MAX_ERROR_BYTES].decode("utf-8", "ignore")


def outcome(delivery: t.Delivery, result: Any, error: Optional[BaseException]) -> "calls.Call[Any]":
    """Returns the request that reports how a handler ended."""
    id, token = delivery.job.id, delivery.token
    if error is None:
        return calls.ack(id, token, t.UNSET if result is None else result)
    if isinstance(error, ReleaseJob):
        return calls.release(id, token, error.delay)
    if isinstance(error, DeadJob):
        return calls.fail(id, token, bounded_error(error), None, True)
    delay = error.delay if isinstance(error, RetryJob) else None
    return calls.fail(id, token, bounded_error(error), delay, False)
