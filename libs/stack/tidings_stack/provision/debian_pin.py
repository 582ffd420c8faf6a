"""Pins MySQL's packages anew: which files of Debian's `sid` suite its server needs today.

apt resolves the suite in a state of its own, as for a machine without any package, so the machine's packages do not matter and
stay as they are. Of what the server's package depends on, the list keeps what holds a library that the program loads.

    python -m tidings_stack.provision.debian_pin    write the list anew
    python -m tidings_stack.provision.debian_pin --archive URL --suite noble --server mysql-server-core-8.0 --into DIRECTORY

The second form unpacks another MySQL or MariaDB, such as one of Ubuntu's, for tests by hand; `TIDINGS_STACK_MYSQL_HOME` or
`TIDINGS_STACK_MARIADB_HOME` names it then. The index of that archive is not verified by a signature: use one that you trust.
"""

from __future__ import annotations

import argparse
import re
import shlex
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
COMPONENTS: Final = "main"
PROGRAM: Final = "usr/sbin/mysqld"
KEYRING: Final = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
_PROGRAMS: Final = ("sbin/mariadbd", "bin/my_print_defaults", "bin/resolveip")
_HEADER: Final = (
    "# MySQL's server and the libraries that it loads: packages of Debian's sid suite for amd64.\n"
    f"# SHA-256, bytes, path in the archive. Written by `{PIN_COMMAND}`.\n"
)


def pin_mysql(into: Path = LIST) -> int:
    """Write the list of packages; return how many they are. Raises as `download`, and StackError when apt fails."""
    with tempfile.TemporaryDirectory(prefix="tidings-pin-") as scratch:
        directory = Path(scratch)
        apt = _Apt(directory / "apt", SUITE)
        for archive in archives():
            if apt.update(archive):
                break
        else:
            raise PackagesUnavailableError(f"none of the archives that apt knows has the suite {SUITE}")
        packages = apt.needed(SERVER)
        downloads, contents = directory / "downloads", directory / "contents"
        _unpack(packages, archives(), downloads, contents)
        loaded = _loaded(contents)
        kept = [package for package in packages if _holds(downloads / package.name, loaded)]
    lines = [
        f"{package.sha256} {package.size} {package.path}\n"
        for package in sorted(kept, key=lambda one: one.path)
    ]
    into.write_text(_HEADER + "".join(lines), encoding="ascii")
    return len(kept)


def unpack_other(archive: str, suite: str, components: str, server: str, into: Path) -> int:
    """Unpack a server of another archive with all that it depends on; return how many packages they are. Errors as of `pin_mysql`.

    Args:
        archive: its root, as a URL that ends in a slash.
        into: a directory that is made; it may not be there.
    """
    into.mkdir(parents=True)
    with tempfile.TemporaryDirectory(prefix="tidings-pin-") as scratch:
        apt = _Apt(Path(scratch) / "apt", suite, components)
        if not apt.update(archive):
            raise PackagesUnavailableError(f"the archive has no suite {suite}, or cannot be reached")
        packages = apt.needed(server)
        _unpack(packages, [archive], Path(scratch) / "downloads", into)
    _run_by_own_loader(into)
    return len(packages)


def _run_by_own_loader(contents: Path) -> None:
    """Programs of MariaDB's, which a script of its own starts, run with the C library that came with them."""
    for name in _PROGRAMS:
        program = contents / "usr" / name
        if program.is_file():
            moved = program.rename(program.with_name(f"{program.name}.program"))
            command = " ".join(
                shlex.quote(word) for word in [*loader_of(contents.resolve()), str(moved.resolve())]
            )
            program.write_text(f'#!/bin/sh\nexec {command} "$@"\n', encoding="utf-8")
            program.chmod(0o755)


def _unpack(packages: Sequence[Package], sources: Sequence[str], downloads: Path, contents: Path) -> None:
    for directory in (downloads, contents):
        directory.mkdir(exist_ok=True)
    download(packages, downloads, default_progress(), sources)
    for package in packages:
        _output(["dpkg-deb", "-x", str(downloads / package.name), str(contents)])


class _Apt:
    """apt with one suite and nothing installed."""

    def __init__(self, directory: Path, suite: str, components: str = COMPONENTS) -> None:
        self._suite, self._components = suite, components
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

    def update(self, archive: str) -> bool:
        """Read the suite's index from an archive; whether it has the suite."""
        if self._suite == SUITE:
            trust = f"[signed-by={KEYRING}] " if KEYRING.is_file() else ""
        else:
            trust = "[trusted=yes] "
        self._sources.write_text(f"deb {trust}{archive} {self._suite} {self._components}\n", encoding="ascii")
        command = ["apt-get", *self._options, "-o", "APT::Update::Error-Mode=any", "update"]
        return subprocess.run(command, check=False, capture_output=True).returncode == 0

    def needed(self, servers: str) -> list[Package]:
        """Return packages, whose names have spaces between them, and all that they depend on."""
        printed = _output(["apt-get", *self._options, "install", "--yes", "--print-uris", *servers.split()])
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


def main() -> int:
    """The command; its exit code."""
    parser = argparse.ArgumentParser(prog=PIN_COMMAND, description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--archive", help="the root of an archive other than those that apt knows, as a URL")
    parser.add_argument("--suite", help="of that archive: noble, resolute, ...")
    parser.add_argument("--components", default=COMPONENTS, help='of that suite: "main universe"')
    parser.add_argument(
        "--server",
        default=SERVER,
        help='the server\'s package there, or several: "mariadb-server-core mariadb-client-core"',
    )
    parser.add_argument("--into", type=Path, help="the directory to unpack into; it may not be there")
    given = parser.parse_args()
    if given.archive is None and given.suite is None and given.into is None:
        return run_printing(lambda: f"{LIST}: {pin_mysql()} packages")
    if given.archive is None or given.suite is None or given.into is None:
        parser.error("--archive, --suite and --into belong together")
    archive = given.archive.rstrip("/") + "/"
    return run_printing(
        lambda: (
            f"{given.into}: {unpack_other(archive, given.suite, given.components, given.server, given.into)} packages"
        )
    )


if __name__ == "__main__":
    sys.exit(main())
