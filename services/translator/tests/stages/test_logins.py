"""A wrong login is told with its user and setting, and a new password is taken by the client that there is."""

import time
from pathlib import Path

import pytest
from aiokafka import AIOKafkaConsumer
from aiokafka.client import AIOKafkaClient
from aiokafka.errors import KafkaConnectionError
from bikes.processes import wait_for

from tidings_service import load_settings
from tidings_service.kafka_access import KafkaAccess
from tidings_service.kafka_settings import KafkaSettings
from tidings_service.logins import forget_refusal, refusal
from tidings_stack.secured.authority import Authority
from tidings_stack.secured.servers import KAFKA_USER, SecuredServers
from tidings_stack.secured.token_endpoint import TokenEndpoint
from tidings_translator.base.errors import BrokerError
from tidings_translator.dead_letters.letter_box import LetterBox
from tidings_translator.group import faust_login
from tidings_translator.kafka.clients import KafkaProducer
from tidings_translator.kafka.topics import Topics

pytestmark = [pytest.mark.stack, pytest.mark.timeout(300)]


def access_of(servers: SecuredServers, directory: Path, password: str) -> KafkaAccess:
    """A user's, whose password is in the directory's file `password`."""
    (directory / "password").write_text(f"{password}\n")
    (directory / "ca.pem").write_text(servers.authority.certificate)
    return load_settings(
        KafkaSettings,
        kafka=servers.kafka.sasl_bootstrap,
        kafka_security_protocol="SASL_SSL",
        kafka_sasl_mechanism="SCRAM-SHA-256",
        kafka_sasl_username=KAFKA_USER,
        kafka_sasl_password_file=directory / "password",
        kafka_ca_file=directory / "ca.pem",
    ).kafka_access


async def test_the_consumer_of_a_stage_tells_of_a_refused_login(
    secured_servers: SecuredServers, tmp_path: Path
) -> None:
    """aiokafka only logs it; an idle sequencer has no other client that would be refused."""
    access = access_of(secured_servers, tmp_path, "wrong")
    forget_refusal()
    faust_login.hear_refusals(access)
    until = time.monotonic() + 20
    while refusal() is None and time.monotonic() < until:
        consumer = AIOKafkaConsumer(
            bootstrap_servers=secured_servers.kafka.sasl_bootstrap, **faust_login.arguments(access)
        )
        with pytest.raises(KafkaConnectionError):
            await consumer.start()
        await consumer.stop()
    assert KAFKA_USER in (refusal() or "")
    forget_refusal()


@pytest.mark.turns
def test_a_password_that_was_wrong_is_told_and_the_right_one_taken(
    secured_servers: SecuredServers, tmp_path: Path
) -> None:
    kafka, file = secured_servers.kafka, tmp_path / "password"
    access = access_of(secured_servers, tmp_path, "wrong")
    topics, letters = Topics(access), LetterBox(access, "letters")
    for ask in (lambda: topics.partitions(timeout_seconds=3), letters.end):
        with pytest.raises(BrokerError, match=f"refuse user '{KAFKA_USER}'") as caught:
            ask()
        assert "TIDINGS_KAFKA_SASL_PASSWORD_FILE" in (caught.value.hint or "")
    file.write_text(kafka.password + "\n")

    def answered() -> bool:
        try:
            return topics.partitions(timeout_seconds=3) is not None
        except BrokerError:
            return False

    wait_for(answered, "the client that was refused to use the new password")


@pytest.mark.turns
def test_an_oauth_clients_new_secret_is_taken_when_the_old_one_is_refused(
    secured_servers: SecuredServers, tmp_path: Path
) -> None:
    file = tmp_path / "secret"
    file.write_text("first\n")
    (tmp_path / "ca.pem").write_text(secured_servers.authority.certificate)
    with TokenEndpoint({"stage": "first"}, life_seconds=3) as endpoint:
        access = load_settings(
            KafkaSettings,
            kafka=secured_servers.kafka.sasl_bootstrap,
            kafka_security_protocol="SASL_SSL",
            kafka_sasl_mechanism="OAUTHBEARER",
            kafka_oauth_token_endpoint=endpoint.url,
            kafka_oauth_client_id="stage",
            kafka_oauth_client_secret_file=file,
            kafka_ca_file=tmp_path / "ca.pem",
        ).kafka_access
        producer = KafkaProducer(access, {"log_level": 0})
        assert producer.list_topics(timeout=30).brokers
        forget_refusal()

        def told(what: bool) -> bool:
            producer.poll(0.1)
            return (refusal() is not None) == what

        endpoint.clients["stage"] = "second"
        wait_for(lambda: told(True), "the refusal of the old secret to be told")
        assert "TIDINGS_KAFKA_OAUTH_CLIENT_SECRET_FILE" in (refusal() or "")
        assert "'stage'" in (refusal() or "")
        file.write_text("second\n")
        wait_for(lambda: told(False), "the new secret to be taken")
        assert Topics(access).partitions(timeout_seconds=30) is not None


async def test_a_certificate_that_is_renewed_is_taken_by_aiokafka(
    secured_servers: SecuredServers, tmp_path: Path
) -> None:
    """librdkafka reads its own when a client is made: docs/security.md says so."""
    servers = secured_servers
    (tmp_path / "ca.pem").write_text(servers.authority.certificate)

    def write(authority: Authority) -> None:
        issued = authority.issue("stage")
        (tmp_path / "own.key").write_text(issued.key)
        (tmp_path / "own.pem").write_text(issued.chain)

    write(Authority("of nobody"))
    access = load_settings(
        KafkaSettings,
        kafka=servers.kafka.mutual_bootstrap,
        kafka_security_protocol="SSL",
        kafka_ca_file=tmp_path / "ca.pem",
        kafka_certificate_file=tmp_path / "own.pem",
        kafka_key_file=tmp_path / "own.key",
    ).kafka_access
    login = faust_login.arguments(access)

    async def connects() -> bool:
        client = AIOKafkaClient(bootstrap_servers=access.bootstrap, **login)
        try:
            await client.bootstrap()
        except KafkaConnectionError:
            return False
        finally:
            await client.close()
        return True

    assert not await connects()
    consumer = AIOKafkaConsumer(bootstrap_servers=access.bootstrap, **login)
    faust_login.keep_up(consumer, access, login)
    write(servers.authority)
    until = time.monotonic() + 30
    while not await connects():
        assert time.monotonic() < until
    await consumer.stop()
    assert Topics(access).partitions(timeout_seconds=30) is not None
