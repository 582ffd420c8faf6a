"""A wrong login is told with its user and setting, and a new password is taken by the client that there is."""

from pathlib import Path

import pytest
from bikes.processes import wait_for

from tidings_service import load_settings
from tidings_service.kafka_settings import KafkaSettings
from tidings_stack.secured import KAFKA_USER, SecuredServers
from tidings_translator.errors import BrokerError
from tidings_translator.kafka_letters import LetterBox
from tidings_translator.kafka_topics import Topics

pytestmark = [pytest.mark.stack, pytest.mark.timeout(300)]


def test_a_password_that_was_wrong_is_told_and_the_right_one_taken(
    secured_servers: SecuredServers, tmp_path: Path
) -> None:
    kafka, file = secured_servers.kafka, tmp_path / "password"
    file.write_text("wrong\n")
    (tmp_path / "ca.pem").write_text(secured_servers.authority.certificate)
    access = load_settings(
        KafkaSettings,
        kafka=kafka.sasl_bootstrap,
        kafka_security_protocol="SASL_SSL",
        kafka_sasl_mechanism="SCRAM-SHA-256",
        kafka_sasl_username=KAFKA_USER,
        kafka_sasl_password_file=file,
        kafka_ca_file=tmp_path / "ca.pem",
    ).kafka_access
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
