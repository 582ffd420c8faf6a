"""Programs from Debian's packages, pinned by hash, unpacked beside the machine's own without root.

The archive is the one that the machine's apt knows, and apt's own downloader fetches from it, so proxies and mirrors are apt's.
A list beside this module (`mysql_packages.txt`) names each package's file in the archive, its size and its SHA-256. A package
of the `sid` suite is replaced there when a newer one comes; then the list has to be made anew.

    python -m tidings_stack.provision               unpack what is listed, where it is not yet
    python -m tidings_stack.provision.debian_pin    write the list anew, from what the suite has today
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Final

from tidings_jvm import Progress, default_progress
from tidings_jvm.cache import cache_directory, locked
from tidings_jvm.errors import ChecksumError
from tidings_stack.errors import PackagesUnavailableError, StackError

LIST: Final = Path(__file__).with_name("mysql_packages.txt")
PIN_COMMAND: Final = "python -m tidings_stack.provision.debian_pin"
APT_HELPER: Final = Path("/usr/lib/apt/apt-helper")
DOWNLOAD_SECONDS: Final = 600.0
_LOADER: Final = "ld-linux-x86-64.so.2"
_APT_OPTIONS: Final = ("-o", "Acquire::Retries=2", "-o", "Acquire::http::Timeout=30", "-o", "Dpkg::Use-Pty=0")


@dataclass(frozen=True)
class Package:
    """A file of the archive: its path below the archive's root, its bytes, its SHA-256 in hexadecimal."""

    path: str
    size: int
    sha256: str

    @property
    def name(self) -> str:
        """The file's name."""
        return PurePosixPath(self.path).name


def mysql_packages() -> list[Package]:
    """Return what `mysql_packages.txt` lists: MySQL's server and the libraries that it loads."""
    lines = LIST.read_text(encoding="ascii").splitlines()
    fields = [line.split() for line in lines if line and not line.startswith("#")]
    return [Package(path, int(size), sha256) for sha256, size, path in fields]


def unpacked_mysql(progress: Progress | None = None) -> Path:
    """Return the directory that MySQL's packages are unpacked in, after fetching them if they are not there.

    Raises:
        PackagesUnavailableError: this machine has no apt, its archive cannot be reached, or it no longer has a listed file.
        ChecksumError: a file of the archive is not the listed one.
    """
    packages = mysql_packages()
    pinned = hashlib.sha256(LIST.read_bytes()).hexdigest()[:12]
    target = cache_directory() / "unpacked" / f"mysql-{pinned}"
    if target.is_dir():
        return target
    if not (sys.platform == "linux" and os.uname().machine == "x86_64"):
        raise PackagesUnavailableError("MySQL's packages are pinned for Linux on x86-64 only")
    shown = progress or default_progress()

    def waiting() -> None:
        shown.say("Waiting for another process that is fetching MySQL ...")

    with locked(cache_directory() / "locks" / "mysql.lock", waiting=waiting):
        if not target.is_dir():
            _unpack_into(target, packages, shown)
    return target


def _unpack_into(target: Path, packages: Sequence[Package], progress: Progress) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(prefix="mysql-", dir=target.parent))
    try:
        downloads, contents = scratch / "downloads", scratch / "contents"
        downloads.mkdir()
        contents.mkdir()
        download(packages, downloads, progress)
        for package in packages:
            _run(["dpkg-deb", "-x", str(downloads / package.name), str(contents)], DOWNLOAD_SECONDS)
        contents.rename(target)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def download(
    packages: Sequence[Package], into: Path, progress: Progress, sources: Sequence[str] | None = None
) -> None:
    """Fetch packages into a directory, each verified. Errors as for `unpacked_mysql`.

    Args:
        sources: the roots of archives; None: those that apt knows.
    """
    errors: list[str] = []
    with progress.task("Downloading MySQL's packages", sum(package.size for package in packages)) as task:
        missing = list(packages)
        for archive in archives() if sources is None else sources:
            errors += _download_from(archive, missing, into)
            task.advance(sum(package.size for package in missing if (into / package.name).is_file()))
            missing = [package for package in missing if not (into / package.name).is_file()]
            if not missing:
                break
        else:
            raise _unavailable(missing, errors)
    for package in packages:
        _verify(into / package.name, package)


def _unavailable(missing: Sequence[Package], errors: Sequence[str]) -> PackagesUnavailableError:
    unreached = next((error for error in errors if "404" not in error), None)
    if unreached is not None:
        return PackagesUnavailableError(f"Debian's packages of MySQL cannot be fetched: {unreached}")
    more = f" and {len(missing) - 1} more" if missing[1:] else ""
    return PackagesUnavailableError(
        f"Debian's archive no longer has {missing[0].name}{more}", hint=f"pin what it has now: {PIN_COMMAND}"
    )


def _download_from(archive: str, packages: Sequence[Package], into: Path) -> list[str]:
    """Fetch what an archive has of `packages`; return apt's errors, one for a file that did not come."""
    wanted = [
        word
        for package in packages
        for word in (f"{archive}{package.path}", str(into / package.name), f"SHA256:{package.sha256}")
    ]
    done = _run([str(APT_HELPER), *_APT_OPTIONS, "download-file", *wanted], DOWNLOAD_SECONDS, may_fail=True)
    errors = [line[3:].strip() for line in done.stderr.splitlines() if line.startswith("E: ")]
    if any("Hash Sum mismatch" in error for error in errors):
        raise ChecksumError(
            "a package of MySQL is not the listed file (Hash Sum mismatch)",
            hint="a proxy may have changed it; try again, or pin anew: " + PIN_COMMAND,
        )
    return [error for error in errors if "Download Failed" not in error]


def _verify(file: Path, package: Package) -> None:
    digest = hashlib.sha256(file.read_bytes()).hexdigest()
    if digest != package.sha256:
        raise ChecksumError(
            f"{package.name} has the SHA-256 {digest}, not {package.sha256}",
            hint="a proxy may have changed it; try again, or pin anew: " + PIN_COMMAND,
        )


def loader_of(unpacked: Path) -> list[str]:
    """Return the command before a program of unpacked packages: their dynamic loader, with their libraries only."""
    folders = [unpacked / place / "x86_64-linux-gnu" for place in ("usr/lib", "lib")]  # older ones have both
    loader = next((one for f in folders if (one := f / _LOADER).is_file()), folders[0] / _LOADER)
    return [str(loader), "--library-path", ":".join(str(folder) for folder in folders if folder.is_dir())]


def archives() -> list[str]:
    """Return the roots of the archives that the machine's apt knows, as URLs that end in a slash, in apt's order.

    They need not have been updated yet. Raises PackagesUnavailableError where there is no apt, or where it knows none.
    """
    if not APT_HELPER.is_file() or shutil.which("dpkg-deb") is None or shutil.which("apt-get") is None:
        raise PackagesUnavailableError(
            "MySQL comes from Debian's packages, and this machine has no apt",
            hint="run it on Debian or a derivative of it",
        )
    with tempfile.TemporaryDirectory(prefix="tidings-apt-") as empty:
        listed = _run(["apt-get", "-o", f"Dir::State::lists={empty}", "--print-uris", "update"], 60.0).stdout
    found: dict[str, None] = {}
    for line in listed.splitlines():
        address, quote, _ = line.removeprefix("'").partition("'")
        root, releases, _ = address.partition("/dists/")
        if quote and releases:
            found[f"{root}/"] = None
    if not found:
        raise PackagesUnavailableError("MySQL comes from Debian's packages, and apt knows no archive here")
    return list(found)


def _run(
    command: Sequence[str], seconds: float, *, may_fail: bool = False
) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "LC_ALL": "C"}
    try:
        done = subprocess.run(
            command,
            check=False,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=seconds,
            env=environment,
        )
    except subprocess.TimeoutExpired as error:
        raise PackagesUnavailableError(f"{command[0]} did not end within {seconds:.0f} s") from error
    if done.returncode and not may_fail:
        raise StackError(f"{' '.join(command[:3])} failed: {(done.stderr or done.stdout).strip()[-500:]}")
    return done


def run_printing(work: Callable[[], object]) -> int:
    """Print what `work` returns. The exit code: 3 when MySQL is not to be had here, for a reason that is printed; 1 on an error."""
    try:
        print(work())
    except PackagesUnavailableError as error:
        print(
            f"{error}: tests of MySQL are skipped" + (f" ({error.hint})" if error.hint else ""),
            file=sys.stderr,
        )
        return 3
    except (StackError, ChecksumError) as error:
        print(f"{error}" + (f" ({error.hint})" if error.hint else ""), file=sys.stderr)
        return 1
    return 0
