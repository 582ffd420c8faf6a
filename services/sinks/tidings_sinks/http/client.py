"""The client: POST requests, many at once, and access tokens. Of what a receiver says only statuses are repeated, never bodies;
of its URL only the origin, as paths and queries may hold secrets.

It is aiohttp, which the worker has for its REST API: a request costs it a third of httpx's processor time.
"""

import asyncio
import ssl
from base64 import b64encode
from collections.abc import Coroutine, Mapping
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple, TypeVar
from urllib.parse import urlsplit

import aiohttp
import msgspec
from yarl import URL

from tidings_connect.kafka.tls import client_context
from tidings_connect.task.sink import RetriableError
from tidings_sinks.errors import TargetError
from tidings_sinks.http import options as names
from tidings_sinks.http.answers import retry_after_seconds
from tidings_sinks.http.settings import Client as Credentials
from tidings_sinks.http.settings import Settings

_MOST_ANSWER_BYTES: Final = 65_536
"""Of an answer that are read so that the connection may be used again."""
_ANSWER_SECONDS: Final = 2
_MOST_TOKEN_BYTES: Final = 1_000_000
_AGENT: Final = "tidings"
_BUSY: Final = frozenset((408, 425, 429, *range(500, 600)))
_FAILURES: Final = (aiohttp.ClientError, TimeoutError, OSError)

T = TypeVar("T")
_decode_token = msgspec.json.Decoder(dict[str, object]).decode


class Answer(NamedTuple):
    """What a receiver has answered."""

    status: int
    retry_after_seconds: float | None


def origin(url: str) -> str:
    """What may be said of a URL."""
    parts = urlsplit(url)
    port = f":{parts.port}" if parts.port else ""
    return f"{parts.scheme}://{parts.hostname}{port}"


class Client:
    """Sends requests, in an event loop of its own."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._session: aiohttp.ClientSession | None = None
        self.not_before = 0.0
        """When the receiver may be asked again, by `time.monotonic`."""
        self._addresses: dict[str, URL] = {}
        self._token = ""
        """The Authorization header of OAuth2; empty: there is none yet."""
        self._asking = asyncio.Lock()
        self._tls = _context(settings)
        self._loop: asyncio.AbstractEventLoop | None = None

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run what sends requests until it has ended."""
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
        return self._loop.run_until_complete(work)

    def check(self) -> None:
        """See whether there is an access token to be had, where one is needed; receivers are not asked without a record.

        Raises:
            RetriableError: the token server is away or busy.
            TargetError: it refuses the client.
        """
        if self._settings.client is not None:
            self.run(self._authorization(self._settings.client, refused=""))

    def close(self) -> None:
        """Let go of connections."""
        if self._loop is not None:
            if self._session is not None:
                self._loop.run_until_complete(self._session.close())
            self._loop.close()

    async def post(self, url: str, headers: Mapping[str, str], body: bytes, method: str = "POST") -> Answer:
        """Send a request, with the login; a token that is refused is asked for anew, once.

        Raises:
            RetriableError: there was no answer, or no token to be had: what was sent may have been taken.
            TargetError: the login is refused.
        """
        credentials = self._settings.client
        if credentials is None:
            return await self._send(method, url, headers, body)
        used = await self._authorization(credentials, refused="")
        answer = await self._send(method, url, {**headers, "authorization": used}, body)
        if answer.status in credentials.renews_on:
            used = await self._authorization(credentials, refused=used)
            answer = await self._send(method, url, {**headers, "authorization": used}, body)
        return answer

    async def _send(self, method: str, url: str, headers: Mapping[str, str], body: bytes) -> Answer:
        try:
            async with self._open().request(
                method,
                self._address(url),
                headers=headers,
                data=body,
                allow_redirects=False,
                proxy=self._settings.proxy or None,
            ) as response:
                asked = response.headers.get("retry-after")
                after = None if asked is None else retry_after_seconds(asked, datetime.now(UTC))
                if not response.content.at_eof():
                    await _drain(response)
                return Answer(response.status, after)
        except _FAILURES as error:
            raise RetriableError(f"{origin(url)} does not answer: {type(error).__name__}") from None

    def _address(self, url: str) -> URL:
        """A URL as the configuration has it, without any normalisation."""
        known = self._addresses.get(url)
        if known is None:
            known = self._addresses[url] = URL(url, encoded=True)
        return known

    def _open(self) -> aiohttp.ClientSession:
        if self._session is None:
            settings = self._settings
            static = {"authorization": settings.authorization} if settings.authorization else {}
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=settings.in_flight + 1, ssl=self._tls),
                headers={"user-agent": _AGENT, **static},
                skip_auto_headers=("content-type", "accept-encoding"),
                cookie_jar=aiohttp.DummyCookieJar(),
                timeout=aiohttp.ClientTimeout(total=settings.timeout_seconds),
                auto_decompress=False,
            )
        return self._session

    # OAuth2, client credentials (RFC 6749, 4.4)

    async def _authorization(self, credentials: Credentials, refused: str) -> str:
        """The header's text.

        Args:
            refused: what it was when the receiver refused it; who comes second finds the new one.
        """
        async with self._asking:
            if self._token == refused:
                self._token = await self._new_token(credentials)
            return self._token

    async def _new_token(self, credentials: Credentials) -> str:
        place = origin(credentials.url)
        form, headers = dict(credentials.form), {"content-type": "application/x-www-form-urlencoded"}
        if credentials.in_header:
            both = f"{credentials.id[1]}:{credentials.secret[1]}"
            headers["authorization"] = f"Basic {b64encode(both.encode()).decode()}"
        else:
            form |= dict((credentials.id, credentials.secret))
        try:
            async with self._open().post(
                self._address(credentials.url),
                headers=headers,
                data=aiohttp.FormData(form),
                allow_redirects=False,
                proxy=self._settings.proxy or None,
            ) as response:
                status, data = response.status, await response.content.read(_MOST_TOKEN_BYTES)
                while chunk := await response.content.read(_MOST_TOKEN_BYTES - len(data)):
                    data += chunk
        except _FAILURES as error:
            raise RetriableError(
                f"{place} does not answer for an access token: {type(error).__name__}"
            ) from None
        if status in _BUSY:
            raise RetriableError(f"{place} is busy and gives no access token: it answers {status}")
        if status != 200:
            raise TargetError(
                f"{place} gives no access token: it answers {status}",
                hint=f"see {names.CLIENT} and {names.SECRET}",
            )
        return _read_token(place, data, credentials.token_property)


def _read_token(place: str, data: bytes, name: str) -> str:
    try:
        answer = _decode_token(data)
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise TargetError(f"{place} answers for an access token with what is not a JSON object") from None
    token, kind = answer.get(name), answer.get("token_type", "Bearer")
    if not isinstance(token, str) or not isinstance(kind, str) or not f"{kind}{token}".isprintable():
        raise TargetError(
            f"{place} answers without an access token in {name}", hint=f"see {names.TOKEN_PROPERTY}"
        )
    return f"{kind} {token}"


async def _drain(response: aiohttp.ClientResponse) -> None:
    """Read an answer's body, which nobody needs, so that its connection may be used again; one that is long or slow is not."""
    left = _MOST_ANSWER_BYTES
    try:
        async with asyncio.timeout(_ANSWER_SECONDS):
            async for chunk in response.content.iter_any():
                left -= len(chunk)
                if left < 0:
                    response.close()
                    return
    except _FAILURES:  # the status has been said
        response.close()


def _context(settings: Settings) -> ssl.SSLContext | bool:
    urls = [settings.url, settings.client.url if settings.client else ""]
    if not any(url.startswith("https:") for url in urls):
        return True
    context = client_context(settings.tls, names.TLS)
    if settings.trusts_all:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context
