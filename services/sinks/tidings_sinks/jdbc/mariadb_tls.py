"""TLS to MariaDB, by the names of the drivers' parameters: those of MariaDB's and MySQL's for JDBC, and of PyMySQL's."""

import ssl
from collections.abc import Mapping
from typing import Any, Final

_MODES: Final = {
    "disable": "disable",
    "disabled": "disable",
    "preferred": "prefer",
    "trust": "trust",
    "required": "trust",
    "verify-ca": "verify-ca",
    "verify_ca": "verify-ca",
    "verify-full": "verify-full",
    "verify_identity": "verify-full",
}
_USES: Final = {"false": "disable", "true": "trust"}
"""A former name, of which the certificate is not checked."""
_FILES: Final = {
    "serverSslCert": "ssl_ca",
    "ssl_ca": "ssl_ca",
    "sslcert": "ssl_cert",
    "ssl_cert": "ssl_cert",
    "sslkey": "ssl_key",
    "ssl_key": "ssl_key",
}


def tls_parameter(name: str, value: str) -> dict[str, str] | None:
    """What a URL's parameter says of TLS; None: nothing, or nothing that is understood."""
    if name == "sslMode" and value.lower() in _MODES:
        return {"ssl_mode": _MODES[value.lower()]}
    if name == "useSSL" and value.lower() in _USES:
        return {"ssl_mode": _USES[value.lower()]}
    if name in _FILES and value:
        return {_FILES[name]: value.removeprefix("file:")}
    return None


def tls_options(given: Mapping[str, str]) -> dict[str, Any]:
    """PyMySQL's arguments. Without a mode, TLS is used where the server has it, whoever it is.

    Args:
        given: what `tls_parameter` has made.

    Raises:
        OSError: a file cannot be read, or holds no certificate.
    """
    mode = given.get("ssl_mode", "verify-full" if "ssl_ca" in given else "prefer")
    if mode == "disable":
        return {"ssl_disabled": True}
    if mode == "prefer":
        return {}
    context = ssl.create_default_context(cafile=given.get("ssl_ca"))
    context.check_hostname = mode == "verify-full"
    if mode == "trust":
        context.verify_mode = ssl.CERT_NONE
    if "ssl_cert" in given:
        context.load_cert_chain(given["ssl_cert"], given.get("ssl_key"))
    return {"ssl": context}
