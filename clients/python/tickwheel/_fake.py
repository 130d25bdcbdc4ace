"""The in-memory fake, as a transport: clients and workers run on it unchanged."""

from __future__ import annotations

import asyncio
import json
import re
import threading
import uuid
from datetime import timedelta
from typing import Any, Callable, Dict, List, Mapping, Optional, Tuple
from urllib.parse import parse_qsl, unquote, urlsplit

from . import types as t
from ._http import Abort, Response
from .errors import Aborted

START_MS = 1_767_323_045_678
LIVE = ("scheduled", "ready", "leased")
DEFAULTS: Dict[str, Any] = {
    "lease": "30s", "max_attempts": 10, "retry": {"fixed": "1s"}, "pacing": {}, "group_pacing": {},
    "order": "due",
    "retention": {"done": {"count": 0}, "dead": {}, "cancelled": {"count": 0}},
}  # fmt: skip


class Refused(Exception):
    """A problem document."""

    def __init__(self, status: int, code: str, detail: str, **more: str) -> None:
        super().__init__(detail)
        self.status = status
        about = {"status": status, "code": code, "detail": detail, "title": detail}
        self.document = {**about, "request_id": "fake", **more}


class FakeTransport:
    """Answers requests from memory. One lock guards everything; waiting workers share a condition."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._now = START_MS
        self._jobs: Dict[str, Dict[str, Any]] = {}
        self._queues: Dict[str, Dict[str, Any]] = {}
        self._replays: Dict[str, Tuple[Any, Any]] = {}

    def close(self) -> None:
        """Does nothing."""

    def for_asyncio(self) -> "AsyncFakeTransport":
        return AsyncFakeTransport(self)

    def request(
        self, method: str, path: str, body: Optional[bytes], headers: Mapping[str, str],
        timeout: float, abort: Optional[Abort] = None,
    ) -> Response:  # fmt: skip
        """Answers a request; a reserve waits until a job is ready or the request is aborted."""
        with self._changed:
            while True:
                answer = self.answer(method, path, body, headers)
                if answer is not None:
                    return answer
                if abort is not None and abort.is_set:
                    raise Aborted("the request was aborted")
                # An abort is noticed by looking: it knows nothing of this condition.
                self._changed.wait(0.02)

    def answer(
        self, method: str, path: str, body: Optional[bytes], headers: Mapping[str, str]
    ) -> Optional[Response]:
        """Answers a request, or returns None if its caller must wait."""
        given = json.loads(body) if body else {}
        try:
            status, data = 200, self._dispatch(method, path, given, headers)
            if data is None:
                return None
        except Refused as refused:
            status, data = refused.status, refused.document
        self._changed.notify_all()
        return Response(status, {}, json.dumps(data).encode("utf-8"))

    def _dispatch(self, method: str, path: str, body: Any, headers: Mapping[str, str]) -> Any:
        parts = urlsplit(path)
        names = tuple(unquote(part) for part in parts.path.strip("/").split("/"))[1:]
        query = dict(parse_qsl(parts.query))
        if names == ("jobs", "batch"):
            return self._once(headers, body, lambda: self._batch(body["items"], lambda it: self._put(it["queue"], it)))
        if names[:2] == ("jobs", "batch"):
            return self._batch(body["items"], lambda it: self._act(method, self._job(it["id"]), names[2], it))
        if names[0] == "jobs":
            return self._act(method, self._job(names[1]), names[2] if len(names) > 2 else "", body)
        if names[0] == "queues" and len(names) > 2 and names[2] == "keys":
            job = self._job_of_key(names[1], names[3])
            if job is None:
                raise Refused(404, "not-found", f"no live job of queue {names[1]!r} has the key {names[3]!r}")
            return self._act(method, job, names[4] if len(names) > 4 else "", body)
        if names[0] == "queues":
            return self._queue_route(method, names[1:], body, query, headers)
        if names == ("clock",) or names == ("clock", "advance"):
            self._advance(t.parse_duration(body["by"]) // timedelta(milliseconds=1) if body else 0)
            return {"now_ms": self._now, "manual": True}
        raise Refused(501, "not-implemented", f"the fake does not have {method} {path}: use testing.Server")

    def _once(self, headers: Mapping[str, str], body: Any, put: Callable[[], Any]) -> Any:
        key = headers.get("idempotency-key", "")
        if key in self._replays:
            first, answer = self._replays[key]
            if first != body:
                raise Refused(422, "idempotency-conflict", f"the key {key!r} was used with another body")
            return answer
        answer = put()
        self._replays[key] = (body, answer)
        return answer

    @staticmethod
    def _batch(items: List[Any], each: Callable[[Any], Any]) -> Any:
        results = []
        for item in items:
            try:
                results.append({"ok": each(item)})
            except Refused as refused:
                results.append({"error": refused.document})
        return {"results": results}

    def _queue(self, name: str) -> Dict[str, Any]:
        if not re.fullmatch(r"[A-Za-z0-9_-][A-Za-z0-9_.-]{0,127}", name):
            raise Refused(400, "invalid-parameter", f"{name!r} is not a name of a queue", field="queue")
        return self._queues.setdefault(name, {"name": name, "paused": False, "settings": dict(DEFAULTS)})

    @staticmethod
    def _millis(body: Mapping[str, Any], field: str) -> int:
        try:
            return t.parse_duration(body[field]) // timedelta(milliseconds=1)
        except (ValueError, TypeError):
            detail = f"{body[field]!r} is not a length of time"
            raise Refused(422, "invalid-field", detail, field=f"/{field}") from None

    def _when(self, body: Mapping[str, Any]) -> int:
        if "delay" in body:
            return self._now + self._millis(body, "delay")
        return int(body.get("due", self._now))

    def _put(self, queue: str, body: Dict[str, Any]) -> Any:
        if sum(form in body for form in ("payload", "text", "base64")) != 1:
            raise Refused(422, "missing-field", "give exactly one of payload, text and base64", field="/payload")
        self._queue(queue)
        due, key = self._when(body), body.get("key")
        holder = self._job_of_key(queue, key) if key is not None else None
        outcome = {"outcome": "created"}
        if holder is not None:
            if body.get("on_conflict") == "reject":
                raise Refused(409, "key-exists", f"a live job has the key {key!r}", id=holder["id"])
            if body.get("on_conflict") == "keep":
                return {"id": holder["id"], "queue": queue, "outcome": "kept", "due_ms": holder["due_ms"]}
            self._finish(holder, "cancelled")
            outcome = {"outcome": "replaced", "replaced": holder["id"]}
        id = body.get("id") or str(uuid.uuid4())
        if id in self._jobs:
            raise Refused(409, "id-exists", f"a job has the id {id}", id=id)
        kind = "application/json" if "payload" in body else "text/plain; charset=utf-8"
        kind = "application/octet-stream" if "base64" in body else kind
        job = {name: body[name] for name in body if name not in ("delay", "due", "on_conflict", "queue")}
        job.update(id=id, queue=queue, due_ms=due, created_ms=self._now, attempts=0)
        job.setdefault("priority", 0)
        job["headers"] = {"content-type": kind, **body.get("headers", {})}
        self._jobs[id] = job
        self._wait_for_due(job, due)
        return {"id": id, "queue": queue, "due_ms": due, **outcome}

    def _wait_for_due(self, job: Dict[str, Any], due: int) -> None:
        job["due_ms"] = due
        job["state"] = "ready" if due <= self._now else "scheduled"

    def _job(self, id: str) -> Dict[str, Any]:
        if id not in self._jobs:
            raise Refused(404, "not-found", f"there is no job {id}")
        return self._jobs[id]

    def _job_of_key(self, queue: str, key: Optional[str]) -> Optional[Dict[str, Any]]:
        for job in self._jobs.values():
            if job["queue"] == queue and job.get("key") == key and job["state"] in LIVE:
                return job
        return None

    def _finish(self, job: Dict[str, Any], state: str) -> None:
        job.update(state=state, finished_ms=self._now)
        job.pop("lease", None)
        job.pop("token", None)
        keep = self._queue(job["queue"])["settings"]["retention"].get(state, {})
        if keep.get("count") == 0:
            del self._jobs[job["id"]]

    def _act(self, method: str, job: Dict[str, Any], action: str, body: Any) -> Any:
        if action == "" and method == "GET":
            return self._shown(job)
        if action in ("", "cancel"):
            return self._cancel(job)
        if action == "reschedule":
            if job["state"] not in ("scheduled", "ready"):
                raise Refused(409, "wrong-state", f"the job is {job['state']}")
            self._wait_for_due(job, self._when(body))
            return {"due_ms": job["due_ms"]}
        if action == "kick":
            if job["state"] != "dead":
                raise Refused(409, "wrong-state", f"the job is {job['state']}")
            job["attempts"] = 0
            self._wait_for_due(job, self._now)
            return {"state": job["state"]}
        return self._act_on_lease(job, action, body)

    def _cancel(self, job: Dict[str, Any]) -> Any:
        was = job["state"]
        if was not in LIVE:
            raise Refused(409, "wrong-state", f"the job is {was}")
        self._finish(job, "cancelled")
        return {"was": was}

    def _act_on_lease(self, job: Dict[str, Any], action: str, body: Any) -> Any:
        if job.get("token") != body["token"]:
            raise Refused(409, "stale-lease", "the lease has expired, or another worker has the job")
        if action == "extend":
            job["lease"] = {"until_ms": self._now + self._millis(body, "lease")}
            return dict(job["lease"])
        if action == "ack":
            if "result" in body:
                job["result"] = body["result"]
            self._finish(job, "done")
            return {"state": "done"}
        if action == "release":
            job["attempts"] -= 1
            self._give_back(job, self._when(body) if "delay" in body else job["due_ms"])
            return {"released": True}
        if action != "fail":
            raise Refused(501, "not-implemented", f"the fake does not have {action}")
        delay = self._millis(body, "delay") if "delay" in body else None
        self._failed(job, body.get("error", ""), delay, bool(body.get("dead")))
        return {"state": job["state"]}

    def _give_back(self, job: Dict[str, Any], due: int) -> None:
        job.pop("lease", None)
        job.pop("token", None)
        self._wait_for_due(job, due)

    def _failed(self, job: Dict[str, Any], error: str, delay: Optional[int], dead: bool) -> None:
        settings = self._queue(job["queue"])["settings"]
        job["last_error"] = error
        if dead or job["attempts"] >= job.get("max_attempts", settings["max_attempts"]):
            self._finish(job, "dead")
            return
        if delay is None:
            delay = self._retry_delay(job.get("retry", settings["retry"]), job["attempts"])
        self._give_back(job, self._now + delay)

    @staticmethod
    def _retry_delay(retry: Mapping[str, Any], attempts: int) -> int:
        def millis(value: Any) -> int:
            return t.parse_duration(value) // timedelta(milliseconds=1)

        if "fixed" in retry:
            return millis(retry["fixed"])
        if "list" in retry:
            return millis(retry["list"][min(attempts, len(retry["list"])) - 1])
        first, longest = millis(retry["exponential"]["first"]), millis(retry["exponential"]["max"])
        delay: int = first * 2 ** (attempts - 1)
        return min(longest, delay)

    def _queue_route(
        self, method: str, names: Tuple[str, ...], body: Any, query: Dict[str, str],
        headers: Mapping[str, str],
    ) -> Any:  # fmt: skip
        if not names:
            return {"queues": [self._shown_queue(name) for name in sorted(self._queues)]}
        name, action = names[0], names[1] if len(names) > 1 else ""
        if action == "jobs" and method == "POST":
            return self._once(headers, [name, body], lambda: self._put(name, body))
        if action == "jobs":
            return self._list(name, query)
        if action == "reserve":
            return self._reserve(name, body)
        if action == "settings":
            old = self._queue(name)["settings"] if method == "PATCH" else DEFAULTS
            retention = {**old["retention"], **body.get("retention", {})}
            self._queue(name)["settings"] = {**old, **body, "retention": retention}
        elif name not in self._queues:
            raise Refused(404, "not-found", f"there is no queue {name!r}")
        elif action in ("pause", "resume"):
            self._queues[name]["paused"] = action == "pause"
        elif action == "kick":
            dead = [job for job in self._of(name) if job["state"] == "dead"][: body.get("limit")]
            for job in dead:
                self._act("POST", job, "kick", {})
            return {"count": len(dead)}
        elif action == "drain":
            waiting = [job for job in self._of(name) if job["state"] in ("scheduled", "ready")]
            for job in waiting:
                self._finish(job, "cancelled")
            return {"count": len(waiting)}
        elif action or method != "GET":
            raise Refused(501, "not-implemented", f"the fake does not have {action}: use testing.Server")
        return self._shown_queue(name)

    def _of(self, queue: str) -> List[Dict[str, Any]]:
        jobs = [job for job in self._jobs.values() if job["queue"] == queue]
        return sorted(jobs, key=lambda job: (job["due_ms"], -job["priority"]))

    def _list(self, queue: str, query: Dict[str, str]) -> Any:
        for name in ("key", "error", "error_group"):
            if name in query:
                raise Refused(501, "not-implemented", f"the fake cannot list jobs by {name}: use testing.Server")
        jobs = [
            job for job in self._of(queue)
            if query.get("state") in (None, job["state"])
            and (job.get("key") or "").startswith(query.get("key_prefix", ""))
            and job["due_ms"] >= int(query.get("due_from", 0))
            and job["due_ms"] <= int(query.get("due_to", 1 << 62))
        ]  # fmt: skip
        first, limit = int(query.get("page", 0)), int(query.get("limit", 100))
        more = str(first + limit) if len(jobs) > first + limit else None
        return {"jobs": [self._shown(job) for job in jobs[first : first + limit]], "next": more}

    def _reserve(self, queue: str, body: Any) -> Any:
        settings = self._queue(queue)["settings"]
        ready = [] if self._queue(queue)["paused"] else [j for j in self._of(queue) if j["state"] == "ready"]
        if not ready and "wait" in body and self._millis(body, "wait") > 0:
            return None
        if settings["order"] == "priority":
            ready.sort(key=lambda job: (-job["priority"], job["due_ms"]))
        deliveries = []
        for job in ready[: body.get("limit", 1)]:
            lease = self._millis(body if "lease" in body else settings, "lease")
            until = self._now + lease
            job.update(state="leased", token=uuid.uuid4().hex[:16], lease={"until_ms": until})
            job["attempts"] += 1
            deliveries.append({"job": self._shown(job), "token": job["token"], "until_ms": until})
        return {"deliveries": deliveries}

    def _advance(self, by: int) -> None:
        self._now += by
        for job in list(self._jobs.values()):
            if job["state"] == "leased" and job["lease"]["until_ms"] <= self._now:
                self._failed(job, "the lease expired", None, False)
            if job["state"] == "scheduled" and job["due_ms"] <= self._now:
                job["state"] = "ready"

    @staticmethod
    def _shown(job: Dict[str, Any]) -> Dict[str, Any]:
        return {name: value for name, value in job.items() if name != "token"}

    def _shown_queue(self, name: str) -> Dict[str, Any]:
        states = ("scheduled", "ready", "leased", "dead", "done", "cancelled")
        counts = {state: sum(job["state"] == state for job in self._of(name)) for state in states}
        return {**self._queues[name], "jobs": counts, "more_ready": False}


class AsyncFakeTransport:
    """The fake for asyncio: a waiting reserve looks again every few milliseconds."""

    def __init__(self, fake: FakeTransport) -> None:
        self._fake = fake

    async def close(self) -> None:
        """Does nothing."""

    async def request(
        self, method: str, path: str, body: Optional[bytes], headers: Mapping[str, str],
        timeout: float,
    ) -> Response:  # fmt: skip
        """Answers a request."""
        while True:
            with self._fake._changed:
                answer = self._fake.answer(method, path, body, headers)
            if answer is not None:
                return answer
            await asyncio.sleep(0.005)
