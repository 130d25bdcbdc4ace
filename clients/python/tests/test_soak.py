"""Kills servers and workers while jobs are put and handled, and checks that nothing is lost.

``TICKWHEEL_SOAK_SECONDS`` sets for how long (3 by default, the short form).
"""

import itertools
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest
from pathlib import Path

from tickwheel import Client
from tickwheel.testing import Server

PACKAGE = Path(__file__).parents[1]
SECONDS = float(os.environ.get("TICKWHEEL_SOAK_SECONDS", "3"))

WORKER = """
import sys
from tickwheel import Client, Worker
out = open(sys.argv[2], "a", buffering=1)
worker = Worker(Client(sys.argv[1]), concurrency=4, prefetch=4, lease="1s")
@worker.handler("soak")
def handle(job):
    out.write(f"{job.payload}\\n")
worker.run()
"""


class Soak(unittest.TestCase):
    def test_nothing_is_lost_when_servers_and_workers_are_killed(self):
        with Server(manual_clock=False) as server, tempfile.TemporaryDirectory() as folder:
            put, errors, is_over = [], [], threading.Event()
            producers = [
                threading.Thread(target=self.produce, args=(server.url, number, put, errors, is_over))
                for number in range(4)
            ]
            self.workers, self.folder = [], Path(folder)
            for thread in producers:
                thread.start()
            for _ in range(2):
                self.start_worker(server.url)
            try:
                end = time.monotonic() + SECONDS
                kills = 0
                while time.monotonic() < end or kills < 2:
                    time.sleep(random.uniform(0.2, 0.6))
                    self.kill_worker(random.choice([signal.SIGKILL, signal.SIGTERM]))
                    self.start_worker(server.url)
                    if random.random() < 0.5 or kills == 0:
                        server.kill()
                        server.start()
                    kills += 1
                is_over.set()
                for thread in producers:
                    thread.join(60)
                self.wait_until_empty(server)
            finally:
                is_over.set()
                for worker in self.workers:
                    worker.kill()
                    worker.wait()
            handled = {int(line) for file in self.folder.iterdir() for line in file.read_text().split()}
            self.assertEqual(errors, [])
            self.assertGreater(len(put), 20)
            self.assertEqual(set(put) - handled, set(), "jobs were put and never handled")
            self.assertEqual(len(put), len(set(put)))

    @staticmethod
    def produce(url, number, put, errors, is_over):
        try:
            with Client(url, retry_for=60) as client:
                for count in itertools.count(number * 1_000_000):
                    client.put("soak", count, max_attempts=1_000, delay=random.randrange(50))
                    put.append(count)
                    if is_over.wait(0.005):
                        return
        except Exception as error:
            errors.append(error)

    def start_worker(self, url):
        out = self.folder / f"{len(list(self.folder.iterdir()))}-{random.getrandbits(32):x}"
        out.touch()
        command = [sys.executable, "-c", WORKER, url, str(out)]
        environment = {**os.environ, "PYTHONPATH": str(PACKAGE)}
        self.workers.append(subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL))

    def kill_worker(self, how):
        worker = self.workers.pop(0)
        worker.send_signal(how)
        worker.wait(60)

    def wait_until_empty(self, server):
        deadline = time.monotonic() + 60
        with server.client() as client:
            while time.monotonic() < deadline:
                jobs = client.queue("soak").jobs
                if jobs.scheduled + jobs.ready + jobs.leased == 0:
                    self.assertEqual(jobs.dead, 0)
                    return
                time.sleep(0.05)
        self.fail(f"jobs are left: {jobs}")
