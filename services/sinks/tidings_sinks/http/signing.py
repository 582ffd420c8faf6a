"""Signatures and ids of requests. Pure.

Specified by Standard Webhooks 1.0 (github.com/standard-webhooks/standard-webhooks, ``spec/standard-webhooks.md``): HMAC-SHA256
over ``id.timestamp.body``, a signature for each secret, so that a receiver may change its secret without losing a request.
"""

import hashlib
import hmac
from base64 import b64encode
from collections.abc import Sequence
from urllib.parse import quote


def signed_headers(secrets: Sequence[bytes], message_id: str, seconds: int, body: bytes) -> dict[str, str]:
    """The three headers of a signed request.

    Args:
        secrets: at least one; all of them sign.
        message_id: without full stops, which part what is signed.
        seconds: when the attempt is made, since the Unix epoch.
    """
    content = b"%b.%d.%b" % (message_id.encode(), seconds, body)
    signatures = (b64encode(hmac.digest(secret, content, hashlib.sha256)).decode() for secret in secrets)
    return {
        "webhook-id": message_id,
        "webhook-timestamp": str(seconds),
        "webhook-signature": " ".join(f"v1,{signature}" for signature in signatures),
    }


def safe_id(text: str) -> str:
    """An id that may stand in a header and in what is signed: UUIDs stay as they are, other text is percent-encoded."""
    return quote(text, safe="").replace(".", "%2E")


def batch_id(ids: Sequence[str]) -> str:
    """The id of a request with several records: the same when it is sent again with the same records."""
    if len(ids) == 1:
        return ids[0]
    return hashlib.sha256("\n".join(ids).encode()).hexdigest()[:32]
