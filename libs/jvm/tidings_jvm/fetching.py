"""Fetch a configuration of `ivy.xml` into the download cache, once, verified.

A file's hash is computed when it is fetched and again whenever its size or mtime is not the one stamped then, so a
start on a warm cache costs one `stat` per file. Processes that fetch at the same time take turns at one lock; a file
appears in the cache by rename, complete or not at all.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tidings_jvm.cache import cache_directory, locked
from tidings_jvm.checksums import Artefact, artefacts_of, sha256_of, verify
from tidings_jvm.errors import ChecksumError, FetchError
from tidings_jvm.ivy import download
from tidings_jvm.progress import Progress, default_progress


def fetch(configuration: str, *, progress: Progress | None = None) -> list[Path]:
    """Return the files of a configuration ("kafka", "registry", "debezium", "lakehouse", "pg-16" ...), fetched if needed.

    Raises FetchError (offline, not found), ChecksumError (not the file that was expected).
    """
    prefetch([configuration], progress=progress)
    return [_place(artefact) for artefact in artefacts_of(configuration)]


def prefetch(configurations: Sequence[str], *, progress: Progress | None = None) -> None:
    """Fetch several configurations in one run of Ivy, which is quicker than one by one. Errors as for `fetch`."""
    if all(_is_stamped(configuration) for configuration in configurations):
        return
    shown = progress or default_progress()
    cache = cache_directory()
    try:
        (cache / "artefacts").mkdir(parents=True, exist_ok=True)
        writable = os.access(cache, os.W_OK)
    except OSError:
        writable = False
    if not writable:
        raise FetchError(
            f"the download cache {cache} cannot be written", hint="set TIDINGS_CACHE to another directory"
        )

    def waiting() -> None:
        shown.say("Waiting for another process that is downloading ...")

    with locked(cache / "locks" / "fetch.lock", waiting=waiting):
        missing = [configuration for configuration in configurations if not _stamp_from_files(configuration)]
        if missing:
            _fetch_missing(missing, shown)


def is_fetched(configuration: str) -> bool:
    """Whether the configuration is complete in the cache, so that `fetch` would neither download nor start a JVM."""
    return _is_stamped(configuration)


def _fetch_missing(configurations: Sequence[str], progress: Progress) -> None:
    wanted = {
        a.name: a
        for configuration in configurations
        for a in artefacts_of(configuration)
        if not _place(a).is_file()
    }
    total = sum(artefact.size for artefact in wanted.values())
    cache = cache_directory()
    scratch = Path(tempfile.mkdtemp(prefix="fetch-", dir=cache))
    try:
        with progress.task(f"Downloading {', '.join(configurations)}", total) as task:

            def on_file(stem: str) -> None:
                task.advance(sum(artefact.size for name, artefact in wanted.items() if name.startswith(stem)))

            download(
                {configuration: artefacts_of(configuration) for configuration in configurations},
                # Not the one of `record`: what was read without a POM needs nothing.
                ivy_cache=cache / "downloads",
                target=scratch / "out",
                on_file=on_file,
            )
            for configuration in configurations:
                _take_over(configuration, scratch / "out" / configuration)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _take_over(configuration: str, fetched: Path) -> None:
    """Verify what Ivy brought and let it appear in the cache."""
    expected = {artefact.name: artefact for artefact in artefacts_of(configuration)}
    unexpected = sorted({path.name for path in fetched.iterdir()} ^ set(expected))
    if unexpected:
        raise ChecksumError(
            f"{configuration} is not what checksums.txt lists; it differs in {', '.join(unexpected[:5])}",
            hint="after a change of ivy.xml run: python -m tidings_jvm record",
        )
    for name, artefact in expected.items():
        source = (fetched / name).resolve()
        try:
            verify(source, artefact)
        except ChecksumError:
            source.unlink()  # so that the next run downloads it again
            raise
        place = _place(artefact)
        if not place.is_file() or sha256_of(place) != artefact.sha256:
            _appear(source, place)
    _stamp(configuration)


def _appear(source: Path, place: Path) -> None:
    partial = place.with_name(f"{place.name}.{os.getpid()}.partial")
    with contextlib.suppress(FileNotFoundError):
        partial.unlink()
    try:
        partial.hardlink_to(source)  # the same bytes once on disk, in Ivy's cache and here
    except OSError:
        shutil.copyfile(source, partial)
    partial.replace(place)


def _place(artefact: Artefact) -> Path:
    return cache_directory() / "artefacts" / artefact.name


def _stamp_path(configuration: str) -> Path:
    return cache_directory() / "stamps" / f"{configuration}.json"


def _stamp(configuration: str) -> None:
    files = {}
    for artefact in artefacts_of(configuration):
        status = _place(artefact).stat()
        files[artefact.name] = [artefact.sha256, status.st_size, status.st_mtime_ns]
    path = _stamp_path(configuration)
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(f".{os.getpid()}.partial")
    partial.write_text(json.dumps(files), encoding="utf-8")
    partial.replace(path)


def _is_stamped(configuration: str) -> bool:
    """Whether every file is the one whose hash was verified, by its size and mtime."""
    try:
        stamp = json.loads(_stamp_path(configuration).read_text(encoding="utf-8"))
        for artefact in artefacts_of(configuration):
            status = _place(artefact).stat()
            if stamp.get(artefact.name) != [artefact.sha256, status.st_size, status.st_mtime_ns]:
                return False
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return False
    return True


def _stamp_from_files(configuration: str) -> bool:
    """Compute the hashes of files that are there without a valid stamp; remove one that is wrong."""
    if _is_stamped(configuration):
        return True
    complete = True
    for artefact in artefacts_of(configuration):
        place = _place(artefact)
        if not place.is_file():
            complete = False
        elif place.stat().st_size != artefact.size or sha256_of(place) != artefact.sha256:
            place.unlink()
            complete = False
    if complete:
        _stamp(configuration)
    return complete
