"""TLS of a connection that a client library does not make by itself, from the mode that its options name."""

import ssl
import tempfile
from typing import Final

from tidings_connect.kafka.key_stores import TlsMaterial

MODES: Final = ("disable", "trust", "verify-ca", "verify-full")
"""Plain; any certificate; one that an authority has signed; and that is the host's."""


def tls_context(
    mode: str, authorities: str | None = None, stores: TlsMaterial | None = None
) -> ssl.SSLContext | None:
    """What a connection is encrypted with; None: with nothing.

    Args:
        mode: one of `MODES`.
        authorities: a file of certificates that are trusted, in PEM; None: the system's, or those of ``SSL_CERT_FILE``.
        stores: authorities in place of these, where it has some, and the own certificate and its key.

    Raises:
        OSError: the file cannot be read, or holds no certificate.
    """
    if mode == "disable":
        return None
    if stores is not None and stores.authorities:
        context = ssl.create_default_context(cadata=stores.authorities)
    else:
        context = ssl.create_default_context(cafile=authorities)
    context.check_hostname = mode == "verify-full"
    if mode == "trust":
        context.verify_mode = ssl.CERT_NONE
    if stores is not None and stores.certificates:
        with tempfile.NamedTemporaryFile(
            "w", suffix=".pem"
        ) as file:  # ssl takes them from a file only; its mode is 0600
            file.write(stores.certificates + stores.key)
            file.flush()
            context.load_cert_chain(file.name)
    return context
