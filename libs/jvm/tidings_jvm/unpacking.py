"""Extract an archive from the download cache beside it, once.

PostgreSQL's binaries are a `.txz` inside a jar, MariaDB's are a jar's own files; Apicurio Registry is a `.tar.gz`. A directory in `unpacked/` is complete,
because it appears there by rename.
"""

from __future__ import annotations

import lzma
import shutil
import tarfile
import tempfile
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tidings_jvm.cache import cache_directory, locked
from tidings_jvm.errors import FetchError

# Refuses paths outside the target. Python 3.11.0 to 3.11.3 lack it; the archives were verified by their hash.
SAFELY: Mapping[str, Any] = {"filter": "tar"} if hasattr(tarfile, "tar_filter") else {}


def unpack(archive: Path) -> Path:
    """Return the directory that holds the contents of `archive` (a `.tar.gz`, or a jar, or the one `.txz` inside a jar)."""
    target = cache_directory() / "unpacked" / archive.name.removesuffix(".tar.gz").removesuffix(".jar")
    if target.is_dir():
        return target
    with locked(cache_directory() / "locks" / "unpack.lock"):
        if target.is_dir():
            return target
        target.parent.mkdir(parents=True, exist_ok=True)
        scratch = Path(tempfile.mkdtemp(prefix="unpack-", dir=target.parent))
        try:
            scratch.chmod(0o755)
            _extract(archive, scratch)
            scratch.rename(target)
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
    return target


def _extract(archive: Path, target: Path) -> None:
    try:
        if archive.name.endswith(".tar.gz"):
            with tarfile.open(archive, "r:gz") as tar:
                tar.extractall(target, **SAFELY)  # noqa: S202 (verified by its hash)
            return
        with zipfile.ZipFile(archive) as jar:
            inner = next((name for name in jar.namelist() if name.endswith(".txz")), None)
            if inner is None:
                jar.extractall(target)  # noqa: S202 (verified by its hash)
                _make_executable(target)
                return
            with (
                jar.open(inner) as compressed,
                lzma.open(compressed) as plain,
                tarfile.open(fileobj=plain, mode="r|") as tar,
            ):
                tar.extractall(target, **SAFELY)  # noqa: S202 (verified by its hash)
    except (tarfile.TarError, zipfile.BadZipFile, lzma.LZMAError, EOFError) as error:
        raise FetchError(
            f"{archive.name} cannot be extracted", hint="remove it from the download cache and try again"
        ) from error
    except OSError as error:
        raise FetchError(
            f"{archive.name} cannot be extracted: {error.strerror}",
            hint="is the disk full? TIDINGS_CACHE names another place",
        ) from error


def _make_executable(directory: Path) -> None:
    """A jar keeps no mode bits: what stands in ``bin`` and ``scripts`` may be run."""
    for file in directory.rglob("*"):
        if file.is_file() and file.parent.name in {"bin", "scripts"}:
            file.chmod(0o755)
