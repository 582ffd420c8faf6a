"""Settings of a secured Kafka and registry: what is given to each client, what is refused, and that no secret is shown."""

import re
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tidings_service import SettingsError, load_settings
from tidings_service.kafka_access import KafkaAccess, java_secrets
from tidings_service.kafka_settings import KafkaSettings
from tidings_service.registry_settings import OptionalRegistrySettings, RegistrySettings
from tidings_stack.secured.authority import Authority

CANARY = 'ca"na\\ry'
SCRAM = {
    "KAFKA_SECURITY_PROTOCOL": "SASL_SSL",
    "KAFKA_SASL_MECHANISM": "SCRAM-SHA-512",
    "KAFKA_SASL_USERNAME": "sequencer",
    "KAFKA_SASL_PASSWORD": CANARY,
}
TOKENS = {
    "KAFKA_SECURITY_PROTOCOL": "SASL_SSL",
    "KAFKA_SASL_MECHANISM": "OAUTHBEARER",
    "KAFKA_OAUTH_TOKEN_ENDPOINT": "https://login.example.com/token",
    "KAFKA_OAUTH_CLIENT_ID": "sequencer",
    "KAFKA_OAUTH_CLIENT_SECRET": CANARY,
}


@pytest.fixture
def set_variables(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    def set_them(**variables: str) -> None:
        for name, value in {"KAFKA": "a:1,b:2", **variables}.items():
            monkeypatch.setenv(f"TIDINGS_{name}", value)

    return set_them


def access(set_variables: Callable[..., None], **variables: str) -> KafkaAccess:
    set_variables(**variables)
    return load_settings(KafkaSettings).kafka_access


def test_a_cluster_in_the_clear_is_an_address_and_nothing_else(set_variables: Callable[..., None]) -> None:
    plain = access(set_variables, KAFKA_SASL_USERNAME="", KAFKA_CA_FILE="", KAFKA_SASL_MECHANISM="")
    assert plain == KafkaAccess("a:1,b:2")
    assert plain.aiokafka() == {"security_protocol": "PLAINTEXT"}
    assert plain.java() == {"bootstrap.servers": "a:1,b:2", "security.protocol": "PLAINTEXT"}


def test_a_user_and_password_for_each_client(set_variables: Callable[..., None]) -> None:
    scram = access(set_variables, **SCRAM)
    assert scram.librdkafka() == {
        "bootstrap.servers": "a:1,b:2",
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": "sequencer",
        "sasl.password": CANARY,
    }
    arguments = scram.aiokafka()
    assert arguments.pop("ssl_context").verify_mode == ssl.CERT_REQUIRED
    assert arguments == {
        "security_protocol": "SASL_SSL",
        "sasl_mechanism": "SCRAM-SHA-512",
        "sasl_plain_username": "sequencer",
        "sasl_plain_password": CANARY,
    }
    java = scram.java()
    assert java["sasl.jaas.config"] == (
        "org.apache.kafka.common.security.scram.ScramLoginModule required"
        ' username="sequencer" password="ca\\"na\\\\ry";'
    )
    assert java_secrets(java).keys() == {"sasl.jaas.config"}


def test_the_files_of_mutual_tls_for_each_client(set_variables: Callable[..., None], tmp_path: Path) -> None:
    authority = Authority()
    issued = authority.issue("sequencer")
    (tmp_path / "ca.pem").write_text(authority.certificate)
    (tmp_path / "own.pem").write_text(issued.chain)
    (tmp_path / "own.key").write_text(issued.encrypted_key(CANARY))
    (tmp_path / "password").write_text(f"{CANARY}\n")
    mutual = access(
        set_variables,
        KAFKA_SECURITY_PROTOCOL="SSL",
        KAFKA_CA_FILE=str(tmp_path / "ca.pem"),
        KAFKA_CERTIFICATE_FILE=str(tmp_path / "own.pem"),
        KAFKA_KEY_FILE=str(tmp_path / "own.key"),
        KAFKA_KEY_PASSWORD_FILE=str(tmp_path / "password"),
    )
    librdkafka = mutual.librdkafka()
    assert librdkafka["ssl.key.password"] == CANARY
    assert librdkafka["ssl.certificate.location"] == str(tmp_path / "own.pem")
    assert mutual.aiokafka()["ssl_context"].get_ca_certs()
    with pytest.raises(SettingsError, match="TIDINGS_KAFKA_KEY_FILE: Java reads keys in PKCS #8"):
        mutual.java()
    (tmp_path / "own.key").write_text(issued.key)
    java = mutual.java()
    assert java_secrets(java).keys() == {"ssl.keystore.key"}
    assert java["ssl.truststore.certificates"] == authority.certificate


def test_tokens_for_java(set_variables: Callable[..., None]) -> None:
    java = access(set_variables, **TOKENS, KAFKA_OAUTH_SCOPE="kafka").java()
    assert java["sasl.oauthbearer.token.endpoint.url"] == "https://login.example.com/token"
    assert 'clientId="sequencer"' in java["sasl.jaas.config"]
    assert 'scope="kafka"' in java["sasl.jaas.config"]


@pytest.mark.parametrize(
    ("variables", "named"),
    [
        ({"KAFKA_SASL_USERNAME": "u"}, "KAFKA_SASL_USERNAME"),
        ({"KAFKA_SASL_MECHANISM": "PLAIN"}, "KAFKA_SASL_MECHANISM"),
        ({"KAFKA_CA_FILE": "/nowhere"}, "KAFKA_CA_FILE"),
        ({"KAFKA_SECURITY_PROTOCOL": "SSL", "KAFKA_SASL_PASSWORD": CANARY}, "KAFKA_SASL_PASSWORD"),
        ({"KAFKA_SECURITY_PROTOCOL": "SSL", "KAFKA_CA_FILE": "/nowhere"}, "KAFKA_CA_FILE"),
        ({"KAFKA_SECURITY_PROTOCOL": "SSL", "KAFKA_CERTIFICATE_FILE": "/nowhere"}, "KAFKA_KEY_FILE"),
        ({"KAFKA_SECURITY_PROTOCOL": "SSL", "KAFKA_KEY_PASSWORD": CANARY}, "KAFKA_KEY_PASSWORD"),
        ({"KAFKA_SECURITY_PROTOCOL": "TLS"}, "KAFKA_SECURITY_PROTOCOL"),
        ({"KAFKA_SECURITY_PROTOCOL": "SASL_SSL"}, "KAFKA_SASL_MECHANISM"),
        ({**SCRAM, "KAFKA_SASL_MECHANISM": "GSSAPI"}, "KAFKA_SASL_MECHANISM"),
        ({**SCRAM, "KAFKA_SASL_PASSWORD": ""}, "KAFKA_SASL_PASSWORD"),
        ({**SCRAM, "KAFKA_SASL_USERNAME": ""}, "KAFKA_SASL_USERNAME"),
        ({**SCRAM, "KAFKA_SASL_PASSWORD_FILE": "/nowhere"}, "KAFKA_SASL_PASSWORD_FILE"),
        ({**SCRAM, "KAFKA_OAUTH_SCOPE": "all"}, "KAFKA_OAUTH_SCOPE"),
        (
            {**SCRAM, "KAFKA_SASL_PASSWORD": "", "KAFKA_SASL_PASSWORD_FILE": "/nowhere"},
            "KAFKA_SASL_PASSWORD_FILE",
        ),
        ({**TOKENS, "KAFKA_SASL_USERNAME": "u"}, "KAFKA_SASL_USERNAME"),
        ({**TOKENS, "KAFKA_OAUTH_CLIENT_SECRET": ""}, "KAFKA_OAUTH_CLIENT_SECRET"),
        ({**TOKENS, "KAFKA_OAUTH_TOKEN_ENDPOINT": "login.example.com"}, "KAFKA_OAUTH_TOKEN_ENDPOINT"),
    ],
)
def test_what_is_half_or_has_no_effect_is_refused_by_name(
    set_variables: Callable[..., None], variables: dict[str, Any], named: str
) -> None:
    set_variables(**variables)
    with pytest.raises(SettingsError, match=f"TIDINGS_{named}") as caught:
        load_settings(KafkaSettings)
    assert CANARY not in f"{caught.value} {caught.value.hint}"


@pytest.mark.parametrize(
    ("variables", "named"),
    [
        ({"REGISTRY_USERNAME": "u"}, "REGISTRY_PASSWORD"),
        ({"REGISTRY_PASSWORD": CANARY}, "REGISTRY_USERNAME"),
        ({"REGISTRY_USERNAME": "u", "REGISTRY_PASSWORD": "p", "REGISTRY_TOKEN": CANARY}, "REGISTRY_TOKEN"),
        ({"REGISTRY_TOKEN": CANARY, "REGISTRY_TOKEN_FILE": "/nowhere"}, "REGISTRY_TOKEN_FILE"),
        ({"REGISTRY_TOKEN_FILE": "/nowhere"}, "REGISTRY_TOKEN_FILE"),
        ({"REGISTRY": "https://r", "REGISTRY_CA_FILE": "/nowhere"}, "REGISTRY_CA_FILE"),
        ({"REGISTRY_CA_FILE": "/nowhere"}, "REGISTRY_CA_FILE"),
    ],
)
def test_a_registrys_login_is_whole_or_refused_by_name(
    set_variables: Callable[..., None], variables: dict[str, Any], named: str
) -> None:
    set_variables(**{"REGISTRY": "http://r", **variables})
    with pytest.raises(SettingsError, match=f"TIDINGS_{named}") as caught:
        load_settings(RegistrySettings)
    assert CANARY not in f"{caught.value} {caught.value.hint}"


def test_the_registrys_secret_is_read_anew_for_each_request(
    set_variables: Callable[..., None], tmp_path: Path
) -> None:
    file = tmp_path / "token"
    file.write_text("one\n")
    set_variables(REGISTRY="http://r", REGISTRY_TOKEN_FILE=str(file))
    registry = load_settings(RegistrySettings).registry_access
    assert registry.authorization() == "Bearer one"
    file.write_text("two\n")
    assert registry.authorization() == "Bearer two"


def test_a_registry_may_be_left_out_where_it_is_optional(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TIDINGS_REGISTRY", raising=False)
    assert load_settings(OptionalRegistrySettings).optional_registry is None


@pytest.mark.parametrize("variables", [SCRAM, TOKENS])
def test_no_text_form_shows_a_secret(set_variables: Callable[..., None], variables: Any) -> None:
    set_variables(**variables, REGISTRY="http://r", REGISTRY_TOKEN=CANARY)
    kafka, registry = load_settings(KafkaSettings), load_settings(RegistrySettings)
    shown = repr((kafka, registry, kafka.kafka_access, registry.registry_access))
    assert not re.search(r"ca\W+na\W+ry", shown)
