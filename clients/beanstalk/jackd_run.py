"""Runs the test of jackd against a server of its own."""

import subprocess
import sys

import servers

if __name__ == "__main__":
    with servers.tickwheel() as server:
        command = ["node", "clients/beanstalk/jackd_test.mjs", str(server.port), sys.argv[1]]
        sys.exit(subprocess.run(command, timeout=120).returncode)
