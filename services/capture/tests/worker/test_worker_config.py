"""A Kafka Connect worker's settings, and their translation for librdkafka."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tidings_connect.config.override_policy import check_overrides
from tidings_connect.config.plugins import worker_options
from tidings_connect.config.properties.page import main
from tidings_connect.config.properties.table import PROPERTIES
from tidings_connect.config.rest.security import OF_REST
from tidings_connect.config.worker_properties import read_worker_config
from tidings_connect.errors import OptionError, WorkerConfigError
from tidings_connect.kafka.settings import refused_settings, translate_client_settings

EVERY = {**PROPERTIES, **worker_options()}
MINIMUM = {
    "bootstrap.servers": "a:9092,b:9092",
    "group.id": "g",
    "config.storage.topic": "c",
    "offset.storage.topic": "o",
    "status.storage.topic": "s",
}


def test_minimum_takes_kafka_connects_defaults() -> None:
    worker = read_worker_config(MINIMUM)
    assert (worker.host, worker.port) == ("0.0.0.0", 8083)
    assert (worker.config_topic.partitions, worker.offset_topic.partitions) == (1, 25)
    assert worker.status_topic.partitions == 5
    assert worker.offset_topic.replication_factor == 3
    assert worker.unknown == ()


@pytest.mark.parametrize("name", sorted(MINIMUM))
def test_missing_setting_is_named(name: Any) -> None:
    with pytest.raises(WorkerConfigError, match=name.replace(".", r"\.")):
        read_worker_config({k: v for k, v in MINIMUM.items() if k != name})


@pytest.mark.parametrize(
    ("listeners", "expected"),
    [
        ("http://localhost:8123", ("localhost", 8123)),
        ("HTTP://:8123", ("0.0.0.0", 8123)),
        ("http://[::1]:0", ("::1", 0)),
        ("http://h:1,http://i:2", ("h", 1)),
    ],
)
def test_listeners(listeners: str, expected: tuple[Any, ...]) -> None:
    worker = read_worker_config({**MINIMUM, "listeners": listeners})
    assert (worker.host, worker.port) == expected


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("listeners", "https://h:1"),
        ("listeners", "ftp://h:1"),
        ("admin.listeners", "http://h"),
        ("admin.listeners", "https://h:1"),
        ("rest.advertised.listener", "ftp"),
        ("response.http.headers.config", "X: y"),
        ("connector.client.config.override.policy", "com.example.Policy"),
        ("rest.extension.classes", "com.example.Extension"),
        ("tidings.rest.credentials.file", "/users"),
        ("ssl.engine.factory.class", "com.example.Engine"),
        ("producer.sasl.login.callback.handler.class", "com.example.Handler"),
        ("listeners", "http://h:port"),
        ("offset.flush.interval.ms", "soon"),
        ("config.storage.partitions", "3"),
        ("topic.creation.enable", "maybe"),
    ],
)
def test_wrong_value_is_named(name: str, value: str) -> None:
    with pytest.raises(WorkerConfigError, match=name.split(".", maxsplit=1)[0]):
        read_worker_config({**MINIMUM, name: value})


@pytest.mark.listing
def test_no_setting_of_kafka_connect_is_unknown() -> None:
    """What `DistributedConfig` of 4.3.1 defines beyond those above and the clients'; each is obeyed, or means nothing here."""
    names = """access.control.allow.methods access.control.allow.origin admin.listeners inter.worker.key.size
        inter.worker.key.ttl.ms metadata.recovery.rebootstrap.trigger.ms metadata.recovery.strategy metrics.recording.level
        metrics.sample.window.ms socket.connection.setup.timeout.max.ms socket.connection.setup.timeout.ms"""
    assert read_worker_config(MINIMUM | dict.fromkeys(names.split(), "")).unknown == ()


def test_storage_converters_and_clients_are_told_apart() -> None:
    worker = read_worker_config(
        MINIMUM
        | {
            "offset.storage.partitions": "7",
            "offset.storage.min.insync.replicas": "2",
            "key.converter": "k",
            "key.converter.schemas.enable": "false",
            "producer.linger.ms": "50",
            "producer.interceptor.classes": "x",
            "consumer.fetch.min.bytes": "3",
            "security.protocol": "SSL",
            "plugin.path": "/opt",
            "nonsense": "1",
        }
    )
    assert worker.offset_topic.partitions == 7
    assert worker.offset_topic.config == {"min.insync.replicas": "2"}
    assert worker.converters == {"key.converter": "k", "key.converter.schemas.enable": "false"}
    assert worker.producer == {"linger.ms": "50"}
    assert worker.consumer == {"fetch.min.bytes": "3"}
    assert worker.common_client() == {
        "bootstrap.servers": "a:9092,b:9092",
        "reconnect.backoff.max.ms": "1000",  # Kafka's own default, not librdkafka's
        "security.protocol": "SSL",
    }
    assert worker.unknown == ("nonsense", "producer.interceptor.classes")


@pytest.mark.parametrize(
    ("policy", "refused"),
    [
        ("All", set()),
        ("Principal", {"producer.override.linger.ms"}),
        ("None", {"producer.override.linger.ms", "producer.override.sasl.jaas.config"}),
        (
            "org.apache.kafka.connect.connector.policy.NoneConnectorClientConfigOverridePolicy",
            {"producer.override.linger.ms", "producer.override.sasl.jaas.config"},
        ),
    ],
)
def test_override_policy(policy: str, refused: set[Any]) -> None:
    worker = read_worker_config(MINIMUM | {"connector.client.config.override.policy": policy})
    config = {
        "producer.override.linger.ms": "1",
        "producer.override.sasl.jaas.config": "x",
        "topic.prefix": "a",
    }
    assert worker.unknown == ()
    if not refused:
        check_overrides(worker.override_policy, config, "a:9092")
        return
    with pytest.raises(OptionError) as caught:
        check_overrides(worker.override_policy, config, "a:9092")
    assert {name for name in config if name in str(caught.value)} == refused


def test_passwords_are_not_shown() -> None:
    worker = read_worker_config(
        MINIMUM | {"sasl.jaas.config": 'o.PlainLoginModule required username="u" password="hush";'}
    )
    assert worker.client["sasl.password"] == "hush"
    assert "hush" not in repr(worker)


def test_jaas_becomes_user_and_password() -> None:
    text = (
        'org.apache.kafka.common.security.scram.ScramLoginModule required username="a b" password="p\\"q" ;'
    )
    assert translate_client_settings({"sasl.jaas.config": text}) == {
        "sasl.username": "a b",
        "sasl.password": 'p"q',
    }


def test_renamed_settings() -> None:
    assert translate_client_settings(
        {
            "ssl.endpoint.identification.algorithm": "",
            "buffer.memory": "33554432",
            "max.request.size": "2000000",
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "SCRAM-SHA-512",
        }
    ) == {
        "ssl.endpoint.identification.algorithm": "none",
        "queue.buffering.max.kbytes": "32768",
        "message.max.bytes": "2000000",
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-512",
    }


def test_a_token_endpoint_is_given_to_librdkafka() -> None:
    jaas = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required"
    handler = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler"
    settings = {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauthbearer.token.endpoint.url": "https://login.example.com/token",
        "sasl.login.callback.handler.class": handler,
    }
    expected = {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauthbearer.method": "oidc",
        "sasl.oauthbearer.token.endpoint.url": "https://login.example.com/token",
        "sasl.oauthbearer.client.id": "capture",
        "sasl.oauthbearer.client.secret": 'se"cret',
        "sasl.oauthbearer.scope": "kafka",
    }
    client = 'clientId="capture" clientSecret="se\\"cret" scope="kafka";'
    old = settings | {"sasl.jaas.config": f"{jaas} {client}"}
    assert translate_client_settings(old) == expected
    prefix = "sasl.oauthbearer.client.credentials.client"
    new = settings | {
        f"{prefix}.id": "capture",
        f"{prefix}.secret": 'se"cret',
        "sasl.oauthbearer.scope": "kafka",
    }
    assert translate_client_settings(new) == expected
    assert refused_settings(new) == refused_settings(old) == []
    with pytest.raises(WorkerConfigError, match="handler"):
        translate_client_settings(old | {"sasl.login.callback.handler.class": "com.example.Own"})


@pytest.mark.parametrize(
    "settings",
    [
        {"ssl.truststore.location": "/no/such/store.jks"},
        {"ssl.keystore.location": "/no/such/store.jks"},
        {"ssl.truststore.type": "BCFKS", "ssl.truststore.location": "/t"},
        {"ssl.keystore.key": "-----BEGIN PRIVATE KEY----- A -----END PRIVATE KEY-----"},
        {"ssl.cipher.suites": "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"},
        {"ssl.enabled.protocols": "TLSv1.3"},
        {"sasl.mechanism": "OAUTHBEARER"},
        {"sasl.mechanism": "GSSAPI", "security.protocol": "SASL_SSL"},
        {"sasl.jaas.config": "com.sun.security.auth.module.Krb5LoginModule required;"},
    ],
)
def test_what_librdkafka_cannot_do_is_refused_by_name(settings: dict[str, str]) -> None:
    with pytest.raises(WorkerConfigError, match=next(iter(settings)).replace(".", r"\.")):
        translate_client_settings(settings)


def test_the_page_s_defaults_are_those_that_hold() -> None:
    defaults = {option.name: option.default for option in EVERY.values() if option.default is not None}
    plain = read_worker_config(MINIMUM)
    found = read_worker_config(defaults | MINIMUM)
    assert replace(found, client={}) == plain, "some are settings of Kafka's clients, too"
    assert {option.name for option in PROPERTIES.values() if option.required} <= MINIMUM.keys()
    assert PROPERTIES.keys() >= OF_REST


@pytest.mark.parametrize(
    "name", [o.name for o in EVERY.values() if o.kind in {"int", "boolean"} or (o.values and o.default)]
)
def test_a_value_of_another_type_than_the_page_says_is_refused(name: Any) -> None:
    with pytest.raises(WorkerConfigError, match=name.replace(".", r"\.")):
        read_worker_config({**MINIMUM, "rest.advertised.port": "1", name: "no such value"})


def test_the_page_of_properties_is_written_and_checked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "page.md"
    assert main([str(path), "--check"]) == 1
    assert "is not what the code says" in capsys.readouterr().err
    assert main([str(path)]) == main([str(path), "--check"]) == 0
    page = path.read_text("utf-8")
    assert all(f"`{name}`" in page for name in EVERY)
