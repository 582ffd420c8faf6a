"""What a schedule's topics hold, and whether that is the database's own history, once."""

import json
import time
from collections import defaultdict
from typing import Any

from confluent_kafka import Consumer, TopicPartition
from faultlab.history import ADDED, added_columns

from binloglab.traffic import OLD_ROWS, run
from tidings_stack.mariadb import MySqlLikeServer

Found = dict[str, list[Any]]
"""Keys and values by table, and of the topic of transactions."""
Row = tuple[str, int]
"""Table and id."""


class Topics:
    """The topics of a connector on the tables of `create_tables`; the database has the name of the prefix."""

    def __init__(self, bootstrap: str, name: str) -> None:
        self._bootstrap, self._name = bootstrap, name

    def _consumer(self) -> Consumer:
        return Consumer(
            {
                "bootstrap.servers": self._bootstrap,
                "group.id": "faults-verdict",
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
                "enable.partition.eof": True,
            }
        )

    def _topic(self, table: str) -> str:
        own = f"{self._name}." if table in {"a", "b", "local"} else ""
        return f"{self._name}.{own}{table}"

    def ends(self) -> int:
        consumer = self._consumer()
        try:
            return sum(
                consumer.get_watermark_offsets(TopicPartition(self._topic(table), 0), timeout=20)[1]
                for table in "ab"
            )
        except Exception:  # noqa: BLE001 - the broker is away, or there is no topic yet
            return 0
        finally:
            consumer.close()

    def wait_column(self, table: str, column: str, seconds: float = 120) -> None:
        """Wait for a row with a column that the last rows have not."""
        consumer, place = self._consumer(), TopicPartition(self._topic(table), 0)
        try:
            end = consumer.get_watermark_offsets(place, timeout=20)[1]
            consumer.assign([TopicPartition(self._topic(table), 0, max(0, end - 2))])
            deadline = time.monotonic() + seconds
            while time.monotonic() < deadline:
                message = consumer.poll(1)
                if message is None or message.error() or message.value() is None:
                    continue
                value = json.loads(message.value() or b"")
                if column in (value["after"] or value["before"]):
                    return
            raise AssertionError(f"no row has {column} after {seconds} seconds")
        finally:
            consumer.close()

    def notes(self, aggregate: str, type_: str) -> set[str]:
        """The ids of the connector's notifications of a kind."""
        notes = [value for _, value in self._read({"notes": []})["notes"]]
        return {note["id"] for note in notes if (note["aggregate_type"], note["type"]) == (aggregate, type_)}

    def last_ids(self) -> list[int]:
        """The ids of the last rows of `a` that are there, of a handful of records."""
        consumer, place = self._consumer(), TopicPartition(self._topic("a"), 0)
        try:
            end = consumer.get_watermark_offsets(place, timeout=20)[1]
        finally:
            consumer.close()
        records = self._read({"a": []}, begin=max(0, end - 10))["a"]
        return [value["after"]["id"] for _, value in records if value and value["after"]]

    def read(self) -> Found:
        """Keys and values of the topics, committed ones only."""
        return self._read({"a": [], "b": [], "local": [], "transaction": []})

    def _read(self, found: Found, begin: int = 0) -> Found:
        consumer = self._consumer()
        try:
            known = consumer.list_topics(timeout=30).topics
            for table, records in found.items():
                if self._topic(table) not in known:
                    continue
                consumer.assign([TopicPartition(self._topic(table), 0, begin)])
                deadline = time.monotonic() + 300
                while True:
                    assert time.monotonic() < deadline, f"{self._topic(table)} cannot be read"
                    message = consumer.poll(5)
                    if message is None:
                        continue
                    if message.error():
                        break  # its end
                    records.append(
                        (json.loads(message.key() or b"null"), json.loads(message.value() or b"null"))
                    )
        finally:
            consumer.close()
        return found


def begun(
    wanted: dict[Row, list[Any]], numbers: dict[Row, list[int]], told: dict[Row, list[Any]]
) -> tuple[dict[Row, int], list[str]]:
    """What rows were at the moment of a first snapshot, and what is wrong with that; `wanted` keeps what came behind it.

    Args:
        numbers: of the changes; those of one writer follow each other.
    """
    began: dict[Row, int] = {}
    problems = []
    last: dict[int, int] = defaultdict(int)
    first: dict[int, int] = {}
    for place, changes in wanted.items():
        ops = [change[0] for change in told.get(place, ())]
        behind = max(0, len(changes) - sum(op != "r" for op in ops))
        writer = place[1] % 2
        if behind < len(changes):
            first[writer] = min(first.get(writer, numbers[place][behind]), numbers[place][behind])
        if behind:
            last[writer] = max(last[writer], numbers[place][behind - 1])
            if changes[behind - 1][2] is not None:
                began[place] = changes[behind - 1][2]
                if not {"r", "d"} & set(ops):
                    problems.append(f"row {place} was there at the snapshot, and was not read")
        wanted[place] = changes[behind:]
    for writer, number in first.items():
        if number <= last[writer]:
            problems.append(
                f"change {number} of writer {writer} is told, and {last[writer]} is not: no snapshot is so"
            )
    return began, problems


def _wrong_reads(place: Row, changes: list[Any], state: int | None) -> list[str]:
    """Rows that a snapshot has read, and that are not as the changes before them have left them.

    Args:
        state: of the row at a first snapshot.
    """
    for number, (op, _former, later, _added) in enumerate(changes):
        if op == "r" and (state is None or later != state):
            return [f"row {place}: read as {later} behind {changes[max(0, number - 5) : number]}"]
        state = later
    return []


def names_that_came(db: MySqlLikeServer, name: str) -> list[str]:
    """Of the columns that come and go, those that `a` has now."""
    found = run(
        db,
        "SELECT column_name FROM information_schema.columns"
        f" WHERE table_schema = '{name}' AND table_name = 'a' AND column_name LIKE '{ADDED}%' ORDER BY 1",
    )
    return [column for (column,) in found]


def _wrong_last_reads(db: MySqlLikeServer, name: str, told: dict[Row, list[Any]]) -> list[str]:
    """Rows that the last snapshot has read otherwise than the table has them in columns that come and go."""
    columns = names_that_came(db, name)
    problems = []
    for number, *values in run(db, f"SELECT {', '.join(['id', *columns])} FROM {name}.a WHERE id >= 0"):
        last = told["a", number][-1] if told["a", number] else ("",)
        wanted = added_columns(dict(zip(columns, values, strict=True)))
        if last[0] == "r" and last[-1] != wanted:
            problems.append(f"row a {number}: read at last as {last[-1]}, and the table has {wanted}")
    return problems[:3]


def _wrong_documents(value: dict[str, Any]) -> list[str]:
    """A row's document has its number, whichever of its parts the log had."""
    return [
        f"row {row['id']}: n is {row['n']}, and the document is {str(row['doc'])[:200]}"
        for row in (value["before"], value["after"])
        if row is not None and (row["doc"] is None or json.loads(row["doc"])["n"] != row["n"])
    ]


def judged(
    db: MySqlLikeServer,
    name: str,
    found: Found,
    *,
    transactions: bool = True,
    initial: bool = False,
    read_last: bool = False,
) -> list[str]:
    """What is wrong with what the topics hold. Rows that a snapshot has read stand between changes, and are as these have left them.

    Args:
        transactions: whether each is to be told as one, which Debezium does not do where it was stopped within it.
        initial: whether the connector began with a snapshot of all tables, in the midst of the changes.
        read_last: whether a snapshot of `a` has been taken behind all changes.
    """
    problems: list[str] = []
    local = [value for _, value in found.get("local", ()) if value and value["op"] != "r"]
    if local:
        problems.append(f"{len(local)} records of sources that do not count")
    wanted: dict[Row, list[Any]] = defaultdict(list)
    numbers: dict[Row, list[int]] = defaultdict(list)
    alters = False
    for seq, tab, op, number, former, later, added in run(
        db, f"SELECT seq, tab, op, id, former, later, added FROM {name}.history WHERE id >= 0 ORDER BY seq"
    ):
        numbers[tab, number].append(seq)
        alters |= added is not None
        wanted[tab, number].append((op, former, later, added_columns(json.loads(added or "{}"))))
    told: dict[Row, list[Any]] = defaultdict(list)
    orders: dict[str, list[int]] = defaultdict(list)
    old: dict[int, set[str]] = defaultdict(set)
    documents: dict[int, Any] = {}
    for table in "ab":
        for _, value in found[table]:
            if value is None:
                continue
            before, after = value["before"], value["after"]
            if value["transaction"] is not None:  # not a snapshot's
                orders[value["transaction"]["id"]].append(value["transaction"]["total_order"])
            number = (after or before)["id"]
            if number in OLD_ROWS:
                old[number].add(value["op"])
            elif number >= 0:
                columns = added_columns(after or before) if alters else {}
                told[table, number].append(
                    (value["op"], before and before["n"], after and after["n"], columns)
                )
                if table == "a":
                    problems += _wrong_documents(value)
                    was = documents.get(number)
                    if before and was and json.loads(before["doc"] or "null") != was:
                        problems.append(
                            f"row {number}: its document was told as {str(was)[:200]}, and was {before['doc'][:200]}"
                        )
                    documents[number] = after and json.loads(after["doc"] or "null")
    if alters and read_last:
        problems += _wrong_last_reads(db, name, told)
    began: dict[Row, int] = {}
    if initial:
        began, wrong = begun(wanted, numbers, told)
        problems += wrong
    for place, changes in told.items():
        problems += _wrong_reads(place, changes, began.get(place))
        told[place] = [change for change in changes if change[0] != "r"]
    for place in sorted(wanted.keys() | told.keys()):
        if wanted.get(place, []) != told.get(place, []):
            problems.append(
                f"row {place}: the database did {wanted.get(place, [])[:8]}, the topic has {told.get(place, [])[:8]}"
            )
    state = {number: later for (table, number), later in began.items() if table == "a"}
    state |= {number: changes[-1][2] for (table, number), changes in told.items() if table == "a" and changes}
    state = {number: later for number, later in state.items() if later is not None}
    found_rows = run(db, f"SELECT id, n, doc FROM {name}.a WHERE id >= 0")
    rows = {number: n for number, n, _ in found_rows}
    others = [number for number, _, doc in found_rows if documents.get(number) != json.loads(doc)]
    if others:
        problems.append(f"the topic's last documents of the rows {others[:20]} are not the table's")
    ((expected,),) = run(
        db, f"SELECT COUNT(*) FROM {name}.a WHERE id BETWEEN {OLD_ROWS.start} AND {OLD_ROWS.stop - 1}"
    )
    if len(old) != expected or any(ops != {"r"} for ops in old.values()):
        problems.append(
            f"{len(old)} of {expected} rows from before the connector were read, or they were changed"
        )
    if state != rows:
        others = sorted(
            number for number in state.keys() | rows.keys() if state.get(number) != rows.get(number)
        )
        problems.append(
            f"{len(state)} rows in the topic's last state, {len(rows)} in the table, or other values: {others[:20]}"
        )
        problems += [
            f"row {number}: the table has {rows.get(number)}, behind {told['a', number][-4:]}"
            for number in others[:3]
        ]
    if not transactions:
        return problems[:10]
    marks: dict[str, list[tuple[str, Any]]] = defaultdict(list)
    for _, value in found["transaction"]:
        marks[value["id"]].append((value["status"], value["event_count"]))
    for number, placed in orders.items():
        if sorted(placed) != list(range(1, len(placed) + 1)):
            problems.append(f"transaction {number} has the orders {sorted(placed)[:20]} ...")
        if marks[number] != [("BEGIN", None), ("END", len(placed))]:
            problems.append(f"transaction {number} of {len(placed)} rows is told as {marks[number]}")
    return problems[:10]
