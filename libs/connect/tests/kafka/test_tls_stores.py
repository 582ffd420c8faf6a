"""Key stores as Java's own keytool makes them, and PEM in every form that Kafka's clients take."""

import subprocess
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization

from tidings_connect.errors import WorkerConfigError
from tidings_connect.kafka.key_stores import read_tls
from tidings_jvm import find_java
from tidings_stack.secured.authority import Authority, Issued

STORE, KEY = "store-secret", "key-secret"


@dataclass(frozen=True)
class Stores:
    directory: Path
    root: str
    own: Issued

    def at(self, name: str) -> str:
        return str(self.directory / name)


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> Stores:
    issuer = Authority("Issuer", under=Authority("Root"))
    made = Stores(tmp_path_factory.mktemp("stores"), issuer.certificate, issuer.issue("client"))
    (made.directory / "own.p12").write_bytes(made.own.pkcs12(STORE))
    (made.directory / "root.pem").write_text(made.root)
    (made.directory / "own.pem").write_text(made.own.encrypted_key(KEY) + made.own.chain)
    (made.directory / "garbage").write_bytes(b"\xfe\xed\xfe\xed\0\0\0\2garbage")
    java = str(find_java().path)

    def keytool(*arguments: str) -> None:
        command = [
            java,
            "-XX:TieredStopAtLevel=1",
            "sun.security.tools.keytool.Main",
            *arguments,
            "-noprompt",
        ]
        subprocess.run(command, check=True, capture_output=True, timeout=120)

    source = ("-importkeystore", "-srckeystore", made.at("own.p12"), "-srcstorepass", STORE)
    trust = ("-importcert", "-file", made.at("root.pem"), "-alias", "root", "-storepass", STORE)
    with ThreadPoolExecutor() as pool:
        done = [
            pool.submit(
                keytool, *source, "-destkeystore", made.at("own.jks"), "-deststoretype", "JKS",
                "-deststorepass", STORE, "-srcalias", "own", "-destalias", "own", "-destkeypass", KEY,
            ),
            pool.submit(keytool, *trust, "-keystore", made.at("trust.jks"), "-storetype", "JKS"),
            pool.submit(keytool, *trust, "-keystore", made.at("trust.p12"), "-storetype", "PKCS12"),
        ]  # fmt: skip
    for one in done:
        one.result()
    return made


def same_key(one: str, other: str) -> bool:
    numbers = [
        serialization.load_pem_private_key(text.encode(), None).private_numbers() for text in (one, other)
    ]  # type: ignore[union-attr]
    return numbers[0] == numbers[1]


@pytest.mark.parametrize(
    "settings",
    [
        {"ssl.keystore.location": "own.jks", "ssl.keystore.password": STORE, "ssl.key.password": KEY},
        {"ssl.keystore.location": "own.p12", "ssl.keystore.password": STORE, "ssl.keystore.type": "PKCS12"},
        {"ssl.keystore.location": "own.p12", "ssl.keystore.password": STORE},
        {"ssl.keystore.location": "own.pem", "ssl.keystore.type": "PEM", "ssl.key.password": KEY},
    ],
)
def test_own_certificate_comes_with_its_chain_and_key(stores: Stores, settings: dict[str, str]) -> None:
    found = read_tls(settings | {"ssl.keystore.location": stores.at(settings["ssl.keystore.location"])})
    assert found.certificates == stores.own.chain
    assert same_key(found.key, stores.own.key)
    assert "PRIVATE" not in repr(found)


@pytest.mark.parametrize(
    "settings",
    [
        {"ssl.truststore.location": "trust.jks", "ssl.truststore.password": STORE},
        {"ssl.truststore.location": "trust.jks"},  # without a password Java does not check a store either
        {"ssl.truststore.location": "trust.p12", "ssl.truststore.password": STORE},
        {"ssl.truststore.location": "root.pem", "ssl.truststore.type": "PEM"},
    ],
)
def test_authorities_to_trust(stores: Stores, settings: dict[str, str]) -> None:
    found = read_tls(settings | {"ssl.truststore.location": stores.at(settings["ssl.truststore.location"])})
    assert (found.authorities, found.key) == (stores.root, "")


def test_pem_as_values_in_one_line_each(stores: Stores) -> None:
    def one_line(text: str) -> str:
        return " ".join(text.split("\n"))

    found = read_tls(
        {
            "ssl.keystore.key": one_line(stores.own.encrypted_key(KEY)),
            "ssl.keystore.certificate.chain": one_line(stores.own.chain),
            "ssl.key.password": KEY,
            "ssl.truststore.certificates": one_line(stores.root),
        }
    )
    assert (found.certificates, found.authorities) == (stores.own.chain, stores.root)
    assert same_key(found.key, stores.own.key)


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"ssl.keystore.location": "own.jks", "ssl.keystore.password": "wrong"}, "ssl.keystore.password"),
        ({"ssl.keystore.location": "own.jks", "ssl.keystore.password": STORE}, "ssl.key.password"),
        ({"ssl.keystore.location": "own.p12", "ssl.keystore.password": "wrong"}, "ssl.keystore.password"),
        ({"ssl.keystore.location": "trust.jks", "ssl.keystore.password": STORE}, "ssl.keystore.location"),
        ({"ssl.keystore.location": "own.pem", "ssl.keystore.type": "PEM"}, "ssl.key.password"),
        ({"ssl.keystore.location": "root.pem", "ssl.keystore.type": "PEM"}, "ssl.keystore.location"),
        ({"ssl.keystore.location": "garbage"}, "ssl.keystore.location"),
        ({"ssl.keystore.location": "none"}, "ssl.keystore.location"),
        ({"ssl.truststore.location": "own.pem"}, "ssl.truststore.location"),
        (
            {"ssl.truststore.location": "trust.jks", "ssl.truststore.password": "wrong"},
            "ssl.truststore.password",
        ),
        (
            {"ssl.truststore.location": "trust.p12", "ssl.truststore.password": "wrong"},
            "ssl.truststore.password",
        ),
        ({"ssl.keystore.key": "x"}, "ssl.keystore.certificate.chain"),
        ({"ssl.truststore.certificates": "x"}, "ssl.truststore.certificates"),
    ],
)
def test_what_cannot_be_opened_is_named(stores: Stores, settings: dict[str, str], named: str) -> None:
    given = {n: stores.at(v) if n.endswith("location") else v for n, v in settings.items()}
    with pytest.raises(WorkerConfigError) as caught:
        read_tls(given, "producer.override.")
    assert str(caught.value).startswith("producer.override.ssl.")
    assert named in str(caught.value)
    assert STORE not in str(caught.value)
