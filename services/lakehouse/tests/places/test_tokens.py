"""OAUTHBEARER with signed tokens: the clients of all services log in with the same settings, Spark's Kafka source too."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from aiokafka.abc import AbstractTokenProvider
from aiokafka.admin import AIOKafkaAdminClient
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from pyspark.sql import SparkSession

from tidings_lakehouse.spark.kafka import Brokers
from tidings_lakehouse.spark.kafka_login import KafkaLogin
from tidings_service import load_settings
from tidings_service.kafka_access import KafkaAccess
from tidings_service.kafka_settings import KafkaSettings
from tidings_stack.secured.servers import SecuredServers
from tidings_stack.secured.token_endpoint import TokenEndpoint

pytestmark = [pytest.mark.stack, pytest.mark.spark, pytest.mark.timeout(300)]


@pytest.fixture
def access(secured_servers: SecuredServers, tmp_path: Path) -> Iterator[KafkaAccess]:
    (tmp_path / "ca.pem").write_text(secured_servers.authority.certificate)
    with TokenEndpoint({"lakehouse": "hush"}) as endpoint:
        yield load_settings(
            KafkaSettings,
            kafka=secured_servers.kafka.sasl_bootstrap,
            kafka_ca_file=tmp_path / "ca.pem",
            kafka_security_protocol="SASL_SSL",
            kafka_sasl_mechanism="OAUTHBEARER",
            kafka_oauth_token_endpoint=endpoint.url,
            kafka_oauth_client_id="lakehouse",
            kafka_oauth_client_secret="hush",
        ).kafka_access


class Tokens(AbstractTokenProvider):
    """As the translator's."""

    def __init__(self, kafka: KafkaAccess) -> None:
        self._kafka = kafka

    async def token(self) -> str:
        assert self._kafka.oauth is not None
        return self._kafka.oauth.token().value


async def test_librdkafka_aiokafka_and_spark_log_in_with_the_same_settings(
    session: SparkSession, access: KafkaAccess, unique_name: str
) -> None:
    producer = Producer({**access.librdkafka(), "log_level": 0})
    producer.produce(unique_name, b"value")
    assert producer.flush(60) == 0
    assert unique_name in AdminClient({**access.librdkafka(), "log_level": 0}).list_topics(timeout=60).topics
    client = AIOKafkaAdminClient(
        bootstrap_servers=access.bootstrap, **access.aiokafka(), sasl_oauth_token_provider=Tokens(access)
    )
    try:
        await client.start()
        assert unique_name in await client.list_topics()
    finally:
        await client.close()
    login = KafkaLogin(access, local=False)  # this JVM has been started before: it inherits no file
    Brokers(session, login).check()
    options = {f"kafka.{name}": value for name, value in login.settings().items()}
    rows = session.read.format("kafka").options(**options, subscribe=unique_name).load()
    assert [bytes(row.value) for row in rows.collect()] == [b"value"]
