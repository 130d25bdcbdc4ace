"""Every operation of the API as a request, without I/O. Both clients send these."""

from __future__ import annotations

import contextvars
import json
import random
import uuid
from dataclasses import dataclass, field, replace
from typing import Any, Callable, Dict, Generic, List, Mapping, Optional, Sequence, Tuple, Type, TypeVar, Union
from urllib.parse import quote, urlencode

from . import administration as a
from . import insight as i
from . import types as t
from .errors import ApiError, error_of

T = TypeVar("T")
Results = List[Union[t.Ok[Any], t.Err]]

#: The ``traceparent`` of the job whose handler is running; puts carry it on.
current_traceparent: contextvars.ContextVar[Optional[str]] = contextvars.ContextVar(
    "tickwheel_traceparent", default=None
)


@dataclass(frozen=True)
class Call(Generic[T]):
    """A request, and how to read its answer."""

    method: str
    path: str
    decode: Callable[[Any], T]
    body: Optional[bytes] = None
    headers: Mapping[str, str] = field(default_factory=dict)
    #: Whether the request can be sent again when it is not known whether it was carried out.
    repeatable: bool = False
    #: How long the server may wait before it answers, in seconds.
    wait: float = 0.0


def _call(
    method: str, path: str, kind: Any, body: Any = None, **options: Any
) -> "Call[Any]":
    encoded = None
    headers = dict(options.pop("headers", {}))
    if body is not None:
        encoded = json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode("utf-8")
        headers["content-type"] = "application/json"
    options.setdefault("repeatable", method in ("GET", "PUT", "PATCH"))
    member = options.pop("member", None)

    def decode(data: Any) -> Any:
        answer = t.from_wire(kind, data)
        return answer if member is None else getattr(answer, member)

    return Call(method, path, decode, encoded, headers, **options)


def _name(text: str) -> str:
    quoted = quote(text, safe="")
    # A path segment of dots alone would be resolved as a relative path.
    return quoted.replace(".", "%2E") if set(text) == {"."} else quoted


def _job_path(id: Optional[str], queue: Optional[str], key: Optional[str]) -> str:
    if id is not None and queue is None and key is None:
        return f"/v1/jobs/{_name(id)}"
    if id is None and queue is not None and key is not None:
        return f"/v1/queues/{_name(queue)}/keys/{_name(key)}"
    raise TypeError("name the job either by its id, or by queue and key")


def _given(**fields: Any) -> Dict[str, Any]:
    return {name: t.to_wire(value) for name, value in fields.items() if value is not None}


def _query(**parameters: Any) -> str:
    text = urlencode(_given(**parameters))
    return f"?{text}" if text else ""


def put_to_wire(put: t.Put) -> Dict[str, Any]:
    if put.traceparent is None and "traceparent" not in put.headers:
        inherited = current_traceparent.get()
        if inherited is not None:
            put = replace(put, traceparent=inherited)
    return dict(t.to_wire(put))


def new_key() -> str:
    """Returns a fresh idempotency key."""
    return uuid.uuid4().hex


def put(job: Dict[str, Any], idempotency_key: Optional[str]) -> Call[t.PutResult]:
    headers = {"idempotency-key": idempotency_key or new_key()}
    path = f"/v1/queues/{_name(job['queue'])}/jobs"
    return _call("POST", path, t.PutResult, job, headers=headers, repeatable=True)


def _results(kind: Any) -> Callable[[Any], Results]:
    def decode(data: Any) -> Results:
        out: Results = []
        for item in data["results"]:
            if "error" in item:
                out.append(t.Err(t.from_wire(t.Problem, item["error"])))
            else:
                out.append(t.Ok(t.from_wire(kind, item["ok"])))
        return out

    return decode


def put_many(jobs: Sequence[Dict[str, Any]], idempotency_key: Optional[str]) -> Call[Results]:
    headers = {"idempotency-key": idempotency_key or new_key()}
    call = _call("POST", "/v1/jobs/batch", None, {"items": list(jobs)}, headers=headers, repeatable=True)
    return replace(call, decode=_results(t.PutResult))


_BATCHES: Dict[str, Any] = {
    "ack": t.StateAnswer, "fail": t.StateAnswer, "kick": t.StateAnswer, "extend": t.Extended,
    "release": t.Released, "cancel": t.Cancelled, "reschedule": t.Rescheduled,
}  # fmt: skip


def batch(action: str, items: Sequence[Mapping[str, Any]]) -> Call[Results]:
    wire = [_given(**{k: v for k, v in item.items() if k != "result"}) for item in items]
    for item, out in zip(items, wire):
        if item.get("result", t.UNSET) is not t.UNSET:
            out["result"] = item["result"]
    call = _call("POST", f"/v1/jobs/batch/{action}", None, {"items": wire}, repeatable=action == "extend")
    return replace(call, decode=_results(_BATCHES[action]))


def import_many(jobs: Sequence[a.ImportedJob]) -> Call[Results]:
    call = _call("POST", "/v1/jobs/batch/import", None, {"items": [t.to_wire(job) for job in jobs]})
    # A job that was imported already is refused, not imported twice.
    return replace(call, decode=_results(a.Imported))


def find_ids(short: str) -> Call[List[str]]:
    return _call("GET", f"/v1/ids/{_name(short)}", a.JobIds, member="ids")


def get(id: Optional[str], queue: Optional[str], key: Optional[str]) -> Call[t.Job]:
    return _call("GET", _job_path(id, queue, key), t.Job)


def cancel(id: Optional[str], queue: Optional[str], key: Optional[str]) -> Call[t.Cancelled]:
    return _call("DELETE", _job_path(id, queue, key), t.Cancelled)


def reschedule(
    id: Optional[str], queue: Optional[str], key: Optional[str],
    delay: Optional[t.Duration], due: Optional[t.Timestamp],
) -> Call[t.Rescheduled]:  # fmt: skip
    path = _job_path(id, queue, key) + "/reschedule"
    return _call("POST", path, t.Rescheduled, _given(delay=delay, due=due), repeatable=due is not None)


def reserve(
    queue: str, limit: Optional[int], lease: Optional[t.Duration], wait: Optional[t.Duration],
    worker: Optional[str] = None,
) -> Call[List[t.Delivery]]:  # fmt: skip
    body = _given(limit=limit, lease=lease, wait=wait, worker=worker)
    seconds = 0.0
    if wait is not None:
        try:
            wire = t.duration_to_wire(wait)
            seconds = t.parse_duration(wire).total_seconds()
        except ValueError:
            pass  # The server explains what is wrong with it.
    path = f"/v1/queues/{_name(queue)}/reserve"
    return _call("POST", path, t.Deliveries, body, wait=seconds, member="deliveries")


def ack(id: str, token: str, result: Any) -> Call[t.StateAnswer]:
    body: Dict[str, Any] = {"token": token}
    if result is not t.UNSET:
        body["result"] = result
    return _call("POST", f"/v1/jobs/{_name(id)}/ack", t.StateAnswer, body)


def fail(
    id: str, token: str, error: str, delay: Optional[t.Duration], dead: bool
) -> Call[t.StateAnswer]:
    body = _given(token=token, error=error, delay=delay, dead=dead or None)
    return _call("POST", f"/v1/jobs/{_name(id)}/fail", t.StateAnswer, body)


def extend(id: str, token: str, lease: t.Duration) -> Call[t.Extended]:
    body = _given(token=token, lease=lease)
    return _call("POST", f"/v1/jobs/{_name(id)}/extend", t.Extended, body, repeatable=True)


def release(id: str, token: str, delay: Optional[t.Duration]) -> Call[t.Released]:
    body = _given(token=token, delay=delay)
    return _call("POST", f"/v1/jobs/{_name(id)}/release", t.Released, body)


def kick(id: str) -> Call[t.StateAnswer]:
    return _call("POST", f"/v1/jobs/{_name(id)}/kick", t.StateAnswer)


def list_jobs(queue: str, **filters: Any) -> Call[t.JobPage]:
    return _call("GET", f"/v1/queues/{_name(queue)}/jobs{_query(**filters)}", t.JobPage)


def queues() -> Call[List[t.Queue]]:
    return _call("GET", "/v1/queues", t.QueueList, member="queues")


def queue(name: str) -> Call[t.Queue]:
    return _call("GET", f"/v1/queues/{_name(name)}", t.Queue)


def settings(method: str, name: str, value: t.QueueSettings) -> Call[t.Queue]:
    return _call(method, f"/v1/queues/{_name(name)}/settings", t.Queue, t.to_wire(value))


def remove_queue(name: str, force: bool) -> Call[int]:
    query = "?force=true" if force else ""
    return _call("DELETE", f"/v1/queues/{_name(name)}{query}", t.Count, member="count")


def pause_queue(name: str) -> Call[t.Queue]:
    return _call("POST", f"/v1/queues/{_name(name)}/pause", t.Queue, repeatable=True)


def resume_queue(name: str) -> Call[t.Queue]:
    return _call("POST", f"/v1/queues/{_name(name)}/resume", t.Queue, repeatable=True)


def _counted(name: str, action: str, body: Any = None) -> Call[int]:
    return _call("POST", f"/v1/queues/{_name(name)}/{action}", t.Count, body, member="count")


def drain_queue(name: str) -> Call[int]:
    return _counted(name, "cancel-waiting")


def kick_queue(name: str, limit: Optional[int]) -> Call[int]:
    return _counted(name, "kick", _given(limit=limit))


def purge_queue(name: str, state: str, older_than: Optional[t.Duration]) -> Call[int]:
    return _counted(name, "remove-finished", _given(state=state, older_than=older_than))


def groups(queue: str, **filters: Any) -> Call[a.GroupPage]:
    return _call("GET", f"/v1/queues/{_name(queue)}/groups{_query(**filters)}", a.GroupPage)


def patch_group(queue: str, group: str, paused: Optional[bool], pacing: Any) -> Call[a.Group]:
    body = _given(paused=paused)
    if pacing is not t.UNSET:
        body["pacing"] = t.to_wire(pacing)
    return _call("PATCH", f"/v1/queues/{_name(queue)}/groups/{_name(group)}", a.Group, body)


def errors(queue: Optional[str], limit: Optional[int]) -> Call[i.ErrorGroups]:
    path = "/v1/errors" if queue is None else f"/v1/queues/{_name(queue)}/errors"
    return _call("GET", path + _query(limit=limit), i.ErrorGroups)


def change_matching(queue: str, change: i.BulkChange) -> Call[i.BulkResult]:
    path = f"/v1/queues/{_name(queue)}/bulk"
    return _call("POST", path, i.BulkResult, t.to_wire(change), repeatable=change.dry_run)


def next_change(
    change: i.BulkChange, sums: i.BulkResult, step: i.BulkResult
) -> "Tuple[i.BulkChange, i.BulkResult]":
    """Returns the change after a step, and the sums with this step."""
    sums = i.BulkResult(
        sums.matched + step.matched, sums.changed + step.changed, sums.skipped + step.skipped,
        sums.why or step.why,
    )  # fmt: skip
    return replace(change, cursor=step.next), sums


def history(window: str, queue: Optional[str]) -> Call[i.History]:
    return _call("GET", f"/v1/history{_query(window=window, queue=queue)}", i.History)


def targets() -> Call[List[a.Target]]:
    return _call("GET", "/v1/targets", a.TargetList, member="targets")


def put_target(method: str, name: str, settings: a.TargetSettings) -> Call[a.Target]:
    return _call(method, f"/v1/targets/{_name(name)}", a.Target, t.to_wire(settings))


def target(method: str, name: str, action: str = "") -> Call[a.Target]:
    return _call(method, f"/v1/targets/{_name(name)}{action}", a.Target, repeatable=method != "DELETE")


def rotate_target(name: str, keep_old: Optional[t.Duration]) -> Call[a.Target]:
    return _call("POST", f"/v1/targets/{_name(name)}/rotate", a.Target, _given(keep_old=keep_old))


def test_target(name: str) -> Call[a.TargetTest]:
    # The longest timeout of a target.
    return _call("POST", f"/v1/targets/{_name(name)}/test", a.TargetTest, wait=1800.0)


def put_schedule(name: str, schedule: t.NewSchedule) -> Call[t.Schedule]:
    return _call("PUT", f"/v1/schedules/{_name(name)}", t.Schedule, t.to_wire(schedule))


def schedule(method: str, name: str, action: str = "") -> Call[t.Schedule]:
    return _call(method, f"/v1/schedules/{_name(name)}{action}", t.Schedule, repeatable=method != "DELETE")


def schedules() -> Call[List[t.Schedule]]:
    return _call("GET", "/v1/schedules", t.ScheduleList, member="schedules")


def next_runs(name: str, n: Optional[int]) -> Call[List[t.NextRun]]:
    query = f"?n={n}" if n is not None else ""
    return _call("GET", f"/v1/schedules/{_name(name)}/next{query}", t.NextRuns, member="next")


def advance(by: t.Duration) -> Call[t.Clock]:
    return _call("POST", "/v1/clock/advance", t.Clock, _given(by=by))


def simple(method: str, path: str, kind: Type[T]) -> Call[T]:
    return _call(method, path, kind)


def stats(since: Optional[t.Duration]) -> Call[t.Stats]:
    if since is None:
        return _call("GET", "/v1/stats", t.Stats)
    window = t.duration_to_wire(since)
    query = urlencode({"since": window if isinstance(window, str) else f"{window}ms"})
    call = _call("GET", f"/v1/stats?{query}", t.Stats)

    def decode(data: Any) -> t.Stats:
        stats: t.Stats = call.decode(data)
        return replace(stats, recent=t.from_wire(a.Activity, data.get("recent")))

    return replace(call, decode=decode)


def target_events() -> Call[None]:
    return _call("GET", "/v1/target-events", None)


def events(
    queue: Optional[str], last_event_id: Optional[str], event: Sequence[str], **filters: Any
) -> Call[None]:
    path = "/v1/events" if queue is None else f"/v1/queues/{_name(queue)}/events"
    headers = {} if last_event_id is None else {"last-event-id": last_event_id}
    query = _query(event=",".join(event) or None, **filters)
    return _call("GET", path + query, None, headers=headers)


def problem_of(status: int, headers: Mapping[str, str], body: bytes) -> ApiError:
    """Returns the error for an answer with this status."""
    try:
        problem = t.from_wire(t.Problem, json.loads(body))
    except (ValueError, TypeError):
        text = body[:200].decode("utf-8", "replace")
        problem = t.Problem(status, "unknown", text or f"the server answered with status {status}")
    retry_after = headers.get("retry-after", "")
    return error_of(problem, float(retry_after) if retry_after.isdigit() else None)


def is_retried(call: Call[Any], refused: ApiError) -> bool:
    """Returns whether the request can be sent again. One that was refused with 429 or 503 was not
    carried out, except that the outcome may be unknown."""
    if refused.status not in (429, 503):
        return False
    return call.repeatable or refused.code != "outcome-unknown"


def retry_delay(attempt: int, error: Optional[BaseException]) -> float:
    """Returns how long to wait before the next attempt: as ``Retry-After`` says, else a random
    time that doubles with each attempt, at most 5 seconds."""
    if isinstance(error, ApiError) and error.retry_after is not None:
        return error.retry_after * (1 + random.random() / 10)
    return min(5.0, 0.05 * 2.0**attempt) * (0.5 + random.random() / 2)


class EventParser:
    """Turns lines of a stream of server-sent events into events."""

    def __init__(self) -> None:
        self._event = "message"
        self._id: Optional[str] = None
        self._data: List[str] = []

    def feed(self, line: str) -> Optional[t.Event]:
        """Takes one line without its end, and returns the event that it completes."""
        if line:
            name, _, value = line.partition(":")
            value = value[1:] if value.startswith(" ") else value
            if name == "event":
                self._event = value
            elif name == "id":
                self._id = value
            elif name == "data":
                self._data.append(value)
            return None
        if not self._data and self._event == "message":
            return None
        try:
            data = json.loads("\n".join(self._data))
        except ValueError:
            data = {}
        names = ("queue", "job", "state", "at_ms", "due_ms", "key", "error")
        fields = {name: data.get(name) for name in names}
        event = t.Event(self._event, self._id, **fields, data=data)
        self._event, self._data = "message", []
        return event
