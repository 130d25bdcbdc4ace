"""The workers: leases, shutdown, middleware and names."""

import asyncio
import queue
import threading
import time
import unittest
import urllib.request

from tickwheel import AsyncWorker, Worker
from tickwheel._work import bounded_error
from tickwheel.testing import Fake, Server

SECONDS = 60


class Leases(unittest.TestCase):
    def test_the_lease_of_a_long_handler_is_extended(self):
        with Server(manual_clock=False) as server, server.client() as client:
            client.put("q", 1)
            worker = Worker(client, lease="600ms")
            runs = []

            @worker.handler("q")
            def handle(job):
                runs.append(job.attempts)
                time.sleep(2)  # The work itself, more than three leases long.
                worker.stop()

            worker.start().join(SECONDS)
            self.assertEqual(runs, [1])
            self.assertEqual(client.queue("q").jobs.leased, 0)

    def test_asyncio_extends_and_cancels_a_handler_whose_lease_is_lost(self):
        async def main():
            async with server.async_client() as client:
                job = await client.put("q", 1)
                worker = AsyncWorker(client, lease="600ms")
                cancelled = asyncio.Event()

                @worker.handler("q")
                async def handle(job):
                    if job.payload == 2:
                        return
                    try:
                        await asyncio.sleep(SECONDS)
                    except asyncio.CancelledError:
                        cancelled.set()
                        raise

                running = asyncio.ensure_future(worker.run())
                while (await client.get(job.id)).state != "leased":
                    await asyncio.sleep(0.01)
                await client.cancel(job.id)
                await asyncio.wait_for(cancelled.wait(), SECONDS)
                worker.stop()
                await running

        with Server(manual_clock=False) as server:
            asyncio.run(main())

    def test_a_worker_whose_lease_is_lost_does_not_acknowledge(self):
        with Fake() as fake:
            client = fake.client()
            client.put("q", 1)
            worker = Worker(client, lease="300ms")
            lost = []

            @worker.handler("q")
            def handle(job):
                fake.advance("1s")  # The lease expires: the next extension fails.
                deadline = time.monotonic() + SECONDS
                while not worker.is_lost(job) and time.monotonic() < deadline:
                    time.sleep(0.01)
                lost.append(worker.is_lost(job))
                worker.stop()

            worker.start().join(SECONDS)
            self.assertEqual(lost, [True])
            self.assertEqual(client.queue("q").jobs.scheduled, 1)


class Shutdown(unittest.TestCase):
    def test_running_handlers_finish_and_the_rest_is_released(self):
        with Fake() as fake:
            client = fake.client()
            for number in range(6):
                client.put("q", number)
            worker = Worker(client, concurrency=1, prefetch=5)
            began, go_on = threading.Event(), threading.Event()

            @worker.handler("q")
            def handle(job):
                began.set()
                go_on.wait(SECONDS)

            thread = worker.start()
            began.wait(SECONDS)
            self.assertEqual(client.queue("q").jobs.leased, 6)
            worker.stop()
            go_on.set()
            thread.join(SECONDS)
            jobs = client.queue("q").jobs
            self.assertEqual((jobs.leased, jobs.ready), (0, 5))
            self.assertTrue(all(job.attempts == 0 for job in client.list_all("q")))

    def test_handlers_that_exceed_the_grace_lose_their_job(self):
        async def main():
            fake = Fake()
            client = fake.async_client()
            await client.put("q", 1)
            worker = AsyncWorker(client, grace=0.05)

            @worker.handler("q")
            async def handle(job):
                worker.stop()
                await asyncio.sleep(SECONDS)

            await asyncio.wait_for(worker.run(), SECONDS)
            return (await client.queue("q")).jobs

        jobs = asyncio.run(main())
        self.assertEqual((jobs.ready, jobs.leased), (1, 0))

    def test_a_waiting_worker_stops_at_once(self):
        with Server() as server, server.client() as client:
            worker = Worker(client)
            worker.handler("q")(lambda job: None)
            thread = worker.start()
            client.put("other", 1)
            worker.stop()
            thread.join(SECONDS)
            self.assertFalse(thread.is_alive())


class Reconnection(unittest.TestCase):
    def test_a_worker_reconnects_after_a_restart_of_the_server(self):
        with Server() as server, server.client() as client:
            worker = Worker(client)
            begun, finish, done = threading.Event(), threading.Event(), queue.Queue()

            @worker.handler("q")
            def handle(job):
                if job.payload == 1:
                    begun.set()
                    finish.wait(SECONDS)
                done.put(job.payload)

            thread = worker.start()
            client.put("q", 1)
            self.assertTrue(begun.wait(SECONDS))
            server.kill()
            server.start()
            finish.set()  # The worker holds a job, and reports it to the new process.
            client.put("q", 2)
            self.assertEqual([done.get(timeout=SECONDS) for _ in range(2)], [1, 2])
            worker.stop()
            thread.join(SECONDS)
            found = client.queue("q")
            self.assertEqual((found.jobs.ready, found.jobs.leased), (0, 0))
            self.assertEqual(found.counters.acked, 2)

    def test_an_asyncio_worker_reconnects_after_a_restart_of_the_server(self):
        async def main():
            async with server.async_client() as client:
                worker = AsyncWorker(client)
                begun, finish, done = asyncio.Event(), asyncio.Event(), asyncio.Queue()

                @worker.handler("q")
                async def handle(job):
                    if job.payload == 1:
                        begun.set()
                        await finish.wait()
                    done.put_nowait(job.payload)

                running = asyncio.ensure_future(worker.run())
                await client.put("q", 1)
                await asyncio.wait_for(begun.wait(), SECONDS)
                server.kill()
                server.start()
                finish.set()
                await client.put("q", 2)
                handled = [await asyncio.wait_for(done.get(), SECONDS) for _ in range(2)]
                worker.stop()
                await asyncio.wait_for(running, SECONDS)
                return handled, (await client.queue("q")).counters.acked

        with Server() as server:
            self.assertEqual(asyncio.run(main()), ([1, 2], 2))


class Details(unittest.TestCase):
    def test_middleware_wraps_in_order(self):
        with Fake() as fake:
            client = fake.client()
            client.put("q", 1)
            worker = Worker(client)
            order = []

            @worker.handler("q")
            def handle(job):
                order.append("handler")
                worker.stop()

            for name in ("outer", "inner"):
                def middleware(job, handler, name=name):
                    order.append(f"{name} in")
                    handler(job)
                    order.append(f"{name} out")

                worker.use(middleware)
            worker.start().join(SECONDS)
            self.assertEqual(order, ["outer in", "inner in", "handler", "inner out", "outer out"])

    def test_a_result_that_is_not_json_fails_the_job(self):
        with Fake() as fake:
            client = fake.client()
            id = client.put("q", 1).id
            worker = Worker(client)

            @worker.handler("q")
            def handle(job):
                worker.stop()
                return object()

            worker.start().join(SECONDS)
            self.assertIn("the result is not JSON", client.get(id).last_error)

    def test_the_server_knows_the_name_of_the_worker(self):
        with Server() as server, server.client() as client:
            id = client.put("q", 1).id
            worker = Worker(client, name="büro-1")
            seen = []

            @worker.handler("q")
            def handle(job):
                with urllib.request.urlopen(f"{server.url}/v1/jobs/{id}") as answer:
                    seen.append(answer.read().decode("utf-8"))
                worker.stop()

            worker.start().join(SECONDS)
            self.assertIn('"büro-1"', seen[0])

    def test_errors_fit_the_api(self):
        self.assertEqual(bounded_error(KeyError("a")), "KeyError: 'a'")
        self.assertLessEqual(len(bounded_error(ValueError("ü" * 5000)).encode()), 4096)

    def test_bad_settings_are_refused(self):
        worker = Worker(Fake().client(), concurrency=0)
        with self.assertRaisesRegex(ValueError, "concurrency must be at least 1, got 0"):
            worker.handler("q")(lambda job: None)
        with self.assertRaisesRegex(ValueError, "has no handler"):
            Worker(Fake().client()).run()
