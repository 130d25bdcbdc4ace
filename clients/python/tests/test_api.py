"""The client has a method for every operation of the API."""

import json
import unittest
from pathlib import Path

from tickwheel import AsyncClient, Client

OPERATIONS = Path(__file__).parents[2] / "operations.json"


class Api(unittest.TestCase):
    def test_every_operation_has_a_method(self):
        operations = json.loads(OPERATIONS.read_text(encoding="utf-8"))["operations"]
        self.assertGreater(len(operations), 50)
        for operation, languages in operations.items():
            for kind in (Client, AsyncClient):
                self.assertTrue(callable(getattr(kind, languages["python"], None)), operation)
