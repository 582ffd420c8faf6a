"""What whoever may send a signal, or name a file of signals, must not be able to do: to files and to databases."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tidings_capture.cdc.signals.file import MOST_BYTES, SignalFile
from tidings_capture.cdc.sql_fragment import enclosed, enclosed_mariadb
from tidings_connect.errors import ConnectError
from tidings_connect.limits import ConnectorLimits, limited
from tidings_stack.capture import CaptureWorker as Worker

PLUGIN = "/connector-plugins/io.debezium.connector.postgresql.PostgresConnector/config/validate"


def errors_of(answer: tuple[int, dict[str, Any]]) -> dict[str, list[str]]:
    status, body = answer
    assert status == 200, body
    return {c["value"]["name"]: c["value"]["errors"] for c in body["configs"] if c["value"]["errors"]}


# Files


def test_signals_come_from_a_file_where_the_worker_lets_it_be(
    worker: Worker, connector_config: dict[str, str], tmp_path: Path
) -> None:
    def problem(file: str) -> list[str] | None:
        config = connector_config | {"signal.enabled.channels": "file", "signal.file": file}
        return errors_of(worker.request("PUT", PLUGIN, config)).get("signal.file")

    assert problem(str(tmp_path / "signals")) is None
    for outside in ("/etc/passwd", "/dev/zero", f"{tmp_path}/../../../signals", "../signals", "."):
        (text,) = problem(outside) or [""]
        assert "tidings.signal.directory" in text, outside
    with limited(ConnectorLimits()), pytest.raises(ConnectError, match=r"tidings\.signal\.directory"):
        SignalFile(str(tmp_path / "signals"))


def test_a_signal_file_is_a_regular_file_of_bounded_size(tmp_path: Path) -> None:
    with limited(ConnectorLimits(signal_directory=str(tmp_path))):
        target = tmp_path / "target"
        target.write_text("precious\n")
        (tmp_path / "link").symlink_to(target)
        (tmp_path / "hard").hardlink_to(target)
        os.mkfifo(tmp_path / "fifo")
        (tmp_path / "out").symlink_to("/dev")
        for name in ("link", "hard", "fifo"):
            file = SignalFile(name)
            with pytest.raises(ConnectError, match=r"signal\.file"):
                file.lines()
            with pytest.raises(ConnectError, match=r"signal\.file"):
                SignalFile("out/zero")
        assert target.read_text() == "precious\n"
        large = SignalFile("large")
        (tmp_path / "large").write_bytes(b"x" * MOST_BYTES + b"\n")
        with pytest.raises(ConnectError, match=str(MOST_BYTES)):
            large.lines()
        large.take()
        assert (tmp_path / "large").stat().st_size == MOST_BYTES + 1
        with pytest.raises(ConnectError, match="regular file"):
            _device_file().lines()


def _device_file() -> SignalFile:
    with limited(ConnectorLimits(signal_directory="/dev")):
        return SignalFile("zero")


# SQL


def test_a_filter_stays_within_its_parentheses() -> None:
    for text, kept in (
        ("a = 1 -- why", "a = 1"),
        ("a = ';)' AND b = $x$ ;) $x$ /* ) /* ; */ */ ;", "a = ';)' AND b = $x$ ;) $x$"),
        ("\"a)\" = E'\\n' AND c[1] IN (SELECT 1)", "\"a)\" = E'\\n' AND c[1] IN (SELECT 1)"),
    ):
        assert enclosed(text).strip() == kept
    for text in (
        "1=1; DROP TABLE a",
        "true) TO PROGRAM 'x' --",
        "true) UNION ALL SELECT 1 FROM (b",
        "a = 'x",
        "a = E'\\' ) --'",
        "a /* b",
        "$a$ b $$",
        "€$$ ) TO PROGRAM 'x' --$$",
        "(a",
        "a]",
    ):
        with pytest.raises(ValueError, match=r"holds|leaves|closes"):
            enclosed(text)


def test_a_filter_for_mariadb_stays_within_its_parentheses_too() -> None:
    for text, kept in (
        ("a = 1 -- why\n AND # ) why\n b = 2;", "a = 1  \n AND  \n b = 2"),
        ("`a'` = ';)' AND b = \"it's )\" /* ) */ AND c = ''", "`a'` = ';)' AND b = \"it's )\"   AND c = ''"),
        ("a--1 > 0 AND $$ = 1 AND `b``` = (2)", "a--1 > 0 AND $$ = 1 AND `b``` = (2)"),
    ):
        assert enclosed_mariadb(text).strip() == kept
    for text in (
        "1=1; DROP TABLE a",
        "true) UNION ALL SELECT 1 FROM (b",
        "`'` ) OR (`'`",
        "$$ ) OR ( $$ = 1 ; SELECT $$",
        "a # (\n )",
        "a -- (\n )",
        "'a\\' ) OR ('",
        "a /*!50000 ) */",
        "a /*M! ) */",
        "a /* /* */ ) */",
        "a /* b",
        "`a",
        "(a",
        "a]",
    ):
        with pytest.raises(ValueError, match=r"holds|leaves|closes"):
            enclosed_mariadb(text)


@pytest.mark.parametrize("kind", ["incremental", "blocking"])
def test_a_signals_filter_runs_no_statement_of_its_own(
    worker: Worker,
    create: Callable[..., str],
    connector_config: dict[str, str],
    sql: Callable[..., list[tuple[Any, ...]]],
    wait_until: Callable[..., Any],
    kind: str,
) -> None:
    sql("CREATE TABLE a (id int PRIMARY KEY)", "INSERT INTO a VALUES (1)", "CREATE TABLE victim (id int)")
    sql("CREATE SEQUENCE s", "CREATE TABLE signals (id text PRIMARY KEY, type text, data text)")
    notes = f"{connector_config['topic.prefix']}.notes"
    name = create(
        connector_config
        | {
            "snapshot.mode": "no_data",
            "table.include.list": "public.a",
            "signal.data.collection": "public.signals",
            "notification.enabled.channels": "sink",
            "notification.sink.topic.name": notes,
        }
    )
    select = "SELECT * FROM public.a WHERE " if kind == "blocking" else ""
    filters = (
        f"{select}true) TO STDOUT; DROP TABLE victim; --",
        f"{select}true; DROP TABLE victim",
        f"{select}nextval('s') > 0",
        f"{select}set_config('search_path', 'evil', false) IS NOT NULL",
    )
    for text in filters:
        condition = {"data-collection": "public.a", "filter": text}
        data = {"data-collections": ["public.a"], "type": kind, "additional-conditions": [condition]}
        asked = {"type": "execute-snapshot", "data": data}
        assert worker.request("POST", f"/connectors/{name}/signals", asked)[0] == 202
    done = {"type": "log", "data": {"message": f"all of {name}"}}
    assert worker.request("POST", f"/connectors/{name}/signals", done)[0] == 202
    wait_until("the signals", lambda: f"all of {name}" in worker.log.read_text())
    assert sql("SELECT count(*) FROM victim") == [(0,)]
    assert sql("SELECT is_called FROM s") == [(False,)]
    assert worker.task(name)["state"] == "RUNNING"
