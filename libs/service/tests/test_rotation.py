"""Secrets that change while a service runs: who is told, and tokens that are asked for again."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tidings_service import SettingsError
from tidings_service.oauth import TokenError, TokenSource
from tidings_service.rotation import follow, unfollow
from tidings_service.secret import Secret
from tidings_service.tls_files import TlsFiles
from tidings_stack.secured.token_endpoint import TokenEndpoint


class Client:
    """Somebody who logs in."""


def wait_until(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_a_client_is_told_of_a_new_password_until_it_is_closed(tmp_path: Path) -> None:
    file = tmp_path / "password"
    file.write_text("one\n")
    told: list[str] = []
    client, closed = Client(), Client()
    follow(Secret("TIDINGS_X_FILE", file=file), client, lambda _, value: told.append(value))
    follow(Secret("TIDINGS_X_FILE", file=file), closed, lambda _, value: told.append(f"closed {value}"))
    unfollow(closed)
    file.unlink()  # while it is being replaced the known one stays
    time.sleep(2.5)
    assert told == []
    file.write_text("two\n")
    wait_until(lambda: told)
    assert told == ["two"]


def test_a_new_password_that_cannot_be_applied_is_tried_again(tmp_path: Path) -> None:
    file = tmp_path / "certificate"
    file.write_text("one")
    attempts: list[str] = []

    def apply(_: Client, value: str) -> None:
        attempts.append(value)
        if len(attempts) == 1:
            raise SettingsError("the key is not there yet")

    client = Client()
    follow(Secret("TIDINGS_X_FILE", file=file), client, apply)
    file.write_text("two")
    wait_until(lambda: len(attempts) == 2)
    assert attempts == ["two", "two"]


@pytest.fixture
def endpoint() -> Iterator[TokenEndpoint]:
    with TokenEndpoint({"shop": "first"}, life_seconds=1) as running:
        yield running


def tokens(url: str, secret: Secret) -> TokenSource:
    return TokenSource("TIDINGS_KAFKA", url, "shop", secret, "kafka", TlsFiles("TIDINGS_KAFKA"))


def test_a_token_is_kept_for_most_of_its_life_and_the_secret_read_anew(
    endpoint: TokenEndpoint, tmp_path: Path
) -> None:
    file = tmp_path / "secret"
    file.write_text("first\n")
    source = tokens(endpoint.url, Secret("TIDINGS_KAFKA_OAUTH_CLIENT_SECRET_FILE", file=file))
    first = source.token()
    assert source.token() is first
    assert endpoint.asked == [{"grant_type": ["client_credentials"], "scope": ["kafka"]}]
    endpoint.clients["shop"] = "second"
    file.write_text("second\n")
    time.sleep(0.9)
    assert 0 < source.token().expires_at - time.time() <= 1
    assert len(endpoint.asked) == 2


def test_a_client_that_is_refused_is_an_error_that_names_it(endpoint: TokenEndpoint) -> None:
    with pytest.raises(TokenError, match=r"TIDINGS_KAFKA_OAUTH_CLIENT_SECRET: .* 401 to the client 'shop'"):
        tokens(endpoint.url, Secret("TIDINGS_KAFKA_OAUTH_CLIENT_SECRET", "wrong")).token()


def test_an_endpoint_that_is_none_is_an_error_that_names_it(endpoint: TokenEndpoint) -> None:
    endpoint.broken = True
    secret = Secret("TIDINGS_KAFKA_OAUTH_CLIENT_SECRET", "first")
    with pytest.raises(TokenError, match="is not a token with access_token"):
        tokens(endpoint.url, secret).token()
    with pytest.raises(TokenError, match=r"TIDINGS_KAFKA_OAUTH_TOKEN_ENDPOINT: .* not reachable"):
        tokens("http://127.0.0.1:1/token", secret).token()
