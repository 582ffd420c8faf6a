"""The schema registry: a thin layer over Confluent's client that caches, and fails with one clear sentence.

Speaks Confluent's REST API, which Apicurio offers under ``/apis/ccompat/v7``. One client may be shared by threads.
Apicurio's own API (``/apis/registry/v2``) can register in its place, as Apicurio's converter does: there the registry is told
that a text is Avro and takes it. Behind Confluent's API it guesses, and refuses for example a default of ``{}``.
"""

import contextlib
import importlib
import json
import re
import sys
import types
import weakref
from collections.abc import Callable, Generator, Iterator, Mapping
from typing import Any, Self, TypeVar

import fastavro
from fastavro.schema import SchemaParseException

from tidings_envelope.errors import RegistryError, UnknownSchemaError


class _LaterModule(types.ModuleType):
    """In place of a module of a library that is rarely needed: a class of it is imported when it is first called."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)

        def make(*arguments: Any, **more: Any) -> Any:
            return getattr(importlib.import_module(self.__name__), name)(*arguments, **more)

        return make


@contextlib.contextmanager
def _later(module: str) -> Iterator[None]:
    """Import a module, and the packages that it is in, not before a class of it is called."""
    parts = module.split(".")
    names = [".".join(parts[: count + 1]) for count in range(len(parts))]
    hidden = [name for name in names if name not in sys.modules]
    sys.modules.update({name: _LaterModule(name) for name in hidden})
    try:
        yield
    finally:
        for name in hidden:
            del sys.modules[name]


@contextlib.contextmanager
def _without(module: str) -> Iterator[None]:
    """As if an optional module of a library were not installed, while something is imported."""
    hidden = module not in sys.modules
    sys.modules.setdefault(module, None)  # type: ignore[arg-type]  # None is how Python marks what is not to be found
    try:
        yield
    finally:
        if hidden:
            del sys.modules[module]


with _without("httpx._main"), _later("authlib.integrations.httpx_client"):
    # httpx loads its command line at import, and with it rich and pygments, where they are installed: a fifth of the time
    # that a service takes to start. Confluent's client imports authlib's OAuth support, with all of joserfc and most of
    # cryptography: a tenth, for a login that no setting of ours leads to.
    import httpx
    from confluent_kafka.schema_registry import Schema, SchemaRegistryClient
    from confluent_kafka.schema_registry.error import SchemaRegistryError

T = TypeVar("T")
_PASSWORD_IN_URL = re.compile(r"//[^/@]*@")

_RETRIED_STATUS = 500
"""From this HTTP status on the registry itself is in trouble, so that trying again can help."""


_NOT_LOGGED_IN = 401
"""A password is changed here and there one after the other: what is refused in between may be taken a moment later."""
_REFUSED_STATUS = frozenset({_NOT_LOGGED_IN, 403})
_NO_SCHEMA = 40403
"""The API's error code for an id that no schema has; a 404 without it comes from somebody else."""
_NO_AVRO = 42201
"""The API's error code for a text that is not a schema, as far as the registry can tell."""


class _Login(httpx.Auth):
    """Puts the header Authorization on each request, as it is at that moment."""

    def __init__(self, authorization: Callable[[], str]) -> None:
        self._authorization = authorization

    def auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response, None]:
        request.headers["Authorization"] = self._authorization()
        yield request


class RegistryClient:
    """A Confluent-compatible registry.

    Args:
        url: the API's base, for example ``http://127.0.0.1:8080/apis/ccompat/v7``.
        timeout_seconds: for one request.
        settings: further ones of Confluent's client, for TLS and a user (``ssl.ca.location``, ``basic.auth.user.info``);
            files that they name are read at once.
        apicurio_url: Apicurio's own API (version 2), when schemas are to be registered there.
        authorization: gives the header of that name for each request, so that a secret may change meanwhile.
        login: who logs in and which settings say so, for the message when the registry refuses.
    """

    def __init__(
        self,
        url: str,
        *,
        timeout_seconds: float = 10.0,
        settings: Mapping[str, str] | None = None,
        apicurio_url: str | None = None,
        authorization: Callable[[], str] | None = None,
        login: str = "",
    ) -> None:
        url = url.rstrip("/")
        self.url = _PASSWORD_IN_URL.sub("//", url)
        """Without a user and password that it may have: it stands in messages."""
        try:
            self._client = SchemaRegistryClient(
                {"url": url, "timeout": timeout_seconds, "max.retries": 2, **(settings or {})}
            )
        except ValueError as error:
            raise RegistryError(
                f"the schema registry's address {self.url!r} is not an http(s) URL",
                hint="check TIDINGS_REGISTRY",
                retry="never",
            ) from error
        if authorization is not None:
            self._client._rest_client.session.auth = _Login(authorization)  # noqa: SLF001 - it knows fixed logins only
        self._login = login
        self._login_may_change = authorization is not None
        # Whoever forgets a registry need not have closed it.
        self._close = weakref.finalize(self, self._client.close)
        self._apicurio_url = None if apicurio_url is None else apicurio_url.rstrip("/")
        self._timeout_seconds = timeout_seconds
        self._ids: dict[tuple[str, str], int] = {}
        self._parsed: dict[int, Any] = {}

    def register(self, subject: str, schema: dict[str, Any] | str) -> int:
        """Registers an Avro schema under a subject and returns its id; the same one again costs nothing.

        Raises:
            RegistryError: refused (incompatible, invalid) or not reachable; names the subject or the URL.
        """
        text = (
            schema
            if isinstance(schema, str)
            else json.dumps(schema, separators=(",", ":"), ensure_ascii=False)
        )
        known = self._ids.get((subject, text))
        if known is None:
            known = self._call(f"register a schema for subject {subject!r}", self._register, subject, text)
            self._ids[subject, text] = known
        return known

    def _register(self, subject: str, text: str) -> int:
        if self._apicurio_url is not None:
            return self._register_at_apicurio(subject, text)
        try:
            return int(self._client.register_schema(subject, Schema(text, "AVRO")))
        except SchemaRegistryError as error:
            other = _fit_for_apicurio(text)
            if error.error_code != _NO_AVRO or other == text:
                raise
            return int(self._client.register_schema(subject, Schema(other, "AVRO")))

    def _register_at_apicurio(self, subject: str, text: str) -> int:
        session = self._client._rest_client.session  # noqa: SLF001 - which has the user and TLS
        answer = session.post(
            f"{self._apicurio_url}/groups/default/artifacts",
            params={"ifExists": "RETURN_OR_UPDATE", "canonical": "false"},
            headers={
                "X-Registry-ArtifactId": subject,
                "X-Registry-ArtifactType": "AVRO",
                "Content-Type": "application/json",
            },
            content=text.encode(),
            timeout=self._timeout_seconds,
        )
        found = answer.json() if answer.headers.get("content-type", "").startswith("application/json") else {}
        if not answer.is_success:
            message = found.get("message") or answer.reason_phrase
            raise SchemaRegistryError(answer.status_code, found.get("error_code", -1), message)
        return int(found["contentId"])

    def schema_by_id(self, schema_id: int) -> Any:
        """The schema with that id, parsed by fastavro; cached for good, because ids are never reused.

        Raises:
            UnknownSchemaError: the registry has no such schema, or it is not Avro.
            RegistryError: the registry is not reachable or would not answer.
        """
        parsed = self._parsed.get(schema_id)
        if parsed is None:
            text = self._call(f"fetch schema {schema_id}", self._client.get_schema, schema_id).schema_str
            parsed = self._parsed[schema_id] = self._parse(text, f"schema {schema_id}")
        return parsed

    def latest(self, subject: str) -> tuple[int, Any]:
        """Id and parsed schema of a subject's latest version; asked for anew each time.

        Raises:
            RegistryError: no such subject, or not reachable.
        """
        version = self._call(f"fetch the latest version of subject {subject!r}", self._latest, subject)
        return int(version.schema_id), self._parse(version.schema.schema_str, f"subject {subject!r}")

    def _latest(self, subject: str) -> Any:
        self._client.clear_latest_caches()  # type: ignore[no-untyped-call]  # the client is partly typed
        return self._client.get_latest_version(subject)

    def subjects(self) -> list[str]:
        """The names of all subjects.

        Raises:
            RegistryError: the registry is not reachable.
        """
        return self._call("list the subjects", self._client.get_subjects)

    def set_compatibility(self, subject: str | None, level: str) -> None:
        """Sets a subject's (None: the global) compatibility level, for example ``FULL_TRANSITIVE``.

        Raises:
            RegistryError: not a level, or not reachable.
        """
        whose = "the global compatibility" if subject is None else f"the compatibility of subject {subject!r}"
        self._call(f"set {whose} to {level}", self._client.set_compatibility, subject, level)

    def close(self) -> None:
        """Closes the connections. May be called again."""
        self._close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _call(self, what: str, function: Callable[..., T], *arguments: Any) -> T:
        try:
            return function(*arguments)
        except SchemaRegistryError as error:
            told = f"the schema registry at {self.url} would not {what}: {error.error_message} (error {error.error_code})"
            if error.error_code == _NO_SCHEMA:
                raise UnknownSchemaError(told) from error
            if error.http_status_code in _REFUSED_STATUS:
                raise RegistryError(
                    f"{told} to {self._login}" if self._login else told,
                    hint="is the login right, and has it the right?",
                    retry="timed"
                    if self._login_may_change and error.http_status_code == _NOT_LOGGED_IN
                    else "manual",
                ) from error
            retry = "timed" if error.http_status_code >= _RETRIED_STATUS else "manual"
            raise RegistryError(told, retry=retry) from error
        except httpx.HTTPError as error:
            raise RegistryError(
                f"cannot {what}: the schema registry at {self.url} is not reachable ({type(error).__name__})",
                hint="is it running, and does TIDINGS_REGISTRY (or *.converter.schema.registry.url) name it?",
                retry="timed",
            ) from error
        except ValueError as error:
            raise RegistryError(
                f"cannot {what}: what answers at {self.url} is not a schema registry",
                hint="is a proxy between? TIDINGS_REGISTRY (or *.converter.schema.registry.url) names the API's base",
                retry="timed",
            ) from error

    def _parse(self, text: str | None, what: str) -> Any:
        try:
            return fastavro.parse_schema(json.loads(text or ""))
        except (
            ValueError,
            LookupError,
            TypeError,
            ArithmeticError,
            RecursionError,
            SchemaParseException,
        ) as error:
            raise UnknownSchemaError(f"{what} at {self.url} is not an Avro schema") from error


def _fit_for_apicurio(schema: str) -> str:
    """The same schema, without a text that is exactly ``{}``.

    Behind Confluent's API Apicurio (3.3 at least) refuses such a default, which a jsonb column has by ``DEFAULT '{}'``, as no
    Avro; it takes the brace as an escape. It compares texts, so that only what was refused may be changed.
    """
    return schema.replace('"{}"', '"\\u007b}"')
