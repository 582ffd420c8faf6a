"""The committed list of every file that may be used: `checksums.txt`.

    [kafka]
    <SHA-256>  <size in bytes>  <organisation>/<module>/<revision>/<file name>

A section is a configuration of `ivy.xml`; one for a platform's binaries is `[pg-16 linux-amd64]`. A file name has one
content wherever it occurs. The list also says, without asking anybody, which files a configuration consists of, and by
which coordinates each of them is to be had.
"""

from __future__ import annotations

import functools
import hashlib
import platform
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from tidings_jvm.errors import ChecksumError, FetchError

LIST = Path(__file__).with_name("checksums.txt")
PLATFORMS = ("linux-amd64", "linux-arm64v8", "darwin-amd64", "darwin-arm64v8")
HEADER = """\
# SHA-256, size in bytes, coordinates and name of every file that tidings_jvm fetches, by configuration of ivy.xml.
# Renew with: python -m tidings_jvm record
"""


@dataclass(frozen=True)
class Artefact:
    """A file that `checksums.txt` allows. `size` is in bytes; the coordinates are a Maven repository's."""

    organisation: str
    module: str
    revision: str
    name: str
    size: int
    sha256: str

    @property
    def extension(self) -> str:
        """What the name ends with, as Ivy says it: "jar" or "tar.gz"."""
        return "tar.gz" if self.name.endswith(".tar.gz") else self.name.rpartition(".")[2]

    @property
    def classifier(self) -> str | None:
        """What stands behind module and revision in the name: "exec" of `s3mock-5.2.0-exec.jar`."""
        return (
            self.name.removesuffix(f".{self.extension}").removeprefix(f"{self.module}-{self.revision}")[1:]
            or None
        )


def platform_name() -> str:
    """Return this machine's name in the PostgreSQL binaries' coordinates. Raises FetchError where there are none."""
    machine = {"x86_64": "amd64", "amd64": "amd64", "aarch64": "arm64v8", "arm64": "arm64v8"}.get(
        platform.machine().lower()
    )
    name = f"{sys.platform}-{machine}"
    if name not in PLATFORMS:
        raise FetchError(
            f"there are no PostgreSQL binaries for {sys.platform} on {platform.machine()}",
            hint="use existing servers (TIDINGS_PG, TIDINGS_KAFKA, TIDINGS_REGISTRY) or TIDINGS_STACK=containers",
        )
    return name


def section_of(configuration: str, platform: str | None = None) -> str:
    """Return the section of `checksums.txt` for a configuration on this (or the given) platform."""
    if configuration.startswith("pg-"):
        return f"{configuration} {platform or platform_name()}"
    return configuration


def artefacts_of(configuration: str) -> tuple[Artefact, ...]:
    """Return the files of a configuration on this platform. Raises FetchError for an unknown configuration."""
    sections = _read(LIST)
    found = sections.get(section_of(configuration))
    if found is None and any(name.split()[0] == configuration for name in sections):
        raise FetchError(
            f"{configuration} is not published for {platform_name()}", hint="choose another version"
        )
    if found is None:
        known = sorted({name.split()[0] for name in sections})
        raise FetchError(f"unknown configuration {configuration!r}", hint=f"there are {', '.join(known)}")
    return found


@functools.cache
def _read(path: Path) -> Mapping[str, tuple[Artefact, ...]]:
    sections: dict[str, list[Artefact]] = {}
    current: list[Artefact] = []
    for line in path.read_text(encoding="utf-8").splitlines():
        if line.startswith("["):
            current = sections.setdefault(line.strip("[]"), [])
        elif line and not line.startswith("#"):
            sha256, size, place = line.split()
            organisation, module, revision, name = place.split("/")
            current.append(Artefact(organisation, module, revision, name, int(size), sha256))
    return {name: tuple(artefacts) for name, artefacts in sections.items()}


def write(sections: Mapping[str, Iterable[Artefact]], path: Path = LIST) -> None:
    """Write the list, sections and files sorted, so that a change is a readable diff."""
    lines = [HEADER]
    for name in sorted(sections):
        lines.append(f"[{name}]\n")
        lines += [
            f"{a.sha256}  {a.size}  {a.organisation}/{a.module}/{a.revision}/{a.name}\n"
            for a in sorted(sections[name], key=lambda a: a.name)
        ]
        lines.append("\n")
    path.write_text("".join(lines).rstrip("\n") + "\n", encoding="utf-8")
    _read.cache_clear()


def read_all() -> dict[str, tuple[Artefact, ...]]:
    """Return every section."""
    return dict(_read(LIST))


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of a file in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def verify(path: Path, artefact: Artefact) -> None:
    """Raise ChecksumError unless the file at `path` is exactly `artefact`."""
    size = path.stat().st_size
    if size != artefact.size or sha256_of(path) != artefact.sha256:
        raise ChecksumError(
            f"{artefact.name} is not the file that checksums.txt names (it has {size} bytes, expected {artefact.size})",
            hint="it was not used; try again, and if it stays so, what is between you and the repository changes files",
        )
