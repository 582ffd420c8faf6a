"""Signatures and ids of requests. Pure.

Specified by Standard Webhooks 1.0 (github.com/standard-webhooks/standard-webhooks, ``spec/standard-webhooks.md``): over
``id.timestamp.body``, HMAC-SHA256 by a secret that both sides have, Ed25519 (RFC 8032) by a key that only the sender has. A request
has a signature by each, so that a receiver may change what it verifies with without losing a request.
"""

import hashlib
import hmac
import re
from base64 import b64decode, b64encode
from collections.abc import Callable, Sequence
from typing import Final
from urllib.parse import quote

Signer = Callable[[bytes], str]
"""What is signed, as a signature with its version."""

_SECRET: Final = "whsec_"  # noqa: S105 - of its form
_PRIVATE: Final = "whsk_"
_PUBLIC: Final = "whpk_"
_FEWEST_SECRET_BYTES, _MOST_SECRET_BYTES = 24, 64
_KEY_BYTES: Final = 32


def signers_of(value: str) -> tuple[Signer, ...]:
    """Secrets and private keys as they are configured, with commas or blanks between.

    Raises:
        ValueError: says which one is wrong and why, and not what it is.
    """
    found = []
    for number, part in enumerate(filter(None, re.split(r"[\s,]+", value)), 1):
        if part.startswith(_PUBLIC):
            raise ValueError(
                f"Secret {number} is a public key ({_PUBLIC}), which only verifies; {_PRIVATE} is expected"
            )
        asymmetric = part.startswith(_PRIVATE)
        try:
            secret = b64decode(part.removeprefix(_PRIVATE if asymmetric else _SECRET), validate=True)
        except ValueError:
            raise ValueError(f"Secret {number} is not {_SECRET} or {_PRIVATE} and base64") from None
        found.append(_ed25519(secret, number) if asymmetric else _hmac(secret, number))
    return tuple(found)


def _hmac(secret: bytes, number: int) -> Signer:
    if not _FEWEST_SECRET_BYTES <= len(secret) <= _MOST_SECRET_BYTES:
        raise ValueError(f"Secret {number} has {len(secret)} bytes; 24 to 64 are expected")
    return lambda content: f"v1,{b64encode(hmac.digest(secret, content, hashlib.sha256)).decode()}"


def _ed25519(secret: bytes, number: int) -> Signer:
    """The private key of RFC 8032, or that and the public key behind it, as many libraries write a pair."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import (  # noqa: PLC0415 - slow, and few need it
        Ed25519PrivateKey,
    )

    if len(secret) not in {_KEY_BYTES, 2 * _KEY_BYTES}:
        raise ValueError(
            f"Secret {number} has {len(secret)} bytes; a key of Ed25519 has 32, with its public key 64"
        )
    key = Ed25519PrivateKey.from_private_bytes(secret[:_KEY_BYTES])
    if secret[_KEY_BYTES:] not in {b"", key.public_key().public_bytes_raw()}:
        raise ValueError(f"Secret {number} is a pair of keys that do not belong together")
    return lambda content: f"v1a,{b64encode(key.sign(content)).decode()}"


def signed_headers(signers: Sequence[Signer], message_id: str, seconds: int, body: bytes) -> dict[str, str]:
    """The three headers of a signed request.

    Args:
        signers: at least one; all of them sign.
        message_id: without full stops, which part what is signed.
        seconds: when the attempt is made, since the Unix epoch.
    """
    content = b"%b.%d.%b" % (message_id.encode(), seconds, body)
    return {
        "webhook-id": message_id,
        "webhook-timestamp": str(seconds),
        "webhook-signature": " ".join(sign(content) for sign in signers),
    }


def safe_id(text: str) -> str:
    """An id that may stand in a header and in what is signed: UUIDs stay as they are, other text is percent-encoded."""
    return quote(text, safe="").replace(".", "%2E")


def batch_id(ids: Sequence[str]) -> str:
    """The id of a request with several records: the same when it is sent again with the same records."""
    if len(ids) == 1:
        return ids[0]
    return hashlib.sha256("\n".join(ids).encode()).hexdigest()[:32]
