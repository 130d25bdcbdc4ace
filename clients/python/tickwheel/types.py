"""The types of requests and answers.

Names are those of the HTTP API. A duration in a request is a ``timedelta``, a number of
milliseconds, or text such as ``"1h30m"``; in an answer it is a ``timedelta``. A time in a request
is a ``datetime``, milliseconds since 1970, or RFC 3339 text; in an answer it is in milliseconds,
with a property that returns it as a ``datetime``.
"""

from __future__ import annotations

import base64
import dataclasses
import re
import sys
import typing
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from typing import Any, Dict, Generic, List, Mapping, Optional, TypeVar, Union

Duration = Union[timedelta, int, str]
Timestamp = Union[datetime, int, str]
T = TypeVar("T")

_UNITS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}


class _Unset:
    def __repr__(self) -> str:
        return "UNSET"


#: Marks a payload or result that is not given, since ``None`` is JSON ``null``.
UNSET: Any = _Unset()


def duration_to_wire(value: Duration) -> Union[int, str]:
    """Returns the duration as the API takes it. A ``timedelta`` is rounded up to milliseconds."""
    if isinstance(value, timedelta):
        return -(-value // timedelta(milliseconds=1))
    return value


def parse_duration(value: Union[int, str]) -> timedelta:
    """Reads a duration from an answer, such as ``"1h30m"``."""
    if isinstance(value, int):
        return timedelta(milliseconds=value)
    parts = re.findall(r"(\d+)(ms|[smhdw])", value)
    if not parts or "".join(number + unit for number, unit in parts) != value:
        raise ValueError(f'{value!r} is not a duration: write it like "1h30m"')
    return timedelta(milliseconds=sum(int(number) * _UNITS[unit] for number, unit in parts))


def timestamp_to_wire(value: Timestamp) -> Union[int, str]:
    """Returns the time as the API takes it. A ``datetime`` without a time zone is local time."""
    if isinstance(value, datetime):
        since_1970 = value.astimezone(timezone.utc) - datetime(1970, 1, 1, tzinfo=timezone.utc)
        return -(-since_1970 // timedelta(milliseconds=1))
    return value


def _time(ms: Optional[int]) -> Optional[datetime]:
    if ms is None:
        return None
    return datetime(1970, 1, 1, tzinfo=timezone.utc) + timedelta(milliseconds=ms)


@dataclass(frozen=True)
class FollowUp:
    """A job that is put when another one ends."""

    queue: str
    delay: Optional[Duration] = None


@dataclass(frozen=True)
class Exponential:
    """A delay that doubles with each attempt, up to a maximum, with up to ``jitter`` percent added."""

    first: Duration
    max: Duration
    jitter: int = 0


@dataclass(frozen=True)
class Retry:
    """The delay before a failed job is retried: exactly one of the three forms."""

    fixed: Optional[Duration] = None
    exponential: Optional[Exponential] = None
    list: Optional[typing.List[Duration]] = None


@dataclass(frozen=True)
class Put:
    """A job to put. Exactly one of ``payload``, ``text`` and ``data`` is given.

    Without ``delay`` and ``due`` the job is due at once. ``traceparent`` defaults to that of the
    job which the current handler works on.
    """

    queue: str
    payload: Any = UNSET
    text: Optional[str] = None
    data: Optional[bytes] = None
    delay: Optional[Duration] = None
    due: Optional[Timestamp] = None
    key: Optional[str] = None
    on_conflict: Optional[str] = None
    priority: Optional[int] = None
    headers: Mapping[str, str] = field(default_factory=dict)
    max_attempts: Optional[int] = None
    retry: Optional[Retry] = None
    group: Optional[str] = None
    id: Optional[str] = None
    max_total_delay: Optional[Duration] = None
    on_success: Optional[FollowUp] = None
    on_death: Optional[FollowUp] = None
    traceparent: Optional[str] = None


@dataclass(frozen=True)
class PutResult:
    """What a put did: ``outcome`` is ``created``, ``replaced`` or ``kept``."""

    id: str
    queue: str
    outcome: str
    replaced: Optional[str] = None
    due_ms: Optional[int] = None

    @property
    def due(self) -> Optional[datetime]:
        """When the job is due."""
        return _time(self.due_ms)


@dataclass(frozen=True)
class LeaseInfo:
    """A job's lease: its end, its beginning, and the name that the worker gave."""

    until_ms: int
    since_ms: Optional[int] = None
    worker: Optional[str] = None


@dataclass(frozen=True)
class Attempt:
    """An attempt that has ended. ``outcome`` is done, failed, expired, released or cancelled."""

    number: int
    outcome: str
    started_ms: int
    ended_ms: int
    worker: Optional[str] = None
    error: Optional[str] = None
    detail: Optional[str] = None


@dataclass(frozen=True)
class Job:
    """A job. ``state`` is scheduled, ready, leased, dead, done or cancelled. ``history`` has the last
    20 attempts that have ended; lists and deliveries leave it out."""

    id: str
    queue: str
    state: str
    priority: int
    due_ms: int
    created_ms: int
    attempts: int
    key: Optional[str] = None
    group: Optional[str] = None
    headers: Dict[str, str] = field(default_factory=dict)
    payload: Any = None
    text: Optional[str] = None
    base64: Optional[str] = None
    max_attempts: Optional[int] = None
    retry: Optional[Retry] = None
    lease: Optional[LeaseInfo] = None
    last_error: Optional[str] = None
    finished_ms: Optional[int] = None
    result: Any = None
    on_success: Optional[FollowUp] = None
    on_death: Optional[FollowUp] = None
    history: List[Attempt] = field(default_factory=list)

    @property
    def data(self) -> Optional[bytes]:
        """The payload, if it is neither JSON nor text."""
        return None if self.base64 is None else base64.b64decode(self.base64)

    @property
    def due(self) -> datetime:
        """When the job is due."""
        return typing.cast(datetime, _time(self.due_ms))

    @property
    def created(self) -> datetime:
        """When the job was put."""
        return typing.cast(datetime, _time(self.created_ms))

    @property
    def finished(self) -> Optional[datetime]:
        """When the job was acknowledged, cancelled or given up."""
        return _time(self.finished_ms)


@dataclass(frozen=True)
class Delivery:
    """A job that is leased to a worker. The token fences off workers whose lease has expired."""

    job: Job
    token: str
    until_ms: int

    @property
    def until(self) -> datetime:
        """When the lease expires."""
        return typing.cast(datetime, _time(self.until_ms))


@dataclass(frozen=True)
class Deliveries:
    deliveries: List[Delivery]


@dataclass(frozen=True)
class JobPage:
    """A page of jobs; ``next`` is the ``page`` of the next one, ``None`` on the last."""

    jobs: List[Job]
    next: Optional[str] = None
    damaged: List[str] = field(default_factory=list)
    gaps: int = 0


@dataclass(frozen=True)
class Cancelled:
    """The state in which the job was."""

    was: str


@dataclass(frozen=True)
class Rescheduled:
    """When the job is due now."""

    due_ms: int

    @property
    def due(self) -> datetime:
        """When the job is due now."""
        return typing.cast(datetime, _time(self.due_ms))


@dataclass(frozen=True)
class StateAnswer:
    """The state of the job after the call."""

    state: str


@dataclass(frozen=True)
class Extended:
    """When the lease expires now."""

    until_ms: int

    @property
    def until(self) -> datetime:
        """When the lease expires now."""
        return typing.cast(datetime, _time(self.until_ms))


@dataclass(frozen=True)
class Released:
    released: bool


@dataclass(frozen=True)
class Count:
    """The number of jobs that a call affected."""

    count: int


@dataclass(frozen=True)
class Pacing:
    """Limits for deliveries: ``starts`` per ``window``, and leased jobs at a time."""

    starts: Optional[int] = None
    window: Optional[Duration] = None
    concurrency: Optional[int] = None


@dataclass(frozen=True)
class Keep:
    """How long finished jobs are kept: up to an age and up to a number."""

    age: Optional[Duration] = None
    count: Optional[int] = None


@dataclass(frozen=True)
class Retention:
    """How long finished jobs are kept, by their state."""

    done: Optional[Keep] = None
    dead: Optional[Keep] = None
    cancelled: Optional[Keep] = None


@dataclass(frozen=True)
class QueueSettings:
    """The settings of a queue. ``put_settings`` gives fields that are ``None`` their defaults;
    ``patch_settings`` leaves them as they are. An empty ``target`` removes it."""

    lease: Optional[Duration] = None
    max_attempts: Optional[int] = None
    retry: Optional[Retry] = None
    pacing: Optional[Pacing] = None
    group_pacing: Optional[Pacing] = None
    retention: Optional[Retention] = None
    order: Optional[str] = None
    fair_groups: Optional[bool] = None
    target: Optional[str] = None


@dataclass(frozen=True)
class Counts:
    """The number of jobs in each state."""

    scheduled: int
    ready: int
    leased: int
    dead: int
    done: int
    cancelled: int


@dataclass(frozen=True)
class QueueCounters:
    """What has happened in a queue since it was created."""

    put: int = 0
    delivered: int = 0
    acked: int = 0
    failed: int = 0
    expired: int = 0
    released: int = 0
    died: int = 0
    cancelled: int = 0
    kicked: int = 0


@dataclass(frozen=True)
class Percentiles:
    """Percentiles in microseconds."""

    count: int
    p50_us: int
    p99_us: int
    p999_us: int
    max_us: int


@dataclass(frozen=True)
class Queue:
    """A queue."""

    name: str
    paused: bool
    jobs: Counts
    more_ready: bool
    settings: QueueSettings
    oldest_ready_ms: Optional[int] = None
    counters: Optional[QueueCounters] = None
    lateness: Optional[Percentiles] = None


@dataclass(frozen=True)
class QueueList:
    queues: List[Queue]


@dataclass(frozen=True)
class NewSchedule:
    """A schedule to put: either ``cron``, optionally with a ``timezone``, or ``every``."""

    queue: str
    cron: Optional[str] = None
    timezone: Optional[str] = None
    every: Optional[Duration] = None
    payload: Any = UNSET
    text: Optional[str] = None
    data: Optional[bytes] = None
    delay: Optional[Duration] = None
    key: Optional[str] = None
    on_conflict: Optional[str] = None
    priority: Optional[int] = None
    headers: Mapping[str, str] = field(default_factory=dict)
    max_attempts: Optional[int] = None
    retry: Optional[Retry] = None
    group: Optional[str] = None
    misfire: Optional[str] = None
    misfire_limit: Optional[int] = None
    grace: Optional[Duration] = None


@dataclass(frozen=True)
class Schedule:
    """A schedule, and when it runs next."""

    name: str
    queue: str
    misfire: str
    priority: int
    grace: Duration
    paused: bool
    fired: int
    created_ms: int
    cron: Optional[str] = None
    timezone: Optional[str] = None
    every: Optional[Duration] = None
    payload: Any = None
    text: Optional[str] = None
    base64: Optional[str] = None
    delay: Optional[Duration] = None
    key: Optional[str] = None
    on_conflict: Optional[str] = None
    headers: Dict[str, str] = field(default_factory=dict)
    max_attempts: Optional[int] = None
    retry: Optional[Retry] = None
    group: Optional[str] = None
    misfire_limit: Optional[int] = None
    next_ms: Optional[int] = None
    last_ms: Optional[int] = None
    problem: Optional[str] = None
    explanation: Optional[str] = None

    @property
    def next(self) -> Optional[datetime]:
        """When the schedule puts its next job."""
        return _time(self.next_ms)


@dataclass(frozen=True)
class ScheduleList:
    schedules: List[Schedule]


@dataclass(frozen=True)
class NextRun:
    due_ms: int

    @property
    def due(self) -> datetime:
        """When the schedule puts this job."""
        return typing.cast(datetime, _time(self.due_ms))


@dataclass(frozen=True)
class NextRuns:
    next: List[NextRun]


@dataclass(frozen=True)
class Clock:
    """The time of the service; a manual clock moves only by ``advance``."""

    now_ms: int
    manual: bool

    @property
    def now(self) -> datetime:
        """The time of the service."""
        return typing.cast(datetime, _time(self.now_ms))


@dataclass(frozen=True)
class Health:
    status: str
    version: str


@dataclass(frozen=True)
class Stats:
    """Statistics. Tokens that are limited to some queues see only the first five."""

    durability: str
    horizon: Duration
    queues: int
    pending: int
    leased: int
    put: Optional[int] = None
    delivered: Optional[int] = None
    acked: Optional[int] = None
    failed: Optional[int] = None
    released: Optional[int] = None
    expired: Optional[int] = None
    died: Optional[int] = None
    cancelled: Optional[int] = None
    kicked: Optional[int] = None
    commits: Optional[int] = None
    failures: Optional[int] = None
    damaged: Optional[int] = None
    in_memory: Optional[int] = None
    disk_bytes: Optional[int] = None
    lateness: Optional[Percentiles] = None
    commit_time: Optional[Percentiles] = None
    #: What happened lately, if ``stats`` was given ``since``: an ``administration.Activity``.
    recent: Any = None


@dataclass(frozen=True)
class Event:
    """An event of the stream. ``id`` resumes the stream after this event."""

    event: str
    id: Optional[str] = None
    queue: Optional[str] = None
    job: Optional[str] = None
    state: Optional[str] = None
    at_ms: Optional[int] = None
    due_ms: Optional[int] = None
    key: Optional[str] = None
    error: Optional[str] = None
    data: Dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Problem:
    """A problem document of RFC 9457. ``code`` is for programs."""

    status: int
    code: str
    detail: str
    title: str = ""
    field: Optional[str] = None
    id: Optional[str] = None
    instance: Optional[str] = None
    request_id: Optional[str] = None


@dataclass(frozen=True)
class Ok(Generic[T]):
    """The answer to an item of a batch that succeeded."""

    ok: T
    error: None = None


@dataclass(frozen=True)
class Err:
    """The problem of an item of a batch that was refused."""

    error: Problem
    ok: None = None


def to_wire(value: Any) -> Any:
    """Turns a request into JSON: absent fields are left out, durations and times are converted."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = ((it.name, getattr(value, it.name)) for it in dataclasses.fields(value))
        return _object_to_wire(dict(fields))
    if isinstance(value, timedelta):
        return duration_to_wire(value)
    if isinstance(value, datetime):
        return timestamp_to_wire(value)
    if isinstance(value, list):
        return [to_wire(item) for item in value]
    return value


def _object_to_wire(fields: Mapping[str, Any]) -> Dict[str, Any]:
    out = {}
    for name, value in fields.items():
        if name in ("payload", "result"):
            if value is not UNSET:
                out[name] = value
        elif name == "data":
            if value is not None:
                out["base64"] = base64.b64encode(value).decode("ascii")
        elif name == "traceparent" or value is None or (name == "headers" and not value):
            continue
        elif name == "headers":
            out[name] = dict(value)
        else:
            out[name] = to_wire(value)
    if fields.get("traceparent"):
        out["headers"] = {**out.get("headers", {}), "traceparent": fields["traceparent"]}
    return out


_HINTS: Dict[type, Dict[str, Any]] = {}


def from_wire(kind: Any, data: Any) -> Any:
    """Turns JSON into the type. Members that the type does not have are ignored, so that a newer
    server works with this client."""
    if data is None:
        return None
    if kind == Duration:
        return parse_duration(data)
    if isinstance(kind, type) and dataclasses.is_dataclass(kind):
        hints = _HINTS.get(kind)
        if hints is None:
            hints = _HINTS[kind] = typing.get_type_hints(kind, vars(sys.modules[kind.__module__]))
        known = {name: from_wire(hints[name], data[name]) for name in hints if name in data}
        return kind(**known)
    origin, args = typing.get_origin(kind), typing.get_args(kind)
    if origin is list:
        return [from_wire(args[0], item) for item in data]
    if origin is Union and type(None) in args:
        inner = [arg for arg in args if arg is not type(None)]
        return from_wire(Union[tuple(inner)], data)
    return data
