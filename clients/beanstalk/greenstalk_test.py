"""Uses Tickwheel through greenstalk, a client of beanstalkd for Python."""

import unittest

import greenstalk

import servers


class Greenstalk(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = servers.tickwheel()
        cls.addClassCleanup(cls.server.stop)

    def client(self, **options):
        client = greenstalk.Client(("127.0.0.1", self.server.port), **options)
        self.addCleanup(client.close)
        return client

    def test_a_job_from_put_to_delete(self):
        client = self.client(use="life", watch="life")
        number = client.put("hello", priority=7, delay=0, ttr=9)
        job = client.reserve(timeout=10)
        self.assertEqual((job.id, job.body), (number, "hello"))
        stats = client.stats_job(job)
        self.assertEqual((stats["state"], stats["pri"], stats["ttr"]), ("reserved", 7, 9))
        client.touch(job)
        client.release(job, priority=3, delay=0)
        job = client.reserve(timeout=10)
        client.bury(job)
        self.assertEqual(client.peek_buried().id, number)
        self.assertEqual(client.kick(10), 1)
        client.delete(client.reserve(timeout=10))
        with self.assertRaises(greenstalk.NotFoundError):
            client.peek(number)

    def test_binary_bodies_and_several_tubes(self):
        put = self.client(encoding=None, use="one")
        work = self.client(encoding=None, watch=["one", "two"])
        put.put(bytes(range(256)))
        put.use("two")
        put.put(b"\r\n", priority=1)
        bodies = {work.reserve(timeout=10).body for _ in range(2)}
        self.assertEqual(bodies, {bytes(range(256)), b"\r\n"})
        self.assertEqual(work.watching(), ["one", "two"])
        with self.assertRaises(greenstalk.TimedOutError):
            work.reserve(timeout=0)

    def test_delays_and_looking(self):
        client = self.client(use="later", watch="later")
        number = client.put("x", delay=3600)
        self.assertEqual(client.peek_delayed().id, number)
        with self.assertRaises(greenstalk.NotFoundError):
            client.peek_ready()
        self.assertIn("later", client.tubes())
        self.assertEqual(client.using(), "later")
        self.assertEqual(client.stats_tube("later")["current-jobs-delayed"], 1)
        self.assertGreaterEqual(client.stats()["cmd-put"], 1)
        client.kick_job(number)
        client.pause_tube("later", 0)
        job = client.reserve_job(number)
        client.delete(job)

    def test_errors_have_their_types(self):
        client = self.client()
        with self.assertRaises(greenstalk.JobTooBigError):
            client.put("x" * 65_536)
        with self.assertRaises(greenstalk.NotIgnoredError):
            client.ignore("default")
        with self.assertRaises(greenstalk.NotFoundError):
            client.delete(greenstalk.Job(1, ""))
        client.watch("soon")
        client.use("soon")
        client.put("x", ttr=1)
        client.reserve(timeout=10)
        with self.assertRaises(greenstalk.DeadlineSoonError):
            client.reserve(timeout=10)


if __name__ == "__main__":
    unittest.main()
