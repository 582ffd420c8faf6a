"""Every way to log in, on a real broker, with the clients of Python that the services have."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from aiokafka.abc import AbstractTokenProvider
from aiokafka.admin import AIOKafkaAdminClient
from confluent_kafka.admin import AdminClient

from tidings_service import load_settings
from tidings_service.kafka_access import KafkaAccess
from tidings_service.kafka_settings import KafkaSettings
from tidings_stack.secured.servers import KAFKA_USER, SecuredServers
from tidings_stack.secured.token_endpoint import TokenEndpoint

pytestmark = [pytest.mark.stack, pytest.mark.timeout(300)]


@pytest.fixture
def endpoint() -> Iterator[TokenEndpoint]:
    with TokenEndpoint({"sequencer": "hush"}) as running:
        yield running


@pytest.fixture
def files(secured_servers: SecuredServers, tmp_path: Path) -> Path:
    issued = secured_servers.authority.issue("sequencer")
    (tmp_path / "ca.pem").write_text(secured_servers.authority.certificate)
    (tmp_path / "own.pem").write_text(issued.chain)
    (tmp_path / "own.key").write_text(issued.encrypted_key("hush"))
    (tmp_path / "password").write_text(secured_servers.kafka.password + "\n")
    return tmp_path


class Tokens(AbstractTokenProvider):
    """As the translator's."""

    def __init__(self, kafka: KafkaAccess) -> None:
        assert kafka.oauth is not None
        self._oauth = kafka.oauth

    async def token(self) -> str:
        return self._oauth.token().value


@pytest.mark.parametrize("way", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER", "certificate"])
async def test_librdkafka_and_aiokafka_log_in(
    secured_servers: SecuredServers, files: Path, endpoint: TokenEndpoint, way: str
) -> None:
    kafka = secured_servers.kafka
    values: dict[str, object] = {"kafka_ca_file": files / "ca.pem", "kafka": kafka.sasl_bootstrap}
    if way == "certificate":
        values |= {
            "kafka": kafka.mutual_bootstrap,
            "kafka_security_protocol": "SSL",
            "kafka_certificate_file": files / "own.pem",
            "kafka_key_file": files / "own.key",
            "kafka_key_password": "hush",
        }
    else:
        values |= {"kafka_security_protocol": "SASL_SSL", "kafka_sasl_mechanism": way}
    if way == "OAUTHBEARER":
        values |= {
            "kafka_oauth_token_endpoint": endpoint.url,
            "kafka_oauth_client_id": "sequencer",
            "kafka_oauth_client_secret": "hush",
        }
    elif way != "certificate":
        values |= {
            "kafka_sasl_username": KAFKA_USER,
            "kafka_sasl_password_file": files / "password",
        }
    access = load_settings(KafkaSettings, **values).kafka_access
    assert AdminClient({**access.librdkafka(), "log_level": 0}).list_topics(timeout=60).brokers
    arguments = access.aiokafka()
    if access.oauth is not None:
        arguments["sasl_oauth_token_provider"] = Tokens(access)
    client = AIOKafkaAdminClient(bootstrap_servers=access.bootstrap, **arguments)
    try:
        await client.start()
        assert (await client.describe_cluster())["brokers"]
    finally:
        await client.close()
    assert len(endpoint.asked) == (1 if way == "OAUTHBEARER" else 0)
