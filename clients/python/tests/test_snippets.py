"""Runs every Python snippet of the README and of the page in docs/clients, each in a process of its
own, against a real server."""

import os
import re
import subprocess
import sys
import threading
import unittest
from pathlib import Path

from tickwheel.testing import Server

PACKAGE = Path(__file__).parents[1]
ROOT = PACKAGE.parents[1]
PAGES = [PACKAGE / "README.md", *sorted((ROOT / "docs" / "clients").glob("*.md"))]
SECONDS = 60


def snippets():
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        for number, code in enumerate(re.findall(r"^```python\n(.*?)^```", text, re.S | re.M), 1):
            yield f"{page.name} snippet {number}", code


class Snippets(unittest.TestCase):
    def test_every_snippet_runs(self):
        found = list(snippets())
        self.assertGreater(len(found), 6)
        for name, code in found:
            with self.subTest(name), Server(manual_clock=False) as server:
                self.run_snippet(name, code, server)

    def run_snippet(self, name, code, server):
        code = code.replace("http://127.0.0.1:7300", server.url)
        runs_for_ever = re.search(r"^worker\.run\(\)$", code, re.M)
        if runs_for_ever:
            with server.client() as client:
                client.put("orders", {"order": 42})
        environment = {**os.environ, "PYTHONPATH": str(PACKAGE), "PYTHONUNBUFFERED": "1", "TICKWHEEL_URL": server.url}
        process = subprocess.Popen(
            [sys.executable, "-c", code], env=environment, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        guard = threading.Timer(SECONDS, process.kill)
        guard.start()
        lines = []
        for line in process.stdout:
            lines.append(line)
            if runs_for_ever and "closing order 42" in line:
                process.terminate()
        code = process.wait()
        guard.cancel()
        process.stdout.close()
        self.assertEqual(code, 0, f"{name}:\n{''.join(lines)}")
        if runs_for_ever:
            self.assertIn("closing order 42\n", lines)
            with server.client() as client:
                jobs = client.queue("orders").jobs
            self.assertEqual((jobs.ready, jobs.leased), (0, 0), "the job was not acknowledged")
