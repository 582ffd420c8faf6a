"""Archives of classes: what a JVM has loaded once, the next ones of the same kind map into their memory (CDS).

Half of what a JVM does in its first seconds is to read, check and link classes. `TIDINGS_JVM_CLASSES=record` makes each JVM
write what it has loaded when it ends; `keep_recorded` gives it to those that start later. The JVM itself compares the jars'
paths, sizes and times with the archive's, and does without it when one has changed, so an archive can be out of date but
never wrong. https://docs.oracle.com/en/java/javase/17/vm/class-data-sharing.html
"""

from __future__ import annotations

import hashlib
import os
import secrets
import sys
from pathlib import Path

from tidings_jvm.cache import cache_directory
from tidings_jvm.java import Java

VARIABLE = "TIDINGS_JVM_CLASSES"
RECORD = "record"
_QUIET = "-Xlog:cds*=off"  # it would say on standard output that an archive does not fit
_UNFINISHED = bytes(4)  # a JVM writes the beginning of the file last


def class_data_options(java: Java, kind: str) -> list[str]:
    """Return a JVM's options for the archive of its kind: to use it where there is one, to write it, or none.

    Args:
        java: what is started; pip's Java lacks the archive of Java's own classes, which others build upon.
        kind: a name for the JVMs that have the same class path.
    """
    if not has_own_archive(java):
        return []
    directory = archive_directory(java)
    if records_classes():
        directory.mkdir(parents=True, exist_ok=True)
        return [f"-XX:ArchiveClassesAtExit={directory}/{kind}.{secrets.token_hex(4)}.recorded", _QUIET]
    archive = directory / f"{kind}.jsa"
    return [f"-XX:SharedArchiveFile={archive}", _QUIET] if archive.is_file() else []


def records_classes() -> bool:
    """Whether JVMs write archives when they end, which takes them up to half a minute."""
    return os.environ.get(VARIABLE) == RECORD


def archive_directory(java: Java) -> Path:
    """Where archives are: for each Java and each Python environment, whose paths are part of them."""
    of = f"{java.path.resolve()}\n{sys.prefix}"
    return cache_directory() / "classes" / hashlib.sha256(of.encode()).hexdigest()[:16]


def keep_recorded(java: Java) -> list[str]:
    """Put what was recorded in place, of each kind the largest that is whole; return the kinds."""
    found: dict[str, list[Path]] = {}
    for file in archive_directory(java).glob("*.recorded"):
        found.setdefault(file.name.partition(".")[0], []).append(file)
    kept = []
    for kind, files in found.items():
        whole = sorted((file for file in files if _is_whole(file)), key=lambda file: file.stat().st_size)
        if whole:
            whole.pop().replace(archive_directory(java) / f"{kind}.jsa")
            kept.append(kind)
    for file in archive_directory(java).glob("*.recorded"):
        file.unlink()
    return sorted(kept)


def _is_whole(file: Path) -> bool:
    with file.open("rb") as opened:
        return opened.read(len(_UNFINISHED)) not in {_UNFINISHED, b""}


def has_own_archive(java: Java) -> bool:
    """Whether a Java brings an archive of its own classes, without which there are no others."""
    return (java.path.resolve().parent.parent / "lib" / "server" / "classes.jsa").is_file()
