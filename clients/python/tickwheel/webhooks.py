"""Verifies the signatures of pushed jobs, by the rules of Standard Webhooks."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import time
from typing import Mapping, Optional, Union

from .errors import SignatureError

TOLERANCE_SECONDS = 300


def sign_webhook(secret: str, id: str, timestamp: int, body: Union[bytes, str]) -> str:
    """Returns the signature ``v1,…`` of a request, for tests of a receiver."""
    content = body.encode("utf-8") if isinstance(body, str) else body
    signed = f"{id}.{timestamp}.".encode("utf-8") + content
    digest = hmac.new(_key(secret), signed, hashlib.sha256).digest()
    return "v1," + base64.b64encode(digest).decode("ascii")


def verify_webhook(
    secret: str,
    headers: Mapping[str, str],
    body: Union[bytes, str],
    *,
    now: Optional[float] = None,
    tolerance: float = TOLERANCE_SECONDS,
) -> str:
    """Returns the id of the job if the request is signed with the secret. Else raises
    ``SignatureError``.

    ``secret`` is ``whsec_`` followed by base64. ``body`` is the body as it was received. A request
    whose time differs from ``now`` by more than ``tolerance`` seconds is refused, which prevents
    replays. One valid signature of several is enough, so that secrets can be rotated.
    """
    fields = {name.lower(): value for name, value in headers.items()}
    try:
        id, timestamp = fields["webhook-id"], fields["webhook-timestamp"]
        given = fields["webhook-signature"]
    except KeyError as error:
        raise SignatureError(f"the header {error.args[0]} is missing") from None
    if not (timestamp.isascii() and timestamp.isdigit()):
        raise SignatureError(f"webhook-timestamp must be seconds since 1970, got {timestamp!r}")
    if abs((time.time() if now is None else now) - int(timestamp)) > tolerance:
        raise SignatureError(f"webhook-timestamp {timestamp} differs from now by more than {tolerance} s")
    expected = sign_webhook(secret, id, int(timestamp), body).encode("ascii")
    matches = [hmac.compare_digest(it.encode("utf-8"), expected) for it in given.split(" ")]
    if not any(matches):
        raise SignatureError("no signature matches: the secret or the body is another one")
    return id


def _key(secret: str) -> bytes:
    prefix, _, encoded = secret.partition("whsec_")
    try:
        if prefix or not encoded:
            raise ValueError
        return base64.b64decode(encoded, validate=True)
    except (ValueError, binascii.Error):
        raise SignatureError("the secret must be whsec_ followed by base64") from None
