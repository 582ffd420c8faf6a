"""The whole stack: what it leaves behind (nothing), and the life of single servers in it."""

from __future__ import annotations

import contextlib
import json
import os
import pwd
import secrets
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from confluent_kafka import Consumer, Producer

from tidings_jvm import SilentProgress, fetch
from tidings_stack import Stack, StackError
from tidings_stack.members import with_requirements
from tidings_stack.ports import accepts
from tidings_stack.postgres import everybody_may_enter
from tidings_stack.provision.protocols import OwnedServer
from tidings_stack.provision.provider import Provider
from tidings_stack.server import wait_for

pytestmark = pytest.mark.stack
LINUX = pytest.mark.skipif(sys.platform != "linux", reason="looks at /proc")

OWNER = """
import json, sys
from tidings_jvm import SilentProgress
from tidings_stack import Stack
with Stack(progress=SilentProgress()) as stack:
    servers = stack.servers.values()
    print(json.dumps({"directory": str(stack.directory), "ports": [server.port for server in servers]}), flush=True)
    sys.stdin.read()
"""


@LINUX
def test_nothing_remains_when_the_owner_is_killed(
    owner: Callable[[str], Any],
    descendants: Callable[[int], set[int]],
    alive: Callable[[int], bool],
) -> None:
    one = owner(OWNER)
    said = one.said
    everything = descendants(one.process.pid)
    assert len(everything) >= 3 * 2 + 5, "a guard and a server each, and PostgreSQL's own processes"
    assert len(said["ports"]) >= 3, "of PostgreSQL, Kafka and the registry"
    assert all(accepts(port) for port in said["ports"])
    one.kill()
    assert wait_for(lambda: not any(alive(pid) for pid in everything), 30)
    assert not any(accepts(port) for port in said["ports"])
    assert not Path(said["directory"]).exists()


@LINUX
def test_every_listener_is_on_loopback(
    stack: Provider, pg_url: str, kafka_bootstrap: str, registry_url: str
) -> None:
    pids = {getattr(server, "pid", None) for server in (stack.pg, stack.kafka, stack.registry)}
    if None in pids:
        pytest.skip("not processes of ours")
    inodes = set()
    for pid in pids:
        for entry in Path(f"/proc/{pid}/fd").iterdir():
            with contextlib.suppress(FileNotFoundError):  # closed meanwhile, as a client's connection is
                kind, _, number = str(entry.readlink()).partition(":")
                if kind == "socket":
                    inodes.add(number.strip("[]"))
    listening = [
        fields[1]
        for table in ("tcp", "tcp6")
        for fields in (line.split() for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:])
        if fields[3] == "0A" and fields[9] in inodes
    ]
    assert len(listening) == 1 + 2 + 2, (
        "PostgreSQL; Kafka's broker and controller; the registry and its management"
    )
    loopback = {"0100007F", "0000000000000000FFFF00000100007F"}
    assert {address.partition(":")[0] for address in listening} <= loopback


def test_a_killed_server_comes_back_on_its_port_with_its_data(pg_server: Callable[..., OwnedServer]) -> None:
    server = pg_server("16")
    url = server.url
    try:
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("CREATE TABLE kept (id int)")
            connection.execute("INSERT INTO kept VALUES (1)")
            server.kill()
            with pytest.raises(psycopg.OperationalError):
                connection.execute("SELECT 1")
        assert not accepts(server.port)
        server.start()
        assert server.url == url
        with psycopg.connect(url) as connection:
            assert connection.execute("SELECT id FROM kept").fetchall() == [(1,)]
        server.stop()
        assert not accepts(server.port)
    finally:
        server.close()


def test_kafka_is_killed_and_keeps_what_it_acknowledged() -> None:
    with Stack(("kafka",), progress=SilentProgress()) as stack:
        producer = Producer({"bootstrap.servers": stack.kafka.bootstrap, "log_level": 0})
        producer.produce("kept", b"value")
        assert producer.flush(30) == 0
        stack.kafka.kill()
        assert stack.kafka.pid is None
        stack.kafka.start()
        assert read_one(stack.kafka.bootstrap) == b"value"


@pytest.fixture
def open_directory() -> Iterator[Path]:
    """A directory that every user may enter; pytest's own are private, and as root PostgreSQL is `nobody`."""
    directory = Path(tempfile.mkdtemp(prefix="tidings-test-"))
    directory.chmod(0o755)
    yield directory
    shutil.rmtree(directory)


@pytest.mark.skipif(os.getuid() != 0, reason="without root PostgreSQL runs as the same user")
def test_a_directory_that_nobody_may_enter_is_named(open_directory: Path) -> None:
    open_directory.chmod(0o700)
    with (
        pytest.raises(StackError, match=f"{open_directory}.* cannot be entered by nobody"),
        Stack(("pg",), directory=open_directory / "kept", progress=SilentProgress()),
    ):
        pass


def test_a_given_directory_is_kept_and_used_again(open_directory: Path) -> None:
    directory = open_directory / "kept"
    rows = None
    for _ in range(2):
        with Stack(("pg",), directory=directory, progress=SilentProgress()) as stack:
            with psycopg.connect(stack.pg.url, autocommit=True) as connection:
                connection.execute("CREATE TABLE IF NOT EXISTS seen (id int)")
                connection.execute("INSERT INTO seen VALUES (1)")
                rows = connection.execute("SELECT count(*) FROM seen").fetchone()
            with pytest.raises(StackError, match="another stack runs in"):
                Stack(("pg",), directory=directory, progress=SilentProgress()).start()
    assert rows == (2,)


def read_one(bootstrap: str) -> bytes | None:
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": secrets.token_hex(4),
            "auto.offset.reset": "earliest",
            "log_level": 0,
        }
    )
    consumer.subscribe(["kept"])
    message = consumer.poll(60)
    consumer.close()
    return None if message is None or message.error() else message.value()


@pytest.mark.parametrize("version", ["14", "15", "17", "18"])
def test_every_version_has_contrib_and_logical_wal(
    version: str, pg_server: Callable[..., OwnedServer]
) -> None:
    server = pg_server(version)
    try:
        with psycopg.connect(server.url, autocommit=True) as connection:
            assert connection.info.server_version // 10000 == int(version)
            for extension in ("hstore", "citext", "ltree", "pgcrypto"):
                connection.execute(f"CREATE EXTENSION {extension}")
            assert connection.execute("SHOW wal_level").fetchone() == ("logical",)
            connection.execute("SELECT pg_create_logical_replication_slot('s', 'pgoutput')")
            connection.execute("CREATE TABLE t (id int PRIMARY KEY)")
            connection.execute("CREATE PUBLICATION p FOR TABLE t")
    finally:
        server.close()


def test_a_server_may_have_settings_of_its_own(pg_server: Callable[..., OwnedServer]) -> None:
    server = pg_server("16", wal_level="replica")
    with psycopg.connect(server.url) as connection:
        assert connection.execute("SHOW wal_level").fetchone() == ("replica",)
    server.close()


def test_a_wrong_password_is_refused(pg_url: str) -> None:
    with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
        psycopg.connect(pg_url.replace("postgres:", "postgres:wrong", 1))


def test_a_server_that_cannot_start_shows_its_log(tmp_path: Path) -> None:
    with pytest.raises(StackError, match=r"PostgreSQL 16 ended with code 1(.|\n)*nonsense"):
        Stack(("pg",), pg_settings={"nonsense": "1"}, progress=SilentProgress()).__enter__()


def test_an_unknown_member_is_named() -> None:
    with pytest.raises(StackError, match="unknown member oracle"):
        with_requirements(["pg", "oracle"])


def test_a_member_that_was_not_asked_for_is_an_error() -> None:
    with pytest.raises(StackError, match="kafka is not a member"):
        Stack(("pg",), progress=SilentProgress()).kafka  # noqa: B018


@LINUX
@pytest.mark.skipif(os.getuid() != 0, reason="changes its user")
def test_it_runs_without_root() -> None:
    """As `nobody`, with a home and a cache of its own."""
    setpriv, python = shutil.which("setpriv"), python_for_everybody()
    if setpriv is None or python is None:
        pytest.skip("needs setpriv and a Python that every user may run")
    program = (
        "import json, os, psycopg\nfrom tidings_jvm import SilentProgress\nfrom tidings_stack import Stack\n"
        "with Stack(('pg',), progress=SilentProgress()) as stack:\n"
        "    psycopg.connect(stack.pg.url).close()\n"
        "    print(json.dumps([os.getuid(), stack.pg.directory.stat().st_uid]))\n"
    )
    home = Path(tempfile.mkdtemp(prefix="tidings-nobody-"))
    try:
        copy_cache("pg-16", home / "cache")
        for path in (home, *home.rglob("*")):
            shutil.chown(path, "nobody")
        done = subprocess.run(
            [setpriv, "--reuid=nobody", "--regid=nogroup", "--clear-groups", python, "-c", program],
            env={
                "PATH": os.environ["PATH"],
                "HOME": str(home),
                "TIDINGS_CACHE": str(home / "cache"),
                "PYTHONPATH": os.pathsep.join(
                    path for path in sys.path if "-packages" in path or "/libs/" in path
                ),
            },
            cwd="/",
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        nobody = pwd.getpwnam("nobody").pw_uid
        assert json.loads(done.stdout) == [nobody, nobody]
    finally:
        shutil.rmtree(home)


def python_for_everybody() -> str | None:
    """A Python of this version whose files every user may read."""
    for candidate in (Path(sys.executable), Path("/usr/bin/python3")):
        version = f"import sys; sys.exit(sys.version_info[:2] != {sys.version_info[:2]!r})"
        if (
            candidate.exists()
            and everybody_may_enter(candidate.resolve().parent)
            and subprocess.run([candidate, "-c", version], check=False).returncode == 0
        ):
            return str(candidate)
    return None


def copy_cache(configuration: str, target: Path) -> None:
    """Copy what is fetched already; without its stamp, so that the hashes are computed again."""
    (target / "artefacts").mkdir(parents=True)
    for path in fetch(configuration):
        shutil.copy(path, target / "artefacts" / path.name)
