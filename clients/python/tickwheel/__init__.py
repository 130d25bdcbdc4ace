"""Client and worker for Tickwheel, the durable delayed-job service.

``Client`` and ``Worker`` block; ``AsyncClient`` and ``AsyncWorker`` run on asyncio. The module
``tickwheel.testing`` has a real server with a manual clock, and an in-memory fake.
"""

from ._sync import VERSION as __version__
from .administration import (
    Activity, FinishedAt, Group, GroupPage, HeaderLine, Imported, ImportedJob, SecretInfo, Target,
    TargetCause, TargetCounts, TargetResponse, TargetSettings, TargetTest,
)  # fmt: skip
from .aio import AsyncClient
from .aio_worker import AsyncWorker
from .client import Client
from .errors import (
    ApiError, Conflict, ConnectionFailed, DeadJob, KeyExists, NotFound, ReleaseJob, RetryJob,
    SignatureError, StaleLease, TickwheelError,
)  # fmt: skip
from .insight import (
    BulkChange, BulkResult, ErrorGroup, ErrorGroups, History, JobFilter, Overview, OverviewTotals,
    QueueOverview, Rates, Trouble, Upcoming, Wheel, WheelLevel,
)  # fmt: skip
from .types import (
    Attempt, Cancelled, Clock, Counts, Delivery, Duration, Err, Event, Exponential, Extended, FollowUp,
    Health, Job, JobPage, Keep, NewSchedule, NextRun, Ok, Pacing, Problem, Put, PutResult, Queue,
    QueueSettings, Released, Rescheduled, Retention, Retry, Schedule, StateAnswer, Stats, Timestamp,
)  # fmt: skip
from .webhooks import sign_webhook, verify_webhook
from .worker import Worker

__all__ = [
    "Activity", "ApiError", "AsyncClient", "AsyncWorker", "Cancelled", "Client", "Clock", "Conflict",
    "ConnectionFailed", "Counts", "DeadJob", "Delivery", "Duration", "Err", "Event", "Exponential",
    "Extended", "FollowUp", "Health", "Job", "JobPage", "Keep", "KeyExists", "NewSchedule", "NextRun",
    "NotFound", "Ok", "Pacing", "Problem", "Put", "PutResult", "Queue", "QueueSettings", "Released",
    "ReleaseJob", "Rescheduled", "Retention", "Retry", "RetryJob", "Schedule", "SignatureError",
    "StaleLease", "StateAnswer", "Stats", "TickwheelError", "Timestamp", "Worker", "__version__",
    "BulkChange", "BulkResult", "ErrorGroup", "ErrorGroups", "History", "JobFilter", "Overview",
    "OverviewTotals", "QueueOverview", "Rates", "Trouble", "Upcoming", "Wheel", "WheelLevel",
    "Attempt", "FinishedAt", "Group", "GroupPage", "HeaderLine", "Imported", "ImportedJob",
    "SecretInfo", "Target", "TargetCause", "TargetCounts", "TargetResponse", "TargetSettings",
    "TargetTest", "sign_webhook", "verify_webhook",
]  # fmt: skip
