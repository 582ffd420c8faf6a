"""Config providers: references to secrets in worker properties and connector configurations."""

from pathlib import Path

import pytest

from tidings_connect.config.providers import ConfigProviderError, is_reference, read_config_providers
from tidings_connect.config.secrets import passwords
from tidings_connect.config.validation import validate
from tidings_connect.config.worker_properties import read_worker_config
from tidings_connect.errors import WorkerConfigError

PACKAGE = "org.apache.kafka.common.config.provider."
THREE = {
    "config.providers": "file, dir,env",
    "config.providers.file.class": PACKAGE + "FileConfigProvider",
    "config.providers.dir.class": PACKAGE + "DirectoryConfigProvider",
    "config.providers.env.class": PACKAGE + "EnvVarConfigProvider",
}


@pytest.fixture
def secrets(tmp_path: Path) -> Path:
    (tmp_path / "db.properties").write_text("password = h\\u00fcsh:1\nempty=\n", encoding="utf-8")
    (tmp_path / "token").write_text("line\n", encoding="utf-8")
    return tmp_path


def test_references_are_resolved_as_kafka_does(secrets: Path) -> None:
    providers = read_config_providers(THREE, {"USER_NAME": "bob"})
    file = f"{secrets}/db.properties"
    given = {
        "whole": f"${{file:{file}:password}}",
        "within": f"a-${{env:USER_NAME}}-${{dir:{secrets}:token}}-b",
        "empty": f"${{file:{file}:empty}}",
        "no provider of that name": "${vault:x:y}",
        "no reference": "${name} {env:X} $",
    }
    assert providers.resolve(given) == {
        "whole": "hüsh:1",
        "within": "a-bob-line\n-b",
        "empty": "",
        "no provider of that name": "${vault:x:y}",
        "no reference": "${name} {env:X} $",
    }


@pytest.mark.parametrize(
    ("reference", "reason"),
    [
        ("${{file:{at}/db.properties:pasword}}", "has no key pasword"),
        ("${{file:{at}/none.properties:password}}", "cannot be read"),
        ("${{file:password}}", "no path"),
        ("${{dir:{at}:none}}", "cannot be read"),
        ("${{dir:{at}:../secret}}", "is not a file's name"),
        ("${{env:NONE}}", "the environment has no NONE"),
        ("${{env:path:USER_NAME}}", "has no path"),
    ],
)
def test_what_cannot_be_resolved_names_the_option_and_no_value(
    secrets: Path, reference: str, reason: str
) -> None:
    providers = read_config_providers(THREE, {"USER_NAME": "bob"})
    reference = reference.format(at=secrets)
    with pytest.raises(ConfigProviderError) as caught:
        providers.resolve({"database.password": reference})
    text = str(caught.value)
    assert text.startswith(f"database.password: {reference} cannot be resolved")
    assert reason in text
    assert "hüsh" not in text
    assert list(providers.problems({"database.password": reference, "x": "y"})) == ["database.password"]


def test_a_provider_may_be_kept_to_paths_and_variables(secrets: Path, tmp_path: Path) -> None:
    allowed = tmp_path / "allowed"
    allowed.mkdir()
    (allowed / "key").write_text("in")
    limited = read_config_providers(
        THREE
        | {
            "config.providers.file.param.allowed.paths": str(allowed),
            "config.providers.dir.param.allowed.paths": str(allowed),
            "config.providers.env.param.allowlist.pattern": "CAPTURE_.*",
        },
        {"USER_NAME": "bob", "CAPTURE_X": "1"},
    )
    assert limited.resolve({"a": f"${{dir:{allowed}:key}}", "b": "${env:CAPTURE_X}"}) == {"a": "in", "b": "1"}
    for refused in (
        f"${{file:{secrets}/db.properties:password}}",
        f"${{file:{allowed}/../db.properties:password}}",
        f"${{dir:{allowed}/..:token}}",
        "${env:USER_NAME}",
    ):
        with pytest.raises(ConfigProviderError, match=r"allowed\.paths|allowlist\.pattern"):
            limited.resolve({"x": refused})


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"config.providers.env.class": "com.example.VaultConfigProvider"}, "config.providers.env.class"),
        ({"config.providers": "file,other"}, "config.providers.other.class"),
        ({"config.providers.env.param.pattern": "x"}, "config.providers.env.param.pattern"),
        ({"config.providers.env.param.allowlist.pattern": "("}, "allowlist.pattern"),
        ({"config.providers.file.param.allowed.paths": "/no/such/place"}, "allowed.paths"),
    ],
)
def test_a_provider_that_cannot_be_is_refused_by_name(changes: dict[str, str], named: str) -> None:
    with pytest.raises(WorkerConfigError, match=named.replace(".", r"\.")):
        read_config_providers(THREE | changes, {})


def test_worker_properties_may_refer_to_secrets(secrets: Path) -> None:
    minimum = {
        **THREE,
        "bootstrap.servers": "a:9092",
        "group.id": "g",
        **{f"{kind}.storage.topic": kind for kind in ("config", "offset", "status")},
    }
    jaas = f'o.PlainLoginModule required username="u" password="${{file:{secrets}/db.properties:password}}";'
    worker = read_worker_config(minimum | {"sasl.jaas.config": jaas})
    assert worker.client["sasl.password"] == "hüsh:1"
    assert worker.unknown == ()
    with pytest.raises(WorkerConfigError, match=r"sasl\.jaas\.config: .*NONE"):
        read_worker_config(minimum | {"sasl.jaas.config": "${env:NONE}"})


def test_validation_names_options_whose_references_lead_nowhere() -> None:
    providers = read_config_providers(THREE, {})
    problems = validate(
        {"database.user": "${env:NONE}", "database.password": "${vault:db:password}", "slot.name": "${x:y}"},
        providers,
    ).problems
    assert problems.keys() == {"database.user", "database.password"}
    assert "config.providers" in problems["database.password"][0]


def test_a_reference_is_shown_and_a_secret_is_not() -> None:
    assert is_reference("${file:/a:b}")
    assert not is_reference("x${file:/a:b}")
    config = {
        "database.password": "${env:X}",
        "database.sslpassword": "hush",
        "value.converter.basic.auth.user.info": "u:${env:X}",
        "value.converter.schema.registry.url": "https://u:hush@registry",
        "key.converter.schema.registry.url": "https://registry",
        "producer.override.ssl.keystore.key": "-----BEGIN PRIVATE KEY-----",
        "database.sslkey": "/a/path",
    }
    assert passwords(config) == {
        "database.sslpassword",
        "value.converter.basic.auth.user.info",
        "value.converter.schema.registry.url",
        "producer.override.ssl.keystore.key",
    }
