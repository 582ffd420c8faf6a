"""A wrong login is told with its user and setting, and a new password is taken by the client that there is."""

import time
from pathlib import Path

import pytest
from aiokafka import AIOKafkaConsumer
from aiokafka.errors import KafkaConnectionError
from bikes.processes import wait_for

from tidings_service import load_settings
from tidings_service.kafka_access import KafkaAccess
from tidings_service.kafka_settings import KafkaSettings
from tidings_service.logins import forget_refusal, refusal
from tidings_stack.secured import KAFKA_USER, SecuredServers
from tidings_translator.base.errors import BrokerError
from tidings_translator.dead_letters.letter_box import LetterBox
from tidings_translator.group import faust_login
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
