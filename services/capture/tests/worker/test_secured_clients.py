"""Each client with each kind of login and certificate, and what it says when it is refused."""

from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from tidings_capture.postgres.client import Session
from tidings_capture.postgres.errors import PostgresError
from tidings_capture.postgres.settings.config import read_endpoint
from tidings_connect import renewals
from tidings_connect.converters.encoding import make_converter
from tidings_connect.errors import BrokerError
from tidings_connect.kafka.settings import translate_client_settings
from tidings_connect.kafka.topics import TopicAdmin
from tidings_envelope.errors import RegistryError
from tidings_envelope.schema import ConnectSchema, ConnectType
from tidings_stack.secured.authority import Authority
from tidings_stack.secured.registry import guarded
from tidings_stack.secured.servers import KAFKA_USER, SecuredServers
from tidings_stack.secured.token_endpoint import TokenEndpoint
from tidings_stack.waiting import wait_for

CONFLUENT = "io.confluent.connect.avro.AvroConverter"
pytestmark = pytest.mark.timeout(600)  # a broker, a database and a registry start for the first test


@pytest.fixture
def registry(registry_url: str, secured_servers: SecuredServers, tmp_path: Path) -> Iterator[tuple[str, str]]:
    """URL and password of the registry."""
    with guarded(registry_url, secured_servers.authority, tmp_path) as found:
        yield found


@pytest.fixture(scope="module")
def files(secured_servers: SecuredServers, tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("tls")
    own = secured_servers.authority.issue("certified")
    for name, text in (
        ("root.pem", secured_servers.authority.certificate),
        ("other.pem", Authority("Somebody else").certificate),
        ("own.crt", own.chain),
        ("own.key", own.key),
        ("secret.key", own.encrypted_key("hush")),
    ):
        (directory / name).touch(mode=0o600)
        (directory / name).write_text(text)
    (directory / "own.p12").write_bytes(own.pkcs12("hush"))
    return directory


def reach(bootstrap: str, **settings: str) -> str:
    translated = translate_client_settings(
        {name.replace("_", "."): value for name, value in settings.items()}
    )
    return TopicAdmin({"bootstrap.servers": bootstrap, **translated}).check_reachable(60)


def test_kafka_with_each_mechanism_and_with_a_client_certificate(
    secured_servers: SecuredServers, files: Path
) -> None:
    kafka = secured_servers.kafka
    trust = {"ssl_truststore_type": "PEM", "ssl_truststore_location": str(files / "root.pem")}
    for mechanism in ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"):
        module = "plain.PlainLoginModule" if mechanism == "PLAIN" else "scram.ScramLoginModule"
        login = f'org.apache.kafka.common.security.{module} required username="{KAFKA_USER}" password="{kafka.password}";'
        sasl = {"security_protocol": "SASL_SSL", "sasl_mechanism": mechanism, "sasl_jaas_config": login}
        assert reach(kafka.sasl_bootstrap, **sasl, **trust)
    prefix = "sasl_oauthbearer_client_credentials_client"
    with TokenEndpoint({"capture": "hush"}) as endpoint:
        tokens = {
            "security_protocol": "SASL_SSL",
            "sasl_mechanism": "OAUTHBEARER",
            "sasl_oauthbearer_token_endpoint_url": endpoint.url,
            f"{prefix}_id": "capture",
            f"{prefix}_secret": "hush",
        }
        assert reach(kafka.sasl_bootstrap, **tokens, **trust)
        assert endpoint.asked
    # librdkafka is given the chain in memory: without the intermediate certificate the broker could not check it.
    mutual = {"security_protocol": "SSL", **trust}
    assert reach(
        kafka.mutual_bootstrap,
        **mutual,
        ssl_keystore_location=str(files / "own.p12"),
        ssl_keystore_type="PKCS12",
        ssl_keystore_password="hush",
    )


@pytest.mark.parametrize("case", ["authority", "password", "certificate"])
def test_kafka_that_refuses_is_told_from_kafka_that_is_away(
    secured_servers: SecuredServers, files: Path, case: str
) -> None:
    kafka = secured_servers.kafka
    trust = {
        "ssl_truststore_type": "PEM",
        "ssl_truststore_location": str(files / ("other.pem" if case == "authority" else "root.pem")),
    }
    jaas = f'o.PlainLoginModule required username="{KAFKA_USER}" password="wrong-one";'
    sasl = {"security_protocol": "SASL_SSL", "sasl_mechanism": "PLAIN", "sasl_jaas_config": jaas}
    if case == "certificate":
        settings, bootstrap = {"security_protocol": "SSL", **trust}, kafka.mutual_bootstrap
    else:
        settings, bootstrap = {**sasl, **trust}, kafka.sasl_bootstrap
    admin = TopicAdmin(
        {
            "bootstrap.servers": bootstrap,
            **translate_client_settings({n.replace("_", "."): v for n, v in settings.items()}),
        }
    )
    expected = {
        "authority": "certificate verify failed",
        "password": "Invalid username or password",
        "certificate": "bad certificate",
    }

    def refusal() -> str:
        with pytest.raises(BrokerError) as caught:
            admin.check_reachable(1.0)
        assert "wrong-one" not in str(caught.value)
        return str(caught.value)

    wait_for(expected[case], lambda: expected[case] in refusal())


@pytest.mark.parametrize("key", ["own.key", "secret.key"])
def test_postgresql_with_a_client_certificate(secured_servers: SecuredServers, files: Path, key: str) -> None:
    pg = secured_servers.pg
    with psycopg.connect(pg.url, autocommit=True) as connection:
        connection.execute("DROP ROLE IF EXISTS certified")
        connection.execute("CREATE ROLE certified LOGIN")
    config = {
        "database.hostname": "127.0.0.1",
        "database.port": str(pg.port),
        "database.user": "certified",
        "database.dbname": "postgres",
        "database.sslmode": "verify-full",
        "database.sslrootcert": str(files / "root.pem"),
        "database.sslcert": str(files / "own.crt"),
        "database.sslkey": str(files / key),
        "database.sslpassword": "hush",
    }
    session = Session(read_endpoint(config))
    assert session.value("SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()") is True
    session.close()
    for change, word in (
        ({"database.sslrootcert": str(files / "other.pem")}, "certificate"),
        ({"database.sslmode": "disable"}, "database.user=certified"),
        ({"database.sslpassword": "wrong-one"}, "private key file" if key == "secret.key" else ""),
    ):
        if not word:
            continue
        with pytest.raises(PostgresError) as caught:
            Session(read_endpoint(config | change))
        assert word in str(caught.value), change
        assert "wrong-one" not in str(caught.value)


def registry_options(kind: str, url: str, password: str, files: Path) -> dict[str, str]:
    store = {"type": "PEM", "location": str(files / "root.pem")}
    if kind == "apicurio":
        found = {
            "": "io.apicurio.registry.utils.converter.AvroConverter",
            ".apicurio.registry.url": url,
            ".apicurio.registry.as-confluent": "true",
            ".apicurio.auth.username": "reg",
            ".apicurio.auth.password": password,
            **{f".apicurio.registry.request.ssl.truststore.{n}": v for n, v in store.items()},
        }
    else:
        found = {"": CONFLUENT, **{f".schema.registry.ssl.truststore.{n}": v for n, v in store.items()}}
        if kind == "URL":
            found[".schema.registry.url"] = url.replace("https://", f"https://reg:{password}@")
        else:
            found[".schema.registry.url"] = url
            found[".basic.auth.credentials.source"] = "USER_INFO"
            found[".basic.auth.user.info"] = f"reg:{password}"
    return {f"value.converter{name}": value for name, value in found.items()}


@pytest.mark.parametrize("kind", ["confluent", "apicurio", "URL"])
def test_registry_with_a_login(registry: tuple[str, str], files: Path, unique_name: str, kind: str) -> None:
    url, password = registry
    schema = ConnectSchema(ConnectType.INT64)
    converter = make_converter(registry_options(kind, url, password, files), is_key=False)
    assert converter.frame(unique_name, schema)[0][:1] == b"\0"
    converter.close()
    wrong = make_converter(registry_options(kind, url, "wrong-one", files), is_key=False)
    with pytest.raises(RegistryError) as caught:
        wrong.frame(unique_name, schema)
    wrong.close()
    assert "401" in str(caught.value)
    assert "wrong-one" not in str(caught.value)


@pytest.mark.parametrize("kind", ["confluent", "apicurio"])
def test_a_registrys_password_that_changes_under_a_running_converter(
    registry: tuple[str, str], files: Path, unique_name: str, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    url, password = registry
    monkeypatch.setattr(renewals, "_newest", {})  # of this test alone
    converter = make_converter(registry_options(kind, url, password, files), is_key=False)
    assert converter.frame(unique_name, ConnectSchema(ConnectType.INT64))[0][:1] == b"\0"
    renewals.note(renewals.Renewal(renewals.REGISTRY, "reg", password, "wrong-one"))
    text = ConnectSchema(ConnectType.STRING)
    with pytest.raises(RegistryError) as caught:
        converter.frame(f"{unique_name}-2", text)
    assert "401" in str(caught.value)
    assert caught.value.retry == "timed", "the right one may be on its way"
    assert "wrong-one" not in str(caught.value)
    renewals.note(renewals.Renewal(renewals.REGISTRY, "reg", "wrong-one", password))
    assert converter.frame(f"{unique_name}-2", text)[0][:1] == b"\0"
    converter.close()
