"""The types of targets, groups, imports and recent activity."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Dict, List, Optional

from .types import Duration, Pacing, Percentiles, Put, Retry, Timestamp


@dataclass(frozen=True)
class TargetSettings:
    """The settings of a target: an HTTP endpoint that gets the jobs of queues.

    ``put_target`` gives fields that are ``None`` their defaults and needs the ``url``;
    ``patch_target`` leaves them as they are.
    """

    url: Optional[str] = None
    method: Optional[str] = None
    headers: Optional[Dict[str, str]] = None
    forward: Optional[List[str]] = None
    timeout: Optional[Duration] = None
    ca: Optional[str] = None
    pacing: Optional[Pacing] = None
    retry: Optional[Retry] = None
    max_attempts: Optional[int] = None


@dataclass(frozen=True)
class TargetCounts:
    """What became of the requests to a target since the server started."""

    delivered: int
    failed: int
    held: int


@dataclass(frozen=True)
class TargetCause:
    """Why a target is not active or a request to it failed, for programs.

    ``code`` is, for example, answered, timeout or unreachable; ``detail`` is the value that belongs
    to it. ``recovering`` is true if a request has succeeded since, so that the rate grows again.
    """

    code: str
    detail: str = ""
    recovering: bool = False


@dataclass(frozen=True)
class TargetResponse:
    """A target's response to a job, or why there was none.

    ``verdict`` is what became of the job: delivered, failed, dead, held or stopped. ``excerpt`` is
    the beginning of the body.
    """

    at_ms: int
    duration_ms: int
    verdict: str
    status: Optional[int] = None
    excerpt: Optional[str] = None
    error: Optional[str] = None
    cause: Optional[TargetCause] = None


@dataclass(frozen=True)
class SecretInfo:
    """A signing secret, without the secret itself."""

    created_ms: int
    expires_ms: Optional[int] = None


@dataclass(frozen=True)
class Target:
    """A target. ``state`` is active, slow, held, stopped or paused.

    ``responses`` are the last 5 to jobs since the server started, the newest first. ``secret`` is the new signing secret; only the answer to the request that made it has it.
    """

    name: str
    state: str
    settings: TargetSettings
    queues: List[str]
    in_flight: int
    counts: TargetCounts
    secrets: List[SecretInfo] = field(default_factory=list)
    secret: Optional[str] = None
    reason: Optional[str] = None
    cause: Optional[TargetCause] = None
    next_probe_ms: Optional[int] = None
    responses: List[TargetResponse] = field(default_factory=list)


@dataclass(frozen=True)
class TargetList:
    targets: List[Target]


@dataclass(frozen=True)
class HeaderLine:
    """A header of HTTP."""

    name: str
    value: str


@dataclass(frozen=True)
class TargetTest:
    """One request to a target, and its response. ``verdict`` is what would become of a job."""

    id: str
    method: str
    url: str
    request_headers: List[HeaderLine]
    request_body: str
    duration_ms: int
    verdict: str
    address: Optional[str] = None
    status: Optional[int] = None
    response_headers: List[HeaderLine] = field(default_factory=list)
    response_body: Optional[str] = None
    error: Optional[str] = None
    cause: Optional[TargetCause] = None


@dataclass(frozen=True)
class Group:
    """A group of a queue: its settings and the number of its live jobs."""

    name: str
    paused: bool
    waiting: int
    running: int
    held: int
    pacing: Optional[Pacing] = None


@dataclass(frozen=True)
class GroupPage:
    """A page of groups; ``next`` is the ``page`` of the next one, ``None`` on the last."""

    groups: List[Group]
    next: Optional[str] = None


@dataclass(frozen=True)
class JobIds:
    ids: List[str]


@dataclass(frozen=True)
class FinishedAt:
    """How and when a job finished: ``state`` is dead, done or cancelled."""

    state: str
    at: Timestamp


@dataclass(frozen=True)
class ImportedJob:
    """A job of another server, with what has happened to it there."""

    put: Put
    created: Timestamp
    attempts: int = 0
    last_error: Optional[str] = None
    finished: Optional[FinishedAt] = None


@dataclass(frozen=True)
class Imported:
    id: str


@dataclass(frozen=True)
class Activity:
    """What happened in a window of time up to now, in all queues."""

    since_ms: int
    window_ms: int
    put: int = 0
    delivered: int = 0
    acked: int = 0
    failed: int = 0
    expired: int = 0
    released: int = 0
    died: int = 0
    cancelled: int = 0
    kicked: int = 0
    lateness: Optional[Percentiles] = None
