"""Keeps web pages of other origins from changing anything: they may send requests with whatever a browser adds to them.

A browser sends a POST, PUT or DELETE without a body, or a form, from any page that its user has open, with the addresses, client
certificates and remembered passwords of that user, and without asking first; restart, pause and stop take no body. Browsers say
where a request comes from in ``Sec-Fetch-Site`` and ``Origin`` (https://www.w3.org/TR/fetch-metadata/,
https://fetch.spec.whatwg.org/#origin-header), which a page can neither set nor leave out. Programs (curl, kcctl, Terraform) send
neither.
"""

from typing import Final
from urllib.parse import urlsplit

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from tidings_connect.config.rest.headers import ALLOWED_ORIGINS, Origins
from tidings_connect.rest.errors import error_response

_HARMLESS: Final = frozenset({"GET", "HEAD", "OPTIONS"})
_OWN: Final = frozenset({"same-origin", "none"})
_DEFAULT_PORTS: Final = {"http": 80, "https": 443}


def same_origin(origins: Origins | None) -> Middleware:
    """A middleware that refuses changes which pages of other origins ask for.

    Args:
        origins: those that ``access.control.allow.origin`` allows.
    """

    @web.middleware
    async def check(request: web.Request, handler: Handler) -> web.StreamResponse:
        if request.method in _HARMLESS or _may(request, origins):
            return await handler(request)
        return error_response(
            403, f"a web page of another origin may not change anything here ({ALLOWED_ORIGINS} allows some)"
        )

    return check


def _may(request: web.Request, origins: Origins | None) -> bool:
    site, origin = request.headers.get("Sec-Fetch-Site"), request.headers.get("Origin")
    if site is not None and site.strip().lower() in _OWN:
        return True
    if origin is None:
        return site is None  # no browser
    if origins is not None and origins.allows(origin):
        return True
    return site is None and _is_own(origin, request.headers.get("Host", ""))


def _is_own(origin: str, host: str) -> bool:
    """Whether an origin is the address that was asked, as browsers without ``Sec-Fetch-Site`` have it. A proxy may have
    taken off the TLS, so that the scheme does not tell."""
    parts = urlsplit(origin)
    default = _DEFAULT_PORTS.get(parts.scheme)
    try:
        asked = urlsplit(f"{parts.scheme}://{host}")
        return (
            default is not None
            and parts.hostname is not None
            and (parts.hostname, parts.port or default) == (asked.hostname, asked.port or default)
        )
    except ValueError:  # a port that is not a number
        return False
