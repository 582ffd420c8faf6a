"""Every option of Aiven's connector is obeyed, and what does not go together is refused by name."""

import pytest

from tidings_connect.config.option import Option
from tidings_connect.config.plugins import find_connector
from tidings_sinks.http.connector import HttpSink
from tidings_sinks.http.options import OPTIONS
from tidings_sinks.http.settings import read_settings

CONFIG = {
    "connector.class": "io.aiven.kafka.connect.http.HttpSinkConnector",
    "topics": "a",
    "http.url": "https://receiver/hook",
    "http.authorization.type": "none",
}
THEIRS = (
    "http.url http.proxy.host http.proxy.port http.ssl.trust.all.certs http.ssl.truststore.location http.ssl.truststore.password"
    " http.authorization.type http.headers.authorization http.headers.content.type http.headers.additional"
    " oauth2.access.token.url oauth2.request.grant.type.property oauth2.grant.type oauth2.request.client.id.property"
    " oauth2.client.id oauth2.request.client.secret.property oauth2.client.secret oauth2.client.authorization.mode"
    " oauth2.client.scope oauth2.response.token.property oauth2.token.renew.on.status.codes batching.enabled batch.max.size"
    " batch.prefix batch.suffix batch.separator kafka.retry.backoff.ms max.retries retry.backoff.ms http.timeout decimal.format"
)
OAUTH = {
    "http.authorization.type": "oauth2",
    "oauth2.access.token.url": "https://tokens/",
    "oauth2.client.id": "me",
    "oauth2.client.secret": "secret",
}
GOOD = f"whsec_{'YWFh' * 8}"


def problems(changes: dict[str, str]) -> dict[str, list[str]]:
    return HttpSink().problems(CONFIG | changes)


def test_it_is_found_by_its_class_and_its_short_names() -> None:
    for name in (CONFIG["connector.class"], "HttpSinkConnector", "HttpSink"):
        assert isinstance(find_connector(name), HttpSink), name
    assert problems({}) == {}
    assert problems(OAUTH) == {}


@pytest.mark.listing
def test_each_of_their_options_is_known() -> None:
    known = {option.name for option in OPTIONS}
    assert set(THEIRS.split()) <= known
    assert "errors.tolerance" in HttpSink().options


@pytest.mark.listing
@pytest.mark.parametrize("option", OPTIONS, ids=lambda option: option.name)
def test_each_option_says_what_it_means(option: Option) -> None:
    assert option.documentation.endswith(".")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *[
            ("http.url", url)
            for url in (
                "",
                "ftp://r",
                "http://",
                "http://r/secret#a",
                "http://u:secret@r/",
                "http://r:x/",
                "http://${topic}/",
                "http://r/a b",
            )
        ],
        ("http.headers.additional", "a secret"),
        ("http.headers.additional", "a:b,A:c"),
        ("http.headers.additional", "Authorization:Bearer x"),
        ("http.headers.additional", "webhook-id:1"),
        ("http.headers.additional", "a b:c"),
        ("http.headers.authorization", "Bearer secret"),
        ("http.headers.authorization", "secret \u00fc"),
        ("batch.max.size", "0"),
        ("http.timeout", "300"),
        ("http.proxy.host", "proxy"),
        ("http.proxy.port", "70000"),
        ("kafka.retry.backoff.ms", "86400001"),
        ("oauth2.token.renew.on.status.codes", "x"),
        ("oauth2.client.authorization.mode", "body"),
        ("tidings.http.signature.secrets", "whsec_short"),
        ("tidings.http.signature.secrets", f"{GOOD},whsec_{'YWFh' * 4}"),
        ("tidings.http.signature.secrets", f"{GOOD},whsk_{'YWFh' * 8}"),
        ("tidings.http.signature.secrets", f"whsk_{'YWFh' * 20}YWFhYQ=="),
        ("tidings.http.signature.secrets", f"whpk_{'YWFh' * 10}YWE="),
        ("tidings.http.statuses.record", "200"),
        ("tidings.http.statuses.retry", "599-500"),
        ("tidings.http.cloudevents", "batched"),
        ("tidings.http.idempotency.header", "a b"),
        ("tidings.http.max.in.flight", "0"),
    ],
)
def test_a_wrong_value_is_refused_by_its_option(name: str, value: str) -> None:
    found = problems({name: value})
    assert list(found) == [name]
    assert "YWFh" not in str(found)
    assert "secret" not in str(found).replace(name, "")


def test_options_that_do_not_go_together_are_refused() -> None:
    assert list(problems({"http.authorization.type": "static"})) == ["http.headers.authorization"]
    for name in OAUTH.keys() - {"http.authorization.type"}:
        assert list(problems({**OAUTH, name: ""})) == [name]
    for mode in ("binary", "structured"):
        found = problems({"batching.enabled": "true", "tidings.http.cloudevents": mode})
        assert list(found) == ["tidings.http.cloudevents"]
    assert problems({"batching.enabled": "true", "errors.tolerance": "all"}) == {}
    assert problems({"http.timeout": "76"}).keys() == {"http.timeout"}
    assert problems({"http.timeout": "75"}) == {}
    assert problems({"http.timeout": "150", "consumer.override.max.poll.interval.ms": "600000"}) == {}
    assert list(problems({"http.headers.additional": "idempotency-key:x"})) == ["http.headers.additional"]


def test_white_space_of_a_batch_s_parts_counts_and_secrets_are_not_shown() -> None:
    settings = read_settings(
        CONFIG
        | OAUTH
        | {
            "batching.enabled": "true",
            "batch.prefix": " [",
            "batch.suffix": "",
            "batch.separator": "\t",
            "tidings.http.signature.secrets": f"{GOOD} {GOOD}",
            "http.url": "https://receiver/secret-path?secret-query",
        }
    )
    assert (settings.prefix, settings.suffix, settings.separator) == (b" [", b"", b"\t")
    assert len(settings.signers) == 2
    assert "secret-" not in repr(settings)
    assert "'secret'" not in repr(settings)
    assert "aaa" not in repr(settings)
