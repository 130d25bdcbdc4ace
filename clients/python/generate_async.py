"""Writes ``tickwheel/aio.py``, the asyncio client, from ``tickwheel/client.py``.

The two differ only in ``async`` and ``await``, so that one of them is written by hand. With
``--check`` the program only tells whether ``aio.py`` is up to date.
"""

import re
import sys
from pathlib import Path

PACKAGE = Path(__file__).parent / "tickwheel"


def generate() -> str:
    text = (PACKAGE / "client.py").read_text(encoding="utf-8")
    head, _, body = text.partition("class Client(SyncBase):")
    head = head.replace(
        '"""The blocking client. ``generate_async.py`` makes ``aio.py`` of this file."""',
        '"""The asyncio client. ``generate_async.py`` makes this file of ``client.py``."""',
    )
    head = head.replace("from ._sync import SyncBase", "from ._async import AsyncBase")
    head = head.replace("Iterator", "AsyncIterator")
    body = body.replace("for any number of threads", "for any number of tasks of one event loop")
    body = body.replace("    def ", "    async def ").replace("Iterator", "AsyncIterator")
    body = re.sub(r"self\.(_do|_many|_put_batched|put_job|list|change_matching)\(", r"await self.\1(", body)
    return head + "class AsyncClient(AsyncBase):" + body


if __name__ == "__main__":
    target = PACKAGE / "aio.py"
    if "--check" in sys.argv:
        sys.exit("aio.py is out of date: run generate_async.py" if target.read_text() != generate() else 0)
    target.write_text(generate(), encoding="utf-8")
