"""TLS of a connection that a client library does not make by itself, from the mode that its options name."""

import ssl
from typing import Final

MODES: Final = ("disable", "trust", "verify-ca", "verify-full")
"""Plain; any certificate; one that an authority has signed; and that is the host's."""


def tls_context(mode: str, authorities: str | None = None) -> ssl.SSLContext | None:
    """What a connection is encrypted with; None: with nothing.

    Args:
        mode: one of `MODES`.
        authorities: a file of certificates that are trusted, in PEM; None: the system's, or those of ``SSL_CERT_FILE``.

    Raises:
        OSError: the file cannot be read, or holds no certificate.
    """
    if mode == "disable":
        return None
    context = ssl.create_default_context(cafile=authorities)
    context.check_hostname = mode == "verify-full"
    if mode == "trust":
        context.verify_mode = ssl.CERT_NONE
    return context
