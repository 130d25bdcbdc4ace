"""The types of error groups, of changes to every job that matches, and of dashboards.

A number that is not known is ``None``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import List, Optional

from .types import Counts, Duration, Timestamp


@dataclass(frozen=True)
class ErrorGroup:
    """Jobs whose last attempt failed with the same error, apart from numbers and ids.

    ``error`` is its first line, with ``#`` for numbers, ids, addresses and times; ``example`` is one
    of the jobs.
    """

    error: str
    count: int
    dead: int
    retrying: int
    example: str
    queue: str
    example_error: str
    newest_ms: Optional[int] = None
    oldest_ms: Optional[int] = None


@dataclass(frozen=True)
class ErrorGroups:
    """Errors, grouped, those with most jobs first. ``others`` is the number of jobs of groups that
    are left out; ``complete`` is whether all jobs were looked at."""

    groups: List[ErrorGroup]
    others: int
    complete: bool


@dataclass(frozen=True)
class JobFilter:
    """Which jobs of a queue match: those that match every field that is given."""

    state: Optional[str] = None
    error: Optional[str] = None
    error_group: Optional[str] = None
    key: Optional[str] = None
    key_prefix: Optional[str] = None
    due_from: Optional[Timestamp] = None
    due_to: Optional[Timestamp] = None


@dataclass(frozen=True)
class BulkChange:
    """A change of every job of a queue that matches.

    ``action`` is retry, run, reschedule or cancel; a reschedule needs ``delay`` or ``due``. One
    request changes up to ``limit`` jobs, 1,000 by default, and ``cursor`` is ``next`` of the one
    before.
    """

    action: str
    filter: JobFilter = field(default_factory=JobFilter)
    delay: Optional[Duration] = None
    due: Optional[Timestamp] = None
    dry_run: bool = False
    limit: Optional[int] = None
    cursor: Optional[str] = None


@dataclass(frozen=True)
class BulkResult:
    """What a change did. ``why`` is why the first job was skipped; ``next`` is the ``cursor`` of the
    next request, ``None`` after the last."""

    matched: int = 0
    changed: int = 0
    skipped: int = 0
    why: Optional[str] = None
    next: Optional[str] = None


@dataclass(frozen=True)
class Trouble:
    """One thing that is wrong. ``code`` is store-failing, disk-nearly-full, damaged-rows, jobs-wait
    or target-held."""

    code: str
    message: str
    queue: Optional[str] = None
    target: Optional[str] = None


@dataclass(frozen=True)
class Rates:
    """Jobs in each second, averaged over the last 10."""

    put: float
    delivered: float
    acked: float
    failed: float
    died: float


@dataclass(frozen=True)
class Upcoming:
    """How many waiting jobs become due when. The ranges do not overlap."""

    at_ms: int
    ready: int
    minute: int
    hour: int
    day: int
    month: int
    later: int


@dataclass(frozen=True)
class QueueOverview:
    """A queue at one glance. ``workers`` is the number of workers that reserved jobs in the last
    minute; ``pacing_utilisation`` is the share of the queue's limits that is used, from 0 to 1."""

    name: str
    paused: bool
    jobs: Counts
    more_ready: bool
    held: int
    target: Optional[str] = None
    rates: Optional[Rates] = None
    oldest_ready_ms: Optional[int] = None
    waiting_ms: Optional[int] = None
    lateness_p50_ms: Optional[int] = None
    lateness_p99_ms: Optional[int] = None
    workers: Optional[int] = None
    upcoming: Optional[Upcoming] = None
    pacing_utilisation: Optional[float] = None


@dataclass(frozen=True)
class OverviewTotals:
    """The numbers of all queues that the token may see."""

    queues: int
    paused_queues: int
    jobs: Counts
    held: int
    rates: Optional[Rates] = None
    lateness_p50_ms: Optional[int] = None
    lateness_p99_ms: Optional[int] = None
    workers: Optional[int] = None
    upcoming: Optional[Upcoming] = None
    disk_bytes: Optional[int] = None
    disk_free_bytes: Optional[int] = None


@dataclass(frozen=True)
class Overview:
    """Everything at one glance. ``summary`` is ``all on time``, or the worst trouble; ``totals`` is
    ``None`` while the store does not answer."""

    at_ms: int
    summary: str
    health: List[Trouble]
    queues: List[QueueOverview]
    queues_left_out: int
    totals: Optional[OverviewTotals] = None


@dataclass(frozen=True)
class History:
    """What happened in the last minutes or hours, in columns: the values at one index belong
    together. ``at_ms`` is the end of the time that each point covers."""

    window: str
    step_ms: int
    tracked: bool
    at_ms: List[int]
    put: List[Optional[int]]
    delivered: List[Optional[int]]
    acked: List[Optional[int]]
    failed: List[Optional[int]]
    died: List[Optional[int]]
    lateness_p50_ms: List[Optional[int]]
    lateness_p99_ms: List[Optional[int]]
    lateness_max_ms: List[Optional[int]]
    scheduled: List[Optional[int]]
    ready: List[Optional[int]]
    leased: List[Optional[int]]
    dead: List[Optional[int]]
    pacing_utilisation: List[Optional[float]]
    queue: Optional[str] = None


@dataclass(frozen=True)
class WheelLevel:
    """One level of the timing wheel. Slot ``s`` begins at ``start_ms + s * slot_ms``; the last three
    fields are columns with the values of one slot at one index."""

    level: int
    slots: int
    slot_ms: int
    position: int
    start_ms: int
    occupied: List[int]
    jobs: List[int]
    leases: List[int]


@dataclass(frozen=True)
class Wheel:
    """The timing wheel: how many jobs and leases each slot holds. ``beyond`` is the number of jobs
    that are on disk only."""

    at_ms: int
    horizon_ms: int
    levels: List[WheelLevel]
    ready: int
    beyond: int
