"""Access tokens of OAuth 2.0's client credentials grant (RFC 6749, 4.4), for SASL OAUTHBEARER."""

from __future__ import annotations

import base64
import http.client
import json
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from dataclasses import dataclass, field
from typing import ClassVar

from tidings_service.errors import Retry, TidingsError
from tidings_service.secret import Secret
from tidings_service.tls_files import TlsFiles

_TIMEOUT_SECONDS = 10.0
_USED_OF_LIFE = 0.8
"""A token is fetched anew after this part of its life."""
_REFUSED_STATUS = (400, 401, 403)
_MOST_BYTES = 1 << 20


class TokenError(TidingsError):
    """The token endpoint does not answer, or refuses the client."""

    code = "oauth"
    default_retry = Retry.TIMED


@dataclass(frozen=True, slots=True)
class Token:
    """An access token; `expires_at` in seconds since 1970."""

    value: str = field(repr=False)
    expires_at: float


class TokenSource:
    """Gets tokens from an endpoint and keeps each for most of its life; may be shared by threads.

    Args:
        prefix: what the variables begin with, such as ``TIDINGS_KAFKA``.
        secret: read anew for each token.
        tls: the authorities that the endpoint's certificate may be of.
    """

    _FORM: ClassVar[dict[str, str]] = {"Content-Type": "application/x-www-form-urlencoded"}

    def __init__(
        self, prefix: str, endpoint: str, client_id: str, secret: Secret, scope: str | None, tls: TlsFiles
    ) -> None:
        self.endpoint = endpoint
        self.client_id = client_id
        self.secret = secret
        self.scope = scope
        self.tls = tls
        self._prefix = prefix
        self._lock = threading.Lock()
        self._token: Token | None = None
        self._renew_at = 0.0

    def __repr__(self) -> str:
        return f"TokenSource({self.endpoint!r}, {self.client_id!r})"

    def token(self) -> Token:
        """A token that is valid.

        Raises:
            TokenError: the endpoint does not answer or refuses the client; names the variable.
            SettingsError: the secret's file cannot be read.
        """
        with self._lock:
            if self._token is None or time.monotonic() >= self._renew_at:
                life, value = self._fetch()
                self._token = Token(value, time.time() + life)
                self._renew_at = time.monotonic() + life * _USED_OF_LIFE
            return self._token

    def _fetch(self) -> tuple[float, str]:
        form = {"grant_type": "client_credentials"} | ({"scope": self.scope} if self.scope else {})
        user = f"{self.client_id}:{self.secret.read()}".encode()
        headers = {**self._FORM, "Authorization": "Basic " + base64.b64encode(user).decode()}
        request = urllib.request.Request(  # noqa: S310 - the settings let only http and https pass
            self.endpoint, urllib.parse.urlencode(form).encode(), headers
        )
        context = self.tls.context() if self.endpoint.startswith("https") else None
        try:
            with urllib.request.urlopen(request, timeout=_TIMEOUT_SECONDS, context=context) as answer:  # noqa: S310
                return _token_of(answer.read(_MOST_BYTES))
        except urllib.error.HTTPError as error:
            with error:
                raise self._refused(error.code) from error
        except (OSError, http.client.HTTPException) as error:
            raise TokenError(
                f"{self._prefix}_OAUTH_TOKEN_ENDPOINT: {self.endpoint} is not reachable ({type(error).__name__})",
                hint=f"is the address right, and its certificate of an authority in {self._prefix}_CA_FILE?",
            ) from error
        except (ValueError, KeyError, TypeError) as error:
            raise TokenError(
                f"{self._prefix}_OAUTH_TOKEN_ENDPOINT: what {self.endpoint} answers is not a token with access_token"
                " and expires_in"
            ) from error

    def _refused(self, status: int) -> TokenError:
        told = f"the token endpoint {self.endpoint} answers {status} to the client {self.client_id!r}"
        if status in _REFUSED_STATUS:
            return TokenError(
                f"{self.secret.setting}: {told}",
                hint=f"{self._prefix}_OAUTH_CLIENT_ID, {self.secret.setting} and {self._prefix}_OAUTH_SCOPE",
                retry=Retry.MANUAL,
            )
        return TokenError(f"{self._prefix}_OAUTH_TOKEN_ENDPOINT: {told}")


def _token_of(answer: bytes) -> tuple[float, str]:
    found = json.loads(answer)
    token = found["access_token"]
    if not isinstance(token, str):
        raise TypeError("access_token")
    return float(found["expires_in"]), token
