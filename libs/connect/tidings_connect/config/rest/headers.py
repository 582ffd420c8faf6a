"""Headers that the worker's properties add to the answers of the REST API: for pages of other origins, and fixed ones.

``access.control.allow.origin`` and ``access.control.allow.methods`` are CORS (https://fetch.spec.whatwg.org/#http-cors-protocol)
as Kafka Connect's web server does it: an origin is a regular expression, or ``*`` for any; a page may send ``Content-Type``
and nothing else, and no cookies; a preflight request goes on to the endpoint. ``response.http.headers.config`` is a list of
rules, ``[set|add|setDate|addDate] name: value``, with quotes around a rule that has commas in it; a date is said in milliseconds
from now. Sources: Apache Kafka documentation, "Kafka Connect Configs" and "Configuring HTTP response headers"; what Jetty 12
under Kafka Connect 4.3.1 answers was observed, and is compared in ``tests/conformance/rest/test_rest.py``.
"""

import csv
import re
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from email.utils import formatdate
from typing import Final

from aiohttp import web

from tidings_connect.errors import WorkerConfigError
from tidings_connect.java.regex import JavaPattern, compile_java

ALLOWED_ORIGINS: Final = "access.control.allow.origin"
ALLOWED_METHODS: Final = "access.control.allow.methods"
RESPONSE_HEADERS: Final = "response.http.headers.config"
_ACTIONS: Final = frozenset({"set", "add", "setdate", "adddate"})
_DATES: Final = frozenset({"setdate", "adddate"})
_SIMPLE_METHODS: Final = ("GET", "POST", "HEAD")
_PREFLIGHT_SECONDS: Final = 60
"""How long a browser may remember the answer to a preflight request."""
_TOKEN: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")

Signal = Callable[[web.Request, web.StreamResponse], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class HeaderRule:
    """One header that every answer has."""

    add: bool
    """Beside what there is of that name; else in its place."""
    name: str
    value: str
    """As it is, or "" for a date."""
    from_now_seconds: float | None = None
    """For a date: how far from now it is."""


@dataclass(frozen=True, slots=True)
class Origins:
    """Which pages of other origins may use the API."""

    any: bool
    patterns: tuple[JavaPattern, ...]
    methods: tuple[str, ...]
    """Those that a preflight request is told."""

    def allows(self, header: str) -> bool:
        """Whether one of the origins of an ``Origin`` header may."""
        return self.any or any(p.fullmatch(origin) for origin in header.split(" ") for p in self.patterns)


@dataclass(frozen=True, slots=True)
class RestHeaders:
    """What the properties say."""

    origins: Origins | None = None
    rules: tuple[HeaderRule, ...] = ()

    def signal(self) -> Signal | None:
        """What aiohttp calls before an answer goes out; None: nothing is to be added."""
        return self._complete if self.origins is not None or self.rules else None

    async def _complete(self, request: web.Request, answer: web.StreamResponse) -> None:
        if self.origins is not None:
            _say_who_may(self.origins, request, answer)
        own = {name.lower() for name in answer.headers}
        for rule in self.rules:
            value = rule.value
            if rule.from_now_seconds is not None:
                value = formatdate(time.time() + rule.from_now_seconds, usegmt=True)
            if rule.add:
                answer.headers.add(rule.name, value)
            elif rule.name.lower() not in own:  # the endpoint's own comes later in Kafka Connect, and stays
                answer.headers[rule.name] = value


def read_rest_headers(properties: Mapping[str, str]) -> RestHeaders:
    """Understand the properties.

    Raises:
        WorkerConfigError: a rule has another form.
    """
    rules = tuple(_rule(text) for text in _parts(properties.get(RESPONSE_HEADERS, "")))
    allowed = _parts(properties.get(ALLOWED_ORIGINS, ""))
    if not allowed:
        return RestHeaders(None, rules)
    try:
        patterns = tuple(
            compile_java(origin, re.IGNORECASE, trusted=True) for origin in allowed if origin != "*"
        )
    except ValueError as error:
        raise WorkerConfigError(
            f"{ALLOWED_ORIGINS} has an origin that is not a regular expression"
        ) from error
    methods = tuple(_parts(properties.get(ALLOWED_METHODS, ""))) or _SIMPLE_METHODS
    return RestHeaders(Origins("*" in allowed, patterns, methods), rules)


def _say_who_may(origins: Origins, request: web.Request, answer: web.StreamResponse) -> None:
    headers = answer.headers
    headers.add("Vary", "Origin")  # for whatever caches it, with and without an origin
    origin = request.headers.get("Origin")
    if origin is None or not origins.allows(origin):
        return
    headers["Access-Control-Allow-Origin"] = origin
    if request.method == "OPTIONS" and "Access-Control-Request-Method" in request.headers:
        headers["Access-Control-Allow-Methods"] = ",".join(origins.methods)
        headers["Access-Control-Allow-Headers"] = "Content-Type"
        headers["Access-Control-Max-Age"] = str(_PREFLIGHT_SECONDS)


def _parts(text: str) -> list[str]:
    """A list with commas, whose parts may be in double quotes."""
    return [
        part.strip() for line in csv.reader([text], skipinitialspace=True) for part in line if part.strip()
    ]


def _rule(text: str) -> HeaderRule:
    action, _, header = text.partition(" ")
    name, colon, value = header.strip().partition(":")
    name, value = name.strip(), value.strip()
    if (
        action.lower() not in _ACTIONS
        or not colon
        or not _TOKEN.fullmatch(name)
        or re.search("[:\r\n]", value)
    ):
        raise WorkerConfigError(
            f"{RESPONSE_HEADERS} has a rule that is not [set|add|setDate|addDate] name: value",
            hint="rules are separated by commas; one that has a comma in it is in double quotes",
        )
    add, seconds = action.lower().startswith("add"), None
    if action.lower() in _DATES:
        try:
            seconds, value = int(value) / 1000, ""
        except ValueError as error:
            raise WorkerConfigError(
                f"{RESPONSE_HEADERS}: the date of {name} must be a number of milliseconds from now"
            ) from error
    return HeaderRule(add, name, value, seconds)
