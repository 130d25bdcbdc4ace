"""Transparent batching: puts that happen within a millisecond travel as one request.

The first put opens a batch and waits for the window; puts that arrive meanwhile join it. Then the
batch is sent, and each caller gets its own answer or error. If the server refuses the batch as a
whole because one item is malformed, every item is sent alone, so that only its caller is told.
"""

from __future__ import annotations

import json
from typing import Any, Dict, List, Union

from . import types as t
from .errors import ApiError

Answer = Union[t.PutResult, BaseException]

MAX_ITEMS = 1_000
#: Half of the server's limit for a body. Jobs that are larger travel alone.
MAX_BYTES = 4 << 20


class Batch:
    """Puts that are sent together."""

    def __init__(self) -> None:
        self.jobs: List[Dict[str, Any]] = []
        self.bytes = 0

    def takes(self, size: int) -> bool:
        """Returns whether a job of this size still fits."""
        return not self.jobs or (len(self.jobs) < MAX_ITEMS and self.bytes + size <= MAX_BYTES)

    def add(self, job: Dict[str, Any], size: int) -> int:
        """Adds a job and returns its position."""
        self.jobs.append(job)
        self.bytes += size
        return len(self.jobs) - 1


def size_of(job: Dict[str, Any]) -> int:
    """Returns an upper bound of the bytes that the job takes in a request."""
    return len(json.dumps(job, separators=(",", ":")))


def is_refused_as_a_whole(error: ApiError) -> bool:
    """Returns whether items of the batch could succeed if they were sent alone."""
    return error.status in (400, 413, 422)
