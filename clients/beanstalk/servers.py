"""Starts Tickwheel and beanstalkd for a test, each on a free port of loopback."""

import os
import re
import shutil
import socket
import subprocess
import tempfile
import time


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Server:
    """A server that ends with the block that it is used in."""

    def __init__(self, name, command, port):
        self.name, self.port = name, port
        self._folder = tempfile.mkdtemp()
        self._log = tempfile.TemporaryFile()
        command = [part.format(port=port, folder=self._folder) for part in command]
        self._process = subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=self._log
        )
        try:
            self._wait()
        except BaseException:
            self.stop()
            raise

    def _wait(self):
        deadline = time.monotonic() + 60
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port)).close()
                return
            except OSError:
                if self._process.poll() is not None or time.monotonic() > deadline:
                    self._log.seek(0)
                    log = self._log.read().decode(errors="replace")
                    raise SystemExit(f"{self.name} does not start:\n{log}") from None
                time.sleep(0.02)

    def stop(self):
        self._process.kill()
        self._process.wait()
        self._log.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()


def tickwheel():
    binary = os.environ["TICKWHEEL_BIN"]
    command = [binary, "serve", "--listen", "127.0.0.1:0", "--data", "{folder}/data"]
    command += ["--beanstalk", "127.0.0.1:{port}", "--limits-payload", "65535"]
    return Server("tickwheel", command, free_port())


def beanstalkd():
    command = ["beanstalkd", "-l", "127.0.0.1", "-p", "{port}"]
    return Server("beanstalkd", command, free_port())


def beanstalkd_version():
    text = subprocess.run(["beanstalkd", "-v"], capture_output=True, text=True, check=True)
    return re.search(r"[\d.]+", text.stdout).group()
