"""Logins and TLS: static, OAuth2 with renewal, a certificate that is trusted, one's own certificate; and what is never told."""

from base64 import b64encode
from pathlib import Path
from urllib.parse import parse_qs

import pytest
from structlog.testing import capture_logs
from webhook_parts import Answer, Receiver, Seen, Webhooks, issued, refused

from tidings_connect.testing.memory_worker import MemoryWorker
from tidings_sinks.errors import TargetError
from tidings_sinks.http.connector import HttpSink
from tidings_stack.waiting import wait_for

TOPIC = "orders"


class Tokens:
    """A receiver that is a token server as well; `valid` is the token that it takes."""

    def __init__(self) -> None:
        self.asked: list[Seen] = []
        self.valid = "t1"
        self.status = 200
        self.answer = b'{"access_token":"%b","token_type":"Bearer","expires_in":60}'

    def decide(self, seen: Seen) -> Answer:
        if seen.path == "/token":
            self.asked.append(seen)
            return Answer(self.status, {}, self.answer.replace(b"%b", self.valid.encode()), taken=False)
        return Answer() if seen.headers.get("authorization") == f"Bearer {self.valid}" else refused(401)


@pytest.fixture
def tokens(webhooks: Webhooks, receiver: Receiver) -> Tokens:
    tokens = Tokens()
    receiver.decide = tokens.decide
    webhooks.config |= {
        "http.authorization.type": "oauth2",
        "oauth2.access.token.url": receiver.url.replace("/hook", "/token"),
        "oauth2.client.id": "me",
        "oauth2.client.secret": "the s&cret",
        "oauth2.client.scope": "write all",
    }
    return tokens


def failure(webhooks: Webhooks) -> BaseException:
    wait_for("a failure", lambda: webhooks.worker.error is not None)
    assert webhooks.worker.error is not None
    return webhooks.worker.error


def send(webhooks: Webhooks, *numbers: int) -> None:
    for number in numbers:
        webhooks.send(TOPIC, f"k{number}", {"number": number})


def test_a_static_login(webhooks: Webhooks, receiver: Receiver) -> None:
    send(webhooks, 1)
    webhooks.start(TOPIC, http_authorization_type="static", http_headers_authorization="Bearer abc")
    webhooks.wait()
    assert receiver.seen[0].headers["authorization"] == "Bearer abc"


def test_a_token_is_kept_and_renewed_when_it_is_refused(
    webhooks: Webhooks, receiver: Receiver, tokens: Tokens
) -> None:
    """Once for all requests that are on their way."""
    send(webhooks, 1, 2)
    webhooks.start(TOPIC, tidings_http_max_in_flight="3")
    webhooks.wait()
    (asked,) = tokens.asked
    assert parse_qs(asked.body.decode()) == {"grant_type": ["client_credentials"], "scope": ["write all"]}
    assert asked.headers["authorization"] == "Basic " + b64encode(b"me:the s&cret").decode()
    tokens.valid = "t2"
    send(webhooks, 3, 4, 5)
    webhooks.wait()
    assert sorted(receiver.numbers()) == [1, 2, 3, 4, 5]
    assert len(tokens.asked) == 2


def test_the_client_may_be_in_the_form_under_names_of_one_s_own(webhooks: Webhooks, tokens: Tokens) -> None:
    tokens.answer = b'{"tok":"%b"}'
    send(webhooks, 1)
    webhooks.start(
        TOPIC,
        oauth2_client_authorization_mode="url",
        oauth2_request_client_id_property="cid",
        oauth2_request_client_secret_property="csecret",
        oauth2_request_grant_type_property="g",
        oauth2_grant_type="x",
        oauth2_response_token_property="tok",
    )
    webhooks.wait()
    (asked,) = tokens.asked
    assert parse_qs(asked.body.decode()) == {
        "g": ["x"],
        "scope": ["write all"],
        "cid": ["me"],
        "csecret": ["the s&cret"],
    }
    assert "authorization" not in asked.headers


def test_a_token_server_that_is_busy_is_asked_again(
    webhooks: Webhooks, receiver: Receiver, tokens: Tokens
) -> None:
    tokens.status = 503
    send(webhooks, 1)
    with capture_logs() as logs:
        webhooks.start(TOPIC, max_retries="0")
        wait_for("attempts", lambda: len(tokens.asked) > 1)
        tokens.status = 200
        webhooks.wait()
    assert receiver.numbers() == [1]
    assert any("gives no access token: it answers 503" in str(line) for line in logs)


@pytest.mark.parametrize("wrong", ["refused", "no token", "no JSON", "refused again"])
def test_without_a_token_the_task_ends_and_no_secret_is_told(
    webhooks: Webhooks, tokens: Tokens, wrong: str
) -> None:
    match wrong:
        case "refused":
            tokens.status = 401
        case "no token":
            tokens.answer = b'{"other":"token-t1"}'
        case "no JSON":
            tokens.answer = b"token-t1"
        case _:
            tokens.answer = b'{"access_token":"token-t1"}'  # which the receiver never takes
    send(webhooks, 1)
    with capture_logs() as logs:
        webhooks.start(TOPIC)
        error = failure(webhooks)
    assert isinstance(error, TargetError)
    for secret in ("token-t1", "the s&cret", "/token"):
        assert secret not in f"{error} {error.hint} {logs}"


def test_an_authority_and_a_certificate_that_is_not_trusted(tmp_path: Path) -> None:
    key, trusted = issued(tmp_path)
    with MemoryWorker(HttpSink(), "sink") as worker, Receiver(key) as receiver:
        webhooks = Webhooks(worker, receiver)
        send(webhooks, 1)
        with capture_logs() as logs:
            webhooks.start(TOPIC)
            wait_for("a refusal", lambda: any("Certificate" in str(line.get("reason")) for line in logs))
        webhooks.start(TOPIC, http_ssl_truststore_location=str(trusted), http_ssl_truststore_type="PEM")
        webhooks.wait()
        webhooks.start(TOPIC, http_ssl_trust_all_certs="true")
        send(webhooks, 2)
        webhooks.wait()
        assert receiver.numbers() == [1, 2]


def test_requests_go_through_a_proxy(webhooks: Webhooks) -> None:
    """Which is asked for the whole URL."""
    with Receiver() as proxy:
        port = proxy.url.rpartition(":")[2].partition("/")[0]
        send(webhooks, 1)
        webhooks.start(
            TOPIC,
            http_url="http://receiver.test/hook?a=%2f",
            http_proxy_host="127.0.0.1",
            http_proxy_port=port,
        )
        webhooks.wait()
        assert [seen.path for seen in proxy.seen] == ["http://receiver.test/hook?a=%2f"]


def test_a_long_answer_is_not_read(
    webhooks: Webhooks, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its status has been said."""
    monkeypatch.setattr("tidings_sinks.http.client._ANSWER_SECONDS", 60)
    receiver.plan.append(Answer(200, {"content-length": "1000000000"}, b"x" * 200_000))
    send(webhooks, 1, 2)
    webhooks.start(TOPIC)
    webhooks.wait()
    first, second = receiver.seen
    assert second.came - first.came < 10
    assert receiver.numbers() == [1, 2]


def test_an_answer_that_does_not_end_is_not_waited_for(
    webhooks: Webhooks, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tidings_sinks.http.client._ANSWER_SECONDS", 0.1)
    receiver.plan.append(Answer(200, {"content-length": "5"}, b""))
    send(webhooks, 1, 2)
    webhooks.start(TOPIC)
    webhooks.wait()
    assert receiver.numbers() == [1, 2]
