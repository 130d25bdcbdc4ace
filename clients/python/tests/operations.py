"""The operations of the conformance suite, on either client.

``wait`` turns what a method of the client returns into its answer: for the asyncio client it runs
the coroutine on the test's event loop.
"""

import asyncio
import base64
import dataclasses
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import tickwheel
from tickwheel import administration as a
from tickwheel import insight as i
from tickwheel import types as t

STEP_SECONDS = 60


def wire(value):
    """Turns an answer of the client back into JSON."""
    if isinstance(value, t.Ok):
        return {"ok": wire(value.ok)}
    if isinstance(value, t.Err):
        return {"error": wire(value.error)}
    if dataclasses.is_dataclass(value):
        fields = {it.name: wire(getattr(value, it.name)) for it in dataclasses.fields(value)}
        return {name: item for name, item in fields.items() if item is not None}
    if isinstance(value, timedelta):
        return value // timedelta(milliseconds=1)
    if isinstance(value, list):
        return [wire(item) for item in value]
    return value


def put_of(fields):
    fields = dict(fields)
    if "base64" in fields:
        fields["data"] = base64.b64decode(fields.pop("base64"))
    for name, kind in (("retry", t.Retry), ("on_success", t.FollowUp), ("on_death", t.FollowUp)):
        if name in fields:
            fields[name] = t.from_wire(kind, fields[name])
    return fields


def imported_of(item):
    finished = t.from_wire(a.FinishedAt, item.get("finished"))
    return a.ImportedJob(**{**item, "put": t.Put(**put_of(item["put"])), "finished": finished})


def outcome_of(payload):
    """Does what the payload of a job says, except for puts."""
    action = payload["do"]
    if action == "throw":
        raise RuntimeError(payload["error"])
    if action == "retry":
        raise tickwheel.RetryJob(payload["error"], delay=payload["delay"])
    if action == "dead":
        raise tickwheel.DeadJob(payload["error"])
    if action == "release":
        raise tickwheel.ReleaseJob(delay=payload["delay"])
    assert action in ("return", "put"), f"unknown action {action!r}"
    return payload.get("result")


class Operations:
    """The operations that both clients share."""

    def __init__(self, server, client, wait):
        self.server, self.client, self.wait = server, client, wait
        self.stream = None

    def perform(self, do, given):
        own = getattr(self, f"do_{do}", None)
        if own is not None:
            return wire(own(dict(given)))
        if do in ("put_settings", "patch_settings"):
            settings = t.from_wire(t.QueueSettings, given["settings"])
            return wire(self.wait(getattr(self.client, do)(given["queue"], settings)))
        answer = wire(self.wait(getattr(self.client, do)(**self.arguments(do, given))))
        if isinstance(answer, int):
            return {"count": answer}
        if isinstance(answer, list):
            name = {"reserve": "deliveries", "next_runs": "next", "find_ids": "ids"}.get(do, do)
            return {"results" if do.endswith("_many") else name: answer}
        return answer

    @staticmethod
    def arguments(do, given):
        given = dict(given)
        if do in ("put_target", "patch_target"):
            given["settings"] = t.from_wire(a.TargetSettings, given["settings"])
        if do == "import_many":
            return {"jobs": [imported_of(item) for item in given["items"]]}
        if do in ("cancel_many", "kick_many"):
            return {"ids": [item["id"] for item in given["items"]]}
        if do.endswith("_queue") or do == "queue":
            given["name"] = given.pop("queue")
        return given

    def do_put(self, given):
        return self.wait(self.client.put(**put_of(given)))

    def do_put_many(self, given):
        jobs = [t.Put(**put_of(item)) for item in given["items"]]
        results = self.wait(self.client.put_many(jobs, idempotency_key=given.get("idempotency_key")))
        return {"results": wire(results)}

    def do_change_matching(self, given):
        return self.wait(self.client.change_matching(given.pop("queue"), t.from_wire(i.BulkChange, given)))

    def do_change_all(self, given):
        return self.wait(self.client.change_all_matching(given.pop("queue"), t.from_wire(i.BulkChange, given)))

    @staticmethod
    def stream_arguments(given):
        given["event"] = given["event"].split(",") if "event" in given else ()
        return given

    def do_put_schedule(self, given):
        name = given.pop("name")
        return self.wait(self.client.put_schedule(name, t.NewSchedule(**put_of(given))))

    def do_restart(self, given):
        self.server.kill() if given.get("kill") else self.server.stop()
        self.server.start()

    def do_verify_webhook(self, given):
        try:
            tickwheel.verify_webhook(given["secret"], given["headers"], given["body"], now=given["now"])
            return {"valid": True}
        except tickwheel.SignatureError:
            return {"valid": False}

    @staticmethod
    def event(event):
        return {**event.data, "event": event.event}


class SyncOperations(Operations):
    def __init__(self, server, client):
        super().__init__(server, client, lambda answer: answer)

    def do_put_together(self, given):
        barrier = threading.Barrier(len(given["items"]))

        def put(item):
            barrier.wait(STEP_SECONDS)
            try:
                return t.Ok(self.client.put(**put_of(item)))
            except tickwheel.ApiError as error:
                return t.Err(error.problem)

        with ThreadPoolExecutor(len(given["items"])) as pool:
            return {"results": wire(list(pool.map(put, given["items"])))}

    def do_list_all(self, given):
        return {"jobs": wire(list(self.client.list_all(**given)))}

    def do_work(self, given):
        queue, jobs = given.pop("queue"), given.pop("jobs")
        worker = tickwheel.Worker(self.client, **given)
        calls = []

        @worker.handler(queue)
        def handle(job):
            calls.append(job.id)
            if job.payload["do"] == "put":
                self.client.put(job.payload["queue"], text="child")
            return outcome_of(job.payload)

        @worker.use
        def stop_after(job, handler):
            try:
                return handler(job)
            finally:
                if len(calls) >= jobs:
                    worker.stop()

        worker.start().join(STEP_SECONDS)
        return {"handled": len(calls)}

    def do_follow(self, given):
        if given.get("targets"):
            self.stream = self.client.target_events()
        else:
            self.stream = self.client.events(**self.stream_arguments(given))
        self.events = iter(self.stream)

    def close(self):
        if self.stream is not None:
            self.stream.close()

    def do_events(self, given):
        events = []
        while len(events) < given["count"]:
            event = next(self.events)
            if event.event not in ("reset", "message"):
                events.append(self.event(event))
        return {"events": events}


class AsyncOperations(Operations):
    def __init__(self, server, client, loop):
        super().__init__(server, client, lambda coroutine: loop.run_until_complete(
            asyncio.wait_for(coroutine, STEP_SECONDS)))  # fmt: skip

    def do_put_together(self, given):
        async def put(item):
            try:
                return t.Ok(await self.client.put(**put_of(item)))
            except tickwheel.ApiError as error:
                return t.Err(error.problem)

        async def together():
            return await asyncio.gather(*(put(item) for item in given["items"]))

        return {"results": wire(self.wait(together()))}

    def do_list_all(self, given):
        async def collect():
            return [job async for job in self.client.list_all(**given)]

        return {"jobs": wire(self.wait(collect()))}

    def do_work(self, given):
        queue, jobs = given.pop("queue"), given.pop("jobs")
        worker = tickwheel.AsyncWorker(self.client, **given)
        calls = []

        @worker.handler(queue)
        async def handle(job):
            calls.append(job.id)
            try:
                if job.payload["do"] == "put":
                    await self.client.put(job.payload["queue"], text="child")
                return outcome_of(job.payload)
            finally:
                if len(calls) >= jobs:
                    worker.stop()

        self.wait(worker.run())
        return {"handled": len(calls)}

    def do_follow(self, given):
        if given.get("targets"):
            self.stream = self.wait(self.client.target_events())
        else:
            self.stream = self.wait(self.client.events(**self.stream_arguments(given)))

    def close(self):
        if self.stream is not None:
            self.wait(self.stream.aclose())
        self.wait(self.client.close())

    def do_events(self, given):
        async def collect():
            events = []
            async for event in self.stream:
                if event.event not in ("reset", "message"):
                    events.append(self.event(event))
                if len(events) == given["count"]:
                    return events

        return {"events": self.wait(collect())}
