"""Signs JSON Web Tokens (RFC 7515) with ES256, and publishes the key as a set (RFC 7517) for those who check them."""

from __future__ import annotations

import base64
import json
from typing import Any, Final

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature

_KEY: Final = ec.generate_private_key(ec.SECP256R1())
"""One for all token endpoints and brokers of a process, which lives as long as they."""
_KEY_ID: Final = "test"
_BYTES: Final = 32
"""Of a coordinate of P-256, and of half a signature."""


def signed(claims: dict[str, Any]) -> str:
    """A token that a broker with `key_set` takes."""
    header = {"alg": "ES256", "kid": _KEY_ID, "typ": "JWT"}
    text = ".".join(_encoded(json.dumps(part).encode()) for part in (header, claims))
    halves = decode_dss_signature(_KEY.sign(text.encode(), ec.ECDSA(hashes.SHA256())))
    return f"{text}.{_encoded(b''.join(half.to_bytes(_BYTES, 'big') for half in halves))}"


def key_set() -> str:
    """The public key, as what an identity provider has at its ``jwks_uri``."""
    point = _KEY.public_key().public_numbers()
    key = {"kty": "EC", "crv": "P-256", "alg": "ES256", "use": "sig", "kid": _KEY_ID}
    numbers = {name: _encoded(getattr(point, name).to_bytes(_BYTES, "big")) for name in ("x", "y")}
    return json.dumps({"keys": [key | numbers]})


def _encoded(part: bytes) -> str:
    return base64.urlsafe_b64encode(part).decode().rstrip("=")
