"""Runs the scenarios of ``clients/conformance`` with both clients, and with the fake what it has."""

import asyncio
import json
import unittest
from pathlib import Path

import tickwheel
from tickwheel.testing import Fake, Server

from .matching import match, point, substitute
from .operations import AsyncOperations, SyncOperations

SCENARIOS = Path(__file__).parents[2] / "conformance"
#: What the fake does not have: schedules, groups, targets, history, follow-ups, statistics, events,
#: restarts, imports, and the server's way of checking requests.
NOT_FAKED = {
    "concurrent_puts", "error_groups", "errors", "event_filters", "events", "groups", "history",
    "idempotency", "insight", "put_options", "queues", "rate_limit", "restart", "results", "schedules",
    "service", "stats", "targets",
}  # fmt: skip


def run(scenario, operations):
    variables = {"server": getattr(operations.server, "url", None)}
    for number, step in enumerate(scenario["steps"], 1):
        unknown = set(step) - {"do", "with", "expect", "error", "save"}
        assert not unknown, f"step {number}: unknown members {unknown}"
        try:
            expected_error = substitute(step.get("error"), variables)
            try:
                answer = operations.perform(step["do"], substitute(step.get("with", {}), variables))
            except tickwheel.ApiError as error:
                if expected_error is None:
                    raise
                problem = {k: v for k, v in vars(error.problem).items() if v is not None}
                match(expected_error, problem)
                continue
            assert expected_error is None, f"succeeded with {answer}, expected {expected_error}"
            match(substitute(step.get("expect", {}), variables), answer or {})
            for name, pointer in step.get("save", {}).items():
                variables[name] = point(answer, pointer)
        except Exception as error:
            raise AssertionError(f"step {number}, {step['do']}: {error!r}") from error


def load(path):
    return json.loads(path.read_text(encoding="utf-8"))


class Conformance(unittest.TestCase):
    """One test per scenario and client; see ``add_tests``."""

    def blocking(self, path):
        scenario = load(path)
        with Server(args=scenario.get("serve", [])) as server, server.client() as client:
            operations = SyncOperations(server, client)
            run(scenario, operations)
            operations.close()

    def asyncio(self, path):
        scenario = load(path)
        loop = asyncio.new_event_loop()
        try:
            with Server(args=scenario.get("serve", [])) as server:
                client = server.async_client()
                operations = AsyncOperations(server, client, loop)
                run(scenario, operations)
                operations.close()
        finally:
            loop.close()

    def fake(self, path):
        with Fake() as fake, fake.client() as client:
            run(load(path), SyncOperations(fake, client))

    def fake_asyncio(self, path):
        loop = asyncio.new_event_loop()
        try:
            run(load(path), AsyncOperations(None, Fake().async_client(), loop))
        finally:
            loop.close()


def add_tests():
    paths = sorted(SCENARIOS.glob("*.json"))
    assert len(paths) > 20, f"no scenarios in {SCENARIOS}"
    for path in paths:
        kinds = ["blocking", "asyncio"] + ([] if path.stem in NOT_FAKED else ["fake", "fake_asyncio"])
        for kind in kinds:
            def test(self, path=path, kind=kind):
                getattr(self, kind)(path)

            setattr(Conformance, f"test_{path.stem}_{kind}", test)


add_tests()

if __name__ == "__main__":
    unittest.main()
