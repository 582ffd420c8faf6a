"""Tables by other partitions and sort orders than new ones have, also such as are changed later."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from lakelab.rows import order

from tidings_lakehouse.layout_rules import Layout, Partition, layout_of, layout_rules
from tidings_lakehouse.maintaining.maintenance import Maintenance
from tidings_lakehouse.tables.commits import Commits

if TYPE_CHECKING:
    from lakelab.lake import Lake
    from lakelab.topics import TableTopic, Topics


@pytest.mark.parametrize(
    "text",
    ["a", "a=", "=day", "a=bucket", "a=bucket(0)", "a=bucket(x)", "a=week(b", "(=day", "a=day sort", "a=day sort b sort c", "a=a b",
     "a=none, day", "a=day sort b(c)"],
)  # fmt: skip
def test_a_rule_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"is not"):
        layout_rules(text)


def test_the_first_rule_that_names_a_table_counts() -> None:
    rules = layout_rules(
        r"technical\.a=bucket(16), day(made_at) sort b, c; technical\..*_log=month ;t=none sort none;.*=sort id"
    )
    assert layout_of(rules, "technical.a") == Layout(
        (Partition("bucket", None, 16), Partition("day", "made_at")), ("b", "c")
    )
    assert layout_of(rules, "technical.b_log") == Layout((Partition("month"),))
    assert layout_of(rules, "t") == Layout((), ())
    assert layout_of(rules, "u") == Layout(None, ("id",))
    assert layout_of(rules[:3], "u") == Layout()


def laid_out(lake: Lake, table: TableTopic, current: str, log: str, *, small: bool) -> None:
    """Write what is on the topics as a job would that has begun with these layouts."""
    rules = f"{table.table}_log={log};{table.table}={current}" if current else ""
    update = {"lakehouse_layout": rules, "lakehouse_small_records": 10_000 if small else 0}
    lake.settings = lake.settings.model_copy(update=update)
    table.topics.flush()
    lake.drain()


def specs(lake: Lake, table: str) -> dict[int, set[Any]]:
    """Partitions of the data files by the number of the layout that they have."""
    found: dict[int, set[Any]] = {}
    for row in lake.session.table(f"{table}.files").where("content = 0").collect():
        values = row.asDict().get("partition")
        found.setdefault(row["spec_id"], set()).add(values)
    return found


@pytest.mark.turns
@pytest.mark.spark
@pytest.mark.stack
@pytest.mark.timeout(600)
def test_a_layout_is_changed_without_loss(lake: Lake, topics: Topics, unique_name: str) -> None:
    table = topics.table(f"{unique_name}.public.y_{unique_name}")
    state, log = table.table, f"{table.table}_log"
    expected = {}

    def write(op: str, numbers: range, at: int) -> None:
        for number in numbers:
            table.change(op, order(number, f"at {at}"), at, at + number + 1)
            expected[number] = f"at {at}"
            if op == "d":
                del expected[number]

    def check() -> None:
        assert dict(lake.rows(f"select id, note from {state}")) == expected
        assert lake.rows(f"select count(*) from {state}") == [(len(expected),)]
        assert lake.rows(f"select count(*) - count(distinct offset) from {log}") == [(0,)]

    write("c", range(20), 100)
    laid_out(lake, table, "", "", small=True)
    for turn, (current, of_log, small) in enumerate(
        [
            ("bucket(4)", "month", True),
            ("bucket(8) sort none", "day", False),
            ("bucket(8) sort id", "none", True),
        ]
    ):
        at = 200 + 100 * turn
        write("u", range(turn, 20, 3), at)
        write("d", range(18 - turn, 19 - turn), at + 40)
        laid_out(lake, table, current, of_log, small=small)
        check()
    held = specs(lake, state)
    assert len(held) == 3  # files of no layout, of four buckets, and of eight
    assert len(held[max(held)]) > 4
    logged = specs(lake, log)
    assert len(logged) == 3
    maintenance = Maintenance(
        lake.session, Commits(lake.session), commits=1, keep_snapshots=1, keep_seconds=0
    )
    maintenance.compact(state)
    check()
    assert list(specs(lake, state)) == [max(held)]
    placed = lake.rows(f"select _file, id from {state} order by _file, _pos")
    assert placed == sorted(placed)
    write("u", range(3), 600)
    laid_out(lake, table, "bucket(2, nothing)", "none", small=True)
    (reason,) = lake.rows(f"select reason from tidings.set_aside where topic = '{table.topic}'")[0]
    assert reason.startswith(f"TIDINGS_LAKEHOUSE_LAYOUT: {state} cannot be laid out")
    assert "nothing" in reason
    laid_out(lake, table, "none", "none", small=False)
    check()


def test_a_new_table_that_lacks_a_column_of_its_layout_is_set_aside_by_name(
    lake: Lake, topics: Topics, unique_name: str
) -> None:
    table = topics.table(f"{unique_name}.public.new_{unique_name}")
    table.change("c", order(1), 10, 11)
    topics.flush()
    lake.settings = lake.settings.model_copy(
        update={"lakehouse_layout": rf"technical\.new_{unique_name}.*=bucket(2, nothing)"}
    )
    lake.drain()
    (reason,) = lake.rows(f"select reason from tidings.set_aside where topic = '{table.topic}'")[0]
    assert reason.startswith("TIDINGS_LAKEHOUSE_LAYOUT: technical.new_")
    assert "nothing" in reason
    lake.settings = lake.settings.model_copy(update={"lakehouse_layout": ""})
    lake.forget()
    lake.drain()
    assert lake.rows(f"select id from {table.table}") == [(1,)]
