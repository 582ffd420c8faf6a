"""Packages of Debian's archive, pinned by hash: apt's own programs against an archive of the test's own."""

import hashlib
import shutil
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tidings_jvm import PlainProgress
from tidings_jvm.errors import ChecksumError
from tidings_stack.errors import PackagesUnavailableError
from tidings_stack.provision import debian
from tidings_stack.provision.debian import Package, archives, download, mysql_packages

pytestmark = pytest.mark.skipif(
    not debian.APT_HELPER.is_file() or shutil.which("dpkg-deb") is None, reason="there is no apt here"
)
CONTENT = b"a package"


class Quiet(SimpleHTTPRequestHandler):
    """Serves files and logs nothing."""

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The directory of the only archive that apt knows, which lives until the fixture's end."""
    root = tmp_path / "archive"
    (root / "pool").mkdir(parents=True)
    (root / "pool" / "one_1+2_amd64.deb").write_bytes(CONTENT)
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(root))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        sources = tmp_path / "sources.list"
        sources.write_text(f"deb http://127.0.0.1:{server.server_port}/ stable main\n", encoding="ascii")
        configuration = tmp_path / "apt.conf"
        configuration.write_text(
            f'Dir::Etc::sourcelist "{sources}";\nDir::Etc::sourceparts "/dev/null";\nAcquire::http::Proxy "DIRECT";\n',
            encoding="ascii",
        )
        monkeypatch.setenv("APT_CONFIG", str(configuration))
        yield root
        server.shutdown()


def one(content: bytes = CONTENT, name: str = "one_1+2_amd64.deb") -> Package:
    return Package(f"pool/{name}", len(content), hashlib.sha256(content).hexdigest())


def fetched(packages: list[Package], into: Path) -> list[Path]:
    into.mkdir()
    download(packages, into, PlainProgress(lambda _: None))
    return sorted(into.iterdir())


@pytest.mark.usefixtures("archive")
def test_a_listed_file_comes_from_the_archive_that_apt_knows(tmp_path: Path) -> None:
    assert archives()[0].startswith("http://127.0.0.1:")
    (file,) = fetched([one()], tmp_path / "into")
    assert file.read_bytes() == CONTENT


@pytest.mark.usefixtures("archive")
def test_a_file_that_the_archive_no_longer_has_is_unavailable_with_the_way_out(tmp_path: Path) -> None:
    with pytest.raises(PackagesUnavailableError, match=r"no longer has two_3_amd64\.deb") as error:
        fetched([one(), one(name="two_3_amd64.deb")], tmp_path / "into")
    assert error.value.hint is not None
    assert debian.PIN_COMMAND in error.value.hint


@pytest.mark.usefixtures("archive")
def test_another_file_than_the_listed_one_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ChecksumError, match="not the listed file"):
        fetched([one(b"something")], tmp_path / "into")


def test_an_archive_that_does_not_answer_is_unavailable(archive: Path, tmp_path: Path) -> None:
    sources = tmp_path / "sources.list"
    sources.write_text("deb http://127.0.0.1:9/ stable main\n", encoding="ascii")
    assert archive.is_dir()
    with pytest.raises(PackagesUnavailableError, match="cannot be fetched"):
        fetched([one()], tmp_path / "into")


def test_a_machine_without_apt_is_told_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(debian, "APT_HELPER", tmp_path / "nothing")
    with pytest.raises(PackagesUnavailableError, match="no apt"):
        archives()


def test_the_list_names_the_server_once_and_each_file_by_a_whole_hash() -> None:
    packages = mysql_packages()
    assert len([p for p in packages if p.name.startswith("mysql-server-core_")]) == 1
    assert {len(package.sha256) for package in packages} == {64}
    assert all(package.path.startswith("pool/") for package in packages)
