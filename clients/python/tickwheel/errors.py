"""The errors of the client, and the exceptions by which a handler says what becomes of its job."""

from __future__ import annotations

from typing import Optional

from .types import Duration, Problem


class TickwheelError(Exception):
    """The base of all errors of this library."""


class ApiError(TickwheelError):
    """The server refused a request. ``code`` says why, for programs."""

    def __init__(self, problem: Problem, retry_after: Optional[float] = None) -> None:
        super().__init__(f"{problem.code} ({problem.status}): {problem.detail}")
        self.problem = problem
        self.status = problem.status
        self.code = problem.code
        self.field = problem.field
        #: The job that is in the way, if the server named one.
        self.id = problem.id
        self.retry_after = retry_after


class NotFound(ApiError):
    """There is no such job, queue or schedule."""


class Conflict(ApiError):
    """The job's state or key does not allow the request (409)."""


class StaleLease(Conflict):
    """The lease expired or was released: another worker may have the job."""


class KeyExists(Conflict):
    """A live job has the key; its id is ``id``."""


class ConnectionFailed(TickwheelError):
    """The server cannot be reached, or the connection broke."""

    def __init__(self, message: str, sent: bool) -> None:
        super().__init__(message)
        #: Whether the request may have reached the server.
        self.sent = sent


class Aborted(TickwheelError):
    """The caller ended a request that was waiting for its answer."""


class SignatureError(TickwheelError):
    """A webhook is not signed with the secret, or it is too old."""


class JobOutcome(Exception):
    """The base of exceptions by which a handler decides what becomes of its job."""


class RetryJob(JobOutcome):
    """The attempt failed. The job is retried after ``delay``, by default as its policy says."""

    def __init__(self, error: str = "", delay: Optional[Duration] = None) -> None:
        super().__init__(error)
        self.delay = delay


class DeadJob(JobOutcome):
    """The attempt failed, and no other one can succeed."""


class ReleaseJob(JobOutcome):
    """The job goes back to its queue; this does not count as an attempt."""

    def __init__(self, delay: Optional[Duration] = None) -> None:
        super().__init__("released")
        self.delay = delay


def error_of(problem: Problem, retry_after: Optional[float] = None) -> ApiError:
    """Returns the error class that fits the problem."""
    by_code = {"stale-lease": StaleLease, "key-exists": KeyExists}
    by_status = {404: NotFound, 409: Conflict}
    kind = by_code.get(problem.code) or by_status.get(problem.status) or ApiError
    return kind(problem, retry_after)
