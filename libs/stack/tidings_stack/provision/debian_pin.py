"""Pins MySQL's packages anew: which files of Debian's `sid` suite its server needs today.

apt resolves the suite in a state of its own, as for a machine without any package, so the machine's packages do not matter and
stay as they are. Of what the server's package depends on, the list keeps what holds a library that the program loads.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from tidings_jvm import default_progress
from tidings_stack.errors import PackagesUnavailableError, StackError
from tidings_stack.provision.debian import (
    LIST,
    PIN_COMMAND,
    Package,
    archives,
    download,
    loader_of,
    run_printing,
)

SUITE: Final = "sid"
SERVER: Final = "mysql-server-core"
PROGRAM: Final = "usr/sbin/mysqld"
KEYRING: Final = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
_HEADER: Final = (
    "# MySQL's server and the libraries that it loads: packages of Debian's sid suite for amd64.\n"
    f"# SHA-256, bytes, path in the archive. Written by `{PIN_COMMAND}`.\n"
)


def pin_mysql(into: Path = LIST) -> int:
    """Write the list of packages; return how many they are. Raises as `download`, and StackError when apt fails."""
    with tempfile.TemporaryDirectory(prefix="tidings-pin-") as scratch:
        directory = Path(scratch)
        apt = _Apt(directory / "apt")
        apt.update()
        packages = apt.needed()
        downloads, contents = directory / "downloads", directory / "contents"
        downloads.mkdir()
        contents.mkdir()
        download(packages, downloads, default_progress())
        for package in packages:
            _output(["dpkg-deb", "-x", str(downloads / package.name), str(contents)])
        loaded = _loaded(contents)
        kept = [package for package in packages if _holds(downloads / package.name, loaded)]
    lines = [
        f"{package.sha256} {package.size} {package.path}\n"
        for package in sorted(kept, key=lambda one: one.path)
    ]
    into.write_text(_HEADER + "".join(lines), encoding="ascii")
    return len(kept)


class _Apt:
    """apt with one suite and nothing installed."""

    def __init__(self, directory: Path) -> None:
        (directory / "lists" / "partial").mkdir(parents=True)
        (directory / "cache" / "archives" / "partial").mkdir(parents=True)
        (directory / "status").touch()
        self._sources = directory / "sources.list"
        self._options = [
            *("-o", f"Dir::State={directory}"),
            *("-o", f"Dir::State::lists={directory / 'lists'}"),
            *("-o", f"Dir::State::status={directory / 'status'}"),
            *("-o", f"Dir::Cache={directory / 'cache'}"),
            *("-o", f"Dir::Etc::sourcelist={self._sources}"),
            *("-o", "Dir::Etc::sourceparts=/dev/null"),
            *("-o", "APT::Architecture=amd64"),
            *("-o", "APT::Install-Recommends=false"),
        ]

    def update(self) -> None:
        """Read the suite's index from the first archive that has the suite."""
        signed = f"[signed-by={KEYRING}] " if KEYRING.is_file() else ""
        for archive in archives():
            self._sources.write_text(f"deb {signed}{archive} {SUITE} main\n", encoding="ascii")
            command = ["apt-get", *self._options, "-o", "APT::Update::Error-Mode=any", "update"]
            if subprocess.run(command, check=False, capture_output=True).returncode == 0:
                return
        raise PackagesUnavailableError(f"none of the archives that apt knows has the suite {SUITE}")

    def needed(self) -> list[Package]:
        """Return the server's package and all that it depends on."""
        printed = _output(["apt-get", *self._options, "install", "--yes", "--print-uris", SERVER])
        names = re.findall(r"^'[^']+' ([^_\s]+)_\S+\.deb ", printed, re.MULTILINE)
        shown = _output(["apt-cache", *self._options, "show", "--no-all-versions", *names])
        return [_package(paragraph) for paragraph in shown.strip().split("\n\n")]


def _package(paragraph: str) -> Package:
    fields = dict(re.findall(r"^(Filename|Size|SHA256): (\S+)$", paragraph, re.MULTILINE))
    return Package(fields["Filename"], int(fields["Size"]), fields["SHA256"])


def _loaded(contents: Path) -> set[str]:
    """The names of the files that the server loads, and its own."""
    listed = _output([*loader_of(contents), "--list", str(contents / PROGRAM)])
    found = set(re.findall(r"=> \S*/([^/\s]+) \(", listed))
    if "not found" in listed or not found:
        raise StackError(f"the packages lack a library of {PROGRAM}:\n{listed}")
    return {*found, Path(PROGRAM).name}


def _holds(archive: Path, names: Iterable[str]) -> bool:
    files = _output(["dpkg-deb", "-c", str(archive)])
    held = {re.sub(r" -> .*", "", line).rpartition("/")[2] for line in files.splitlines()}
    return not held.isdisjoint(names)


def _output(command: Sequence[str]) -> str:
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if done.returncode:
        raise StackError(f"{command[0]} failed: {done.stderr.strip()[-500:]}")
    return done.stdout


if __name__ == "__main__":
    sys.exit(run_printing(lambda: f"{LIST}: {pin_mysql()} packages"))
