"""The asyncio client. ``generate_async.py`` makes this file of ``client.py``."""

from __future__ import annotations

from typing import Any, AsyncIterator, List, Mapping, Optional, Sequence, Union

from . import _calls as calls
from . import administration as a
from . import insight as i
from . import types as t
from ._calls import Results
from ._async import AsyncBase


class AsyncClient(AsyncBase):
    """A client of one Tickwheel server, for any number of tasks of one event loop.

    ``url`` defaults to the environment variable ``TICKWHEEL_URL``, then to the server's own
    default; ``token`` to ``TICKWHEEL_TOKEN``. Requests that are refused with 429 or 503, or whose
    connection breaks, are repeated for up to ``retry_for`` seconds if that is safe. Puts are always
    safe to repeat, since each carries an idempotency key. ``batch_window`` is how long a put waits
    for others to share its request, in seconds; 0 sends every put alone.
    """

    # Producers

    async def put(
        self,
        queue: str,
        payload: Any = t.UNSET,
        *,
        text: Optional[str] = None,
        data: Optional[bytes] = None,
        delay: Optional[t.Duration] = None,
        due: Optional[t.Timestamp] = None,
        key: Optional[str] = None,
        on_conflict: Optional[str] = None,
        priority: Optional[int] = None,
        headers: Optional[Mapping[str, str]] = None,
        max_attempts: Optional[int] = None,
        retry: Optional[t.Retry] = None,
        group: Optional[str] = None,
        id: Optional[str] = None,
        max_total_delay: Optional[t.Duration] = None,
        on_success: Optional[t.FollowUp] = None,
        on_death: Optional[t.FollowUp] = None,
        traceparent: Optional[str] = None,
        idempotency_key: Optional[str] = None,
    ) -> t.PutResult:
        """Puts a job: ``payload`` as JSON, or ``text``, or ``data`` (bytes).

        Returns when the job is durable. Raises ``KeyExists`` if ``on_conflict`` is ``"reject"`` and
        a live job has the key.
        """
        return await self.put_job(
            t.Put(
                queue, payload, text, data, delay, due, key, on_conflict, priority, headers or {},
                max_attempts, retry, group, id, max_total_delay, on_success, on_death, traceparent,
            ),
            idempotency_key=idempotency_key,
        )  # fmt: skip

    async def put_job(self, job: t.Put, *, idempotency_key: Optional[str] = None) -> t.PutResult:
        """Puts a job."""
        wire = calls.put_to_wire(job)
        if idempotency_key is not None or self._window <= 0:
            return await self._do(calls.put(wire, idempotency_key))
        return await self._put_batched(wire)

    async def put_many(
        self, jobs: Sequence[t.Put], *, idempotency_key: Optional[str] = None
    ) -> "List[Union[t.Ok[t.PutResult], t.Err]]":
        """Puts many jobs in one commit. Each has its own answer: ``Ok`` or ``Err``."""
        return await self._do(calls.put_many([calls.put_to_wire(job) for job in jobs], idempotency_key))

    async def import_many(
        self, jobs: Sequence[a.ImportedJob]
    ) -> "List[Union[t.Ok[a.Imported], t.Err]]":
        """Imports jobs of another server, with their ids. A job whose id exists is refused, so that
        an import can be repeated."""
        return await self._do(calls.import_many(jobs))

    async def find_ids(self, short: str) -> List[str]:
        """Returns the ids of the jobs that a short id stands for: its first four or more digits."""
        return await self._do(calls.find_ids(short))

    async def get(
        self, id: Optional[str] = None, *, queue: Optional[str] = None, key: Optional[str] = None
    ) -> t.Job:
        """Returns a job, by its id or by queue and key. Raises ``NotFound``."""
        return await self._do(calls.get(id, queue, key))

    async def cancel(
        self, id: Optional[str] = None, *, queue: Optional[str] = None, key: Optional[str] = None
    ) -> t.Cancelled:
        """Cancels a job, by its id or by queue and key. Raises ``NotFound``."""
        return await self._do(calls.cancel(id, queue, key))

    async def reschedule(
        self,
        id: Optional[str] = None,
        *,
        queue: Optional[str] = None,
        key: Optional[str] = None,
        delay: Optional[t.Duration] = None,
        due: Optional[t.Timestamp] = None,
    ) -> t.Rescheduled:
        """Changes when a job is due: exactly one of ``delay`` and ``due``."""
        return await self._do(calls.reschedule(id, queue, key, delay, due))

    async def list(
        self,
        queue: str,
        *,
        state: Optional[str] = None,
        due_from: Optional[t.Timestamp] = None,
        due_to: Optional[t.Timestamp] = None,
        key: Optional[str] = None,
        key_prefix: Optional[str] = None,
        error: Optional[str] = None,
        error_group: Optional[str] = None,
        limit: Optional[int] = None,
        page: Optional[str] = None,
    ) -> t.JobPage:
        """Returns one page of a queue's jobs. ``error`` is a part of the last error, in any case of
        ASCII letters; ``error_group`` is the ``error`` of an ``ErrorGroup``."""
        return await self._do(
            calls.list_jobs(
                queue, state=state, due_from=due_from, due_to=due_to, key=key, key_prefix=key_prefix,
                error=error, error_group=error_group, limit=limit, page=page,
            )
        )  # fmt: skip

    async def list_all(self, queue: str, **filters: Any) -> AsyncIterator[t.Job]:
        """Iterates over all pages; takes the arguments of ``list``."""
        while True:
            page = await self.list(queue, **filters)
            for job in page.jobs:
                yield job
            if page.next is None:
                return
            filters["page"] = page.next

    # Workers

    async def reserve(
        self,
        queue: str,
        *,
        limit: Optional[int] = None,
        lease: Optional[t.Duration] = None,
        wait: Optional[t.Duration] = None,
        worker: Optional[str] = None,
    ) -> List[t.Delivery]:
        """Leases up to ``limit`` jobs (1 by default), waiting up to ``wait`` for the first. The name
        of the ``worker`` is shown with the jobs and in their history."""
        return await self._do(calls.reserve(queue, limit, lease, wait, worker))

    async def ack(self, id: str, token: str, *, result: Any = t.UNSET) -> t.StateAnswer:
        """Acknowledges a job, optionally with a result. Raises ``StaleLease`` if the lease is lost."""
        return await self._do(calls.ack(id, token, result))

    async def fail(
        self,
        id: str,
        token: str,
        error: str = "",
        *,
        delay: Optional[t.Duration] = None,
        dead: bool = False,
    ) -> t.StateAnswer:
        """Reports a failed attempt. The job is retried by its policy, after ``delay``, or, if
        ``dead``, not at all."""
        return await self._do(calls.fail(id, token, error, delay, dead))

    async def extend(self, id: str, token: str, lease: t.Duration) -> t.Extended:
        """Extends a lease: it now ends after ``lease`` from now."""
        return await self._do(calls.extend(id, token, lease))

    async def release(self, id: str, token: str, *, delay: Optional[t.Duration] = None) -> t.Released:
        """Gives a job back to its queue without counting an attempt."""
        return await self._do(calls.release(id, token, delay))

    async def kick(self, id: str) -> t.StateAnswer:
        """Brings a dead job back."""
        return await self._do(calls.kick(id))

    async def _many(self, action: str, items: Sequence[Mapping[str, Any]]) -> Results:
        return await self._do(calls.batch(action, items))

    async def ack_many(self, items: Sequence[Mapping[str, Any]]) -> Results:
        """Acknowledges jobs: ``{"id", "token"}``, and ``result`` where there is one."""
        return await self._many("ack", items)

    async def fail_many(self, items: Sequence[Mapping[str, Any]]) -> Results:
        """Fails jobs: ``{"id", "token", "error"}``, and ``delay`` or ``dead``."""
        return await self._many("fail", items)

    async def extend_many(self, items: Sequence[Mapping[str, Any]]) -> Results:
        """Extends leases: ``{"id", "token", "lease"}``."""
        return await self._many("extend", items)

    async def release_many(self, items: Sequence[Mapping[str, Any]]) -> Results:
        """Releases jobs: ``{"id", "token"}``, and ``delay``."""
        return await self._many("release", items)

    async def cancel_many(self, ids: Sequence[str]) -> Results:
        """Cancels jobs."""
        return await self._many("cancel", [{"id": id} for id in ids])

    async def reschedule_many(self, items: Sequence[Mapping[str, Any]]) -> Results:
        """Reschedules jobs: ``{"id"}`` with ``delay`` or ``due``."""
        return await self._many("reschedule", items)

    async def kick_many(self, ids: Sequence[str]) -> Results:
        """Brings dead jobs back."""
        return await self._many("kick", [{"id": id} for id in ids])

    # Queues

    async def queues(self) -> List[t.Queue]:
        """Returns all queues, by name."""
        return await self._do(calls.queues())

    async def queue(self, name: str) -> t.Queue:
        """Returns a queue. Raises ``NotFound``."""
        return await self._do(calls.queue(name))

    async def put_settings(self, queue: str, settings: t.QueueSettings) -> t.Queue:
        """Replaces all settings of a queue."""
        return await self._do(calls.settings("PUT", queue, settings))

    async def patch_settings(self, queue: str, settings: t.QueueSettings) -> t.Queue:
        """Changes the settings that are given."""
        return await self._do(calls.settings("PATCH", queue, settings))

    async def pause_queue(self, name: str) -> t.Queue:
        """Pauses deliveries."""
        return await self._do(calls.pause_queue(name))

    async def resume_queue(self, name: str) -> t.Queue:
        """Resumes deliveries."""
        return await self._do(calls.resume_queue(name))

    async def kick_queue(self, name: str, *, limit: Optional[int] = None) -> int:
        """Brings dead jobs back, the oldest first; returns how many."""
        return await self._do(calls.kick_queue(name, limit))

    async def purge_queue(
        self, name: str, state: str, *, older_than: Optional[t.Duration] = None
    ) -> int:
        """Removes finished jobs of a state; returns how many."""
        return await self._do(calls.purge_queue(name, state, older_than))

    async def drain_queue(self, name: str) -> int:
        """Cancels waiting jobs; returns how many."""
        return await self._do(calls.drain_queue(name))

    async def remove_queue(self, name: str, *, force: bool = False) -> int:
        """Removes a queue, with its jobs if ``force``; returns how many jobs."""
        return await self._do(calls.remove_queue(name, force))

    async def groups(
        self,
        queue: str,
        *,
        prefix: Optional[str] = None,
        limit: Optional[int] = None,
        page: Optional[str] = None,
    ) -> a.GroupPage:
        """Returns one page of a queue's groups that have live jobs or settings, by name."""
        return await self._do(calls.groups(queue, prefix=prefix, limit=limit, page=page))

    async def patch_group(
        self, queue: str, group: str, *, paused: Optional[bool] = None, pacing: Any = t.UNSET
    ) -> a.Group:
        """Pauses or resumes a group, or gives it limits of its own. With ``pacing=None`` the
        ``group_pacing`` of the queue holds again."""
        return await self._do(calls.patch_group(queue, group, paused, pacing))

    # Failures, and changes to every job that matches

    async def errors(
        self, queue: Optional[str] = None, *, limit: Optional[int] = None
    ) -> i.ErrorGroups:
        """Returns why jobs of one queue, or of all queues, fail, in up to ``limit`` groups (100 by
        default)."""
        return await self._do(calls.errors(queue, limit))

    async def change_matching(self, queue: str, change: i.BulkChange) -> i.BulkResult:
        """Changes jobs of a queue that match: one step of up to ``limit`` jobs. The next step has
        ``next`` of the answer as its ``cursor``."""
        return await self._do(calls.change_matching(queue, change))

    async def change_all_matching(self, queue: str, change: i.BulkChange) -> i.BulkResult:
        """Changes every job of a queue that matches, step by step, and returns the sums of all
        steps. If a step fails, the jobs of earlier steps stay changed."""
        sums = i.BulkResult()
        while True:
            step = await self.change_matching(queue, change)
            change, sums = calls.next_change(change, sums, step)
            if step.next is None:
                return sums

    # Targets

    async def targets(self) -> List[a.Target]:
        """Returns all targets, by name."""
        return await self._do(calls.targets())

    async def target(self, name: str) -> a.Target:
        """Returns a target. Raises ``NotFound``."""
        return await self._do(calls.target("GET", name))

    async def put_target(self, name: str, settings: a.TargetSettings) -> a.Target:
        """Adds a target, or replaces its settings. The answer that adds it has its ``secret``."""
        return await self._do(calls.put_target("PUT", name, settings))

    async def patch_target(self, name: str, settings: a.TargetSettings) -> a.Target:
        """Changes the settings of a target that are given."""
        return await self._do(calls.put_target("PATCH", name, settings))

    async def remove_target(self, name: str) -> a.Target:
        """Removes a target that no queue names, and returns it."""
        return await self._do(calls.target("DELETE", name))

    async def pause_target(self, name: str) -> a.Target:
        """Pauses a target: its jobs stay in their queues."""
        return await self._do(calls.target("POST", name, "/pause"))

    async def resume_target(self, name: str) -> a.Target:
        """Resumes a target that is paused, held or stopped."""
        return await self._do(calls.target("POST", name, "/resume"))

    async def rotate_target(self, name: str, *, keep_old: Optional[t.Duration] = None) -> a.Target:
        """Adds a signing secret. The old ones sign beside it for ``keep_old``, 24 h by default."""
        return await self._do(calls.rotate_target(name, keep_old))

    async def test_target(self, name: str) -> a.TargetTest:
        """Sends one signed request to a target, and returns everything about it."""
        return await self._do(calls.test_target(name))

    # Schedules

    async def put_schedule(self, name: str, schedule: t.NewSchedule) -> t.Schedule:
        """Creates or replaces a schedule."""
        return await self._do(calls.put_schedule(name, schedule))

    async def schedules(self) -> List[t.Schedule]:
        """Returns all schedules, by name."""
        return await self._do(calls.schedules())

    async def schedule(self, name: str) -> t.Schedule:
        """Returns a schedule. Raises ``NotFound``."""
        return await self._do(calls.schedule("GET", name))

    async def pause_schedule(self, name: str) -> t.Schedule:
        """Pauses a schedule: occurrences in the pause are skipped."""
        return await self._do(calls.schedule("POST", name, "/pause"))

    async def resume_schedule(self, name: str) -> t.Schedule:
        """Resumes a schedule."""
        return await self._do(calls.schedule("POST", name, "/resume"))

    async def remove_schedule(self, name: str) -> t.Schedule:
        """Removes a schedule and returns it."""
        return await self._do(calls.schedule("DELETE", name))

    async def next_runs(self, name: str, n: Optional[int] = None) -> List[t.NextRun]:
        """Returns the next ``n`` times (5 by default) at which the schedule puts a job."""
        return await self._do(calls.next_runs(name, n))

    # The service

    async def overview(self) -> i.Overview:
        """Returns everything at one glance: health, totals, and the numbers of each queue."""
        return await self._do(calls.simple("GET", "/v1/overview", i.Overview))

    async def history(self, window: str = "15m", *, queue: Optional[str] = None) -> i.History:
        """Returns what happened in the last ``15m`` or ``24h``, in one queue or in all."""
        return await self._do(calls.history(window, queue))

    async def wheel(self) -> i.Wheel:
        """Returns the timing wheel: how many jobs and leases each slot holds."""
        return await self._do(calls.simple("GET", "/v1/wheel", i.Wheel))

    async def stats(self, *, since: Optional[t.Duration] = None) -> t.Stats:
        """Returns statistics; with ``since``, 10 s to 1 h, also what happened in that time."""
        return await self._do(calls.stats(since))

    async def health(self) -> t.Health:
        """Returns whether the service is alive, and its version."""
        return await self._do(calls.simple("GET", "/healthz", t.Health))

    async def ready(self) -> t.Health:
        """Returns the health of the service if it is ready, and raises ``ApiError`` if not."""
        return await self._do(calls.simple("GET", "/readyz", t.Health), retry=False)

    async def clock(self) -> t.Clock:
        """Returns the time of the service."""
        return await self._do(calls.simple("GET", "/v1/clock", t.Clock))

    async def advance(self, by: t.Duration) -> t.Clock:
        """Advances a manual clock, and returns when everything that is due is done."""
        return await self._do(calls.advance(by))
