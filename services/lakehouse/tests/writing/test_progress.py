"""How far a table is stands in its own commit: a start reads no rows, whatever has happened to snapshots and files since."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tidings_lakehouse.maintaining.maintenance import Maintenance
from tidings_lakehouse.tables.commits import Commits
from tidings_lakehouse.tables.snapshots import PROGRESS_PROPERTY

if TYPE_CHECKING:
    from lakelab.lake import Lake
    from lakelab.topics import TableTopic
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.stack]


def row(number: int) -> dict[str, Any]:
    return {
        "id": number,
        **dict.fromkeys(("status", "note", "amount", "required_on", "ordered_at", "updated_at")),
    }


def counted(lake: Lake, orders: TableTopic) -> list[tuple[Any, ...]]:
    return lake.rows(f"select count(*), count(distinct offset) from {orders.table}_log")


def maintenance(session: SparkSession, *, keep_seconds: float) -> Maintenance:
    return Maintenance(session, Commits(session), commits=1, keep_snapshots=1, keep_seconds=keep_seconds)


def test_a_start_reads_no_rows_of_a_log(
    lake: Lake, orders: TableTopic, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also when the snapshot that the progress is of has been compacted away and has expired, and the checkpoint is lost."""
    log = f"{orders.table}_log"
    for number in (1, 2):
        orders.change("c", row(number), 10, 20 + number)
        orders.topics.flush()
        lake.drain()
    orders.truncate(25, 30)
    orders.topics.flush()
    lake.drain()
    maintenance(lake.session, keep_seconds=3600).compact(log)
    assert lake.rows(f"select count(*) > 3 from {log}.snapshots") == [(True,)]  # whoever reads has time
    maintenance(lake.session, keep_seconds=0).compact(log)
    assert lake.rows(f"select count(*) from {log}.snapshots") == [(1,)]

    def refuse(*_: Any) -> None:
        pytest.fail("rows of the log are read")

    monkeypatch.setattr("tidings_lakehouse.writing.targets.held_rows", refuse)
    lake.forget()
    orders.change("c", row(3), 35, 40)
    orders.topics.flush()
    lake.settings = lake.settings.model_copy(update={"lakehouse_max_records": 2})
    with monkeypatch.context() as patched:  # late rows are compared with the deletes in the log
        patched.setattr("tidings_lakehouse.writing.targets.held_rows", refuse)
        lake.drain()
    assert counted(lake, orders) == [(4, 4)]
    assert lake.rows(f"select id from {orders.table}") == [(3,)]


@pytest.mark.long
def test_progress_of_a_former_release_or_of_somebody_else_is_read_from_the_rows(
    lake: Lake, orders: TableTopic
) -> None:
    """An older job that has appended since does not know the note, and one from before it has left none."""
    log = f"{orders.table}_log"
    orders.change("c", row(1), 10, 20)
    orders.topics.flush()
    lake.drain()
    lake.rows(
        f"alter table {orders.table} set tblproperties ('write.merge.distribution-mode' = 'none',"
        " 'write.delete.distribution-mode' = 'none')"
    )
    orders.change("c", row(2), 25, 30)
    orders.topics.flush()
    lake.rows(
        f"insert into {log} select * except (offset), 1 as offset from {log}".replace(
            "* except (offset), 1 as offset",
            ", ".join("1" if name == "offset" else f"`{name}`" for name in lake.session.table(log).columns),
        )
    )
    assert Commits(lake.session).noted(log) == {}
    lake.drain()
    assert counted(lake, orders) == [(2, 2)]
    lake.rows(f"alter table {log} unset tblproperties ('{PROGRESS_PROPERTY}')")
    orders.change("c", row(3), 35, 40)
    orders.topics.flush()
    lake.forget()
    lake.drain()
    assert counted(lake, orders) == [(3, 3)]
    assert lake.rows(f"select id from {orders.table} order by id") == [(1,), (2,), (3,)]
    assert max(Commits(lake.session).noted(log)["log"]["offsets"].values()) == 2
    modes = {
        Commits(lake.session).property(orders.table, f"write.{kind}.distribution-mode")
        for kind in ("merge", "delete")
    }
    assert modes == {"hash"}
