"""What the clients do on the wire: batching, repetition, and what they send."""

import asyncio
import json
import subprocess
import sys
import threading
import time
import unittest
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta, timezone
from pathlib import Path

from tickwheel import ApiError, AsyncClient, Client, ConnectionFailed, Put
from tickwheel import types as t
from tickwheel._http import Response
from tickwheel.testing import Fake, Server

PACKAGE = Path(__file__).parents[1]
CREATED = {"id": "0190163d-8694-739b-aea5-966c26f8ad91", "queue": "q", "outcome": "created"}


class Scripted:
    """A transport that answers from a list and notes the requests."""

    def __init__(self, *answers):
        self.answers, self.requests = list(answers), []

    def request(self, method, path, body, headers, timeout, abort=None):
        self.requests.append((method, path, json.loads(body) if body else None, headers))
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        status, data, fields = answer
        return Response(status, fields, json.dumps(data).encode())

    def close(self):
        pass


class AsyncScripted(Scripted):
    async def request(self, *args):
        return super().request(*args)

    async def close(self):
        pass


def refused(status, code, **headers):
    return (status, {"status": status, "code": code, "detail": "no", "title": "no"}, headers)


class Repetition(unittest.TestCase):
    def test_a_put_is_repeated_with_its_idempotency_key(self):
        transport = Scripted(
            ConnectionFailed("broken", True), refused(503, "outcome-unknown"), (201, CREATED, {})
        )
        result = Client("http://x", transport=transport).put("q", {"a": 1})
        self.assertEqual(result.outcome, "created")
        keys = {request[3]["idempotency-key"] for request in transport.requests}
        self.assertEqual((len(transport.requests), len(keys)), (3, 1))
        self.assertEqual(len({json.dumps(request[2]) for request in transport.requests}), 1)

    def test_retry_after_is_honoured(self):
        transport = Scripted(refused(429, "rate-limited", **{"retry-after": "7"}))
        client = Client("http://x", transport=transport, retry_for=5)
        with self.assertRaises(ApiError) as caught:
            client.put("q", 1)
        self.assertEqual((caught.exception.code, caught.exception.retry_after), ("rate-limited", 7.0))
        self.assertEqual(len(transport.requests), 1, "waiting 7 seconds exceeds retry_for")

    def test_retry_after_is_waited_for(self):
        transport = Scripted(refused(429, "rate-limited", **{"retry-after": "1"}), (201, CREATED, {}))
        start = time.monotonic()
        self.assertEqual(Client("http://x", transport=transport).put("q", 1).outcome, "created")
        self.assertGreaterEqual(time.monotonic() - start, 1.0)
        self.assertEqual(len(transport.requests), 2)

    def test_an_ack_is_not_repeated_when_it_may_have_arrived(self):
        transport = Scripted(ConnectionFailed("broken", True))
        with self.assertRaises(ConnectionFailed):
            Client("http://x", transport=transport).ack("id", "token")
        transport = Scripted(ConnectionFailed("refused", False), (200, {"state": "done"}, {}))
        self.assertEqual(Client("http://x", transport=transport).ack("id", "token").state, "done")

    def test_other_errors_are_not_repeated(self):
        transport = Scripted(refused(422, "invalid-field"))
        with self.assertRaises(ApiError):
            Client("http://x", transport=transport).put("q", 1)

    def test_asyncio_repeats_too(self):
        async def main():
            transport = AsyncScripted(refused(503, "unavailable"), (201, CREATED, {}))
            await AsyncClient("http://x", transport=transport).put("q", 1)
            return transport.requests

        requests = asyncio.run(main())
        self.assertEqual(requests[0][3]["idempotency-key"], requests[1][3]["idempotency-key"])

    def test_a_server_that_is_not_there_is_named(self):
        client = Client("http://127.0.0.1:1", retry_for=0)
        with self.assertRaisesRegex(ConnectionFailed, "cannot connect to 127.0.0.1:1"):
            client.health()
        with self.assertRaisesRegex(ValueError, "not a URL"):
            Client("127.0.0.1:7300")


class Batching(unittest.TestCase):
    def test_concurrent_puts_share_a_request_and_get_their_own_answers(self):
        with Server() as server, Client(server.url, batch_window=0.2) as client:
            before = requests_of(server)
            barrier = threading.Barrier(20)

            def put(number):
                barrier.wait(60)
                return client.put("q", number, key=f"k{number}", delay="1h").id

            with ThreadPoolExecutor(20) as pool:
                ids = list(pool.map(put, range(20)))
            self.assertLess(requests_of(server) - before, 10)
            for number, id in enumerate(ids):
                self.assertEqual(client.get(id).payload, number)

    def test_asyncio_batches_too(self):
        async def main():
            transport = AsyncScripted((200, {"results": [{"ok": {**CREATED, "id": str(n)}} for n in range(5)]}, {}))
            client = AsyncClient("http://x", transport=transport)
            return transport, await asyncio.gather(*(client.put("q", n) for n in range(5)))

        transport, answers = asyncio.run(main())
        self.assertEqual([answer.id for answer in answers], ["0", "1", "2", "3", "4"])
        [(method, path, body, _)] = transport.requests
        self.assertEqual((method, path, len(body["items"])), ("POST", "/v1/jobs/batch", 5))

    def test_a_large_job_opens_a_batch_of_its_own(self):
        with Fake() as fake:
            client = fake.client(batch_window=0.05)
            with ThreadPoolExecutor(3) as pool:
                list(pool.map(lambda n: client.put("q", "x" * (3 << 20)), range(3)))
            self.assertEqual(client.queue("q").jobs.ready, 3)


def requests_of(server):
    import re
    import urllib.request

    with urllib.request.urlopen(server.url + "/metrics") as answer:
        text = answer.read().decode()
    counts = re.findall(r'^tickwheel_http_requests_total\{[^}]*(?:jobs|batch)[^}]*\} (\d+)', text, re.M)
    return sum(map(int, counts))


class Types(unittest.TestCase):
    def test_durations_and_times(self):
        self.assertEqual(t.parse_duration("1h30m"), timedelta(hours=1, minutes=30))
        self.assertEqual(t.duration_to_wire(timedelta(microseconds=1)), 1)
        noon = datetime(2026, 1, 2, 12, tzinfo=timezone.utc)
        self.assertEqual(t.timestamp_to_wire(noon), 1_767_355_200_000)
        with self.assertRaisesRegex(ValueError, "'soon' is not a duration"):
            t.parse_duration("soon")

    def test_unknown_members_of_an_answer_are_ignored(self):
        answer = t.from_wire(t.PutResult, {**CREATED, "invented": 1})
        self.assertEqual(answer.queue, "q")

    def test_a_put_leaves_out_what_is_not_given(self):
        self.assertEqual(t.to_wire(Put("q", None)), {"queue": "q", "payload": None})
        self.assertEqual(t.to_wire(Put("q", text="a")), {"queue": "q", "text": "a"})

    def test_a_job_is_named_in_one_way(self):
        with self.assertRaisesRegex(TypeError, "either by its id, or by queue and key"):
            Client("http://x").get("id", queue="q", key="k")

    def test_the_asyncio_client_is_up_to_date(self):
        subprocess.run([sys.executable, str(PACKAGE / "generate_async.py"), "--check"], check=True)
