"""One schedule between MariaDB or MySQL and a sink that writes whole transactions to PostgreSQL.

The store's history is a table like others, and is written within each transaction. So whenever somebody looks at the target, its
other tables are what its history says; and that is the beginning of the database's own. At the end it is all of it.
"""

import contextlib
import json
import random
import time
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any, Final

import psycopg
from binloglab.servers import BinlogLab
from binloglab.store import EMPTIED, TABLES, Customer
from binloglab.store_run import StoreRun
from binloglab.traffic import finish_prepared
from faultlab.fault import Fault
from faultlab.lab_faults import LINKS
from faultlab.topics import ends

from sinklab.tables import PostgresTarget
from tidings_stack.capture import json_options
from tidings_stack.waiting import wait_for

_SECONDS = 240
"""How long the target may take, when all is well again."""
_KEYS: Final = {"payments": ("order_id", "number")}
_COLUMNS: Final = {
    "customers": ("id", "name"),
    "orders": ("id", "customer_id", "status"),
    "items": ("id", "order_id", "price"),
    "payments": ("order_id", "number", "amount"),
}
_SINK: Final = ("sink_kill", "sink_kill", "sink_point", "sink_point", "sink_pause")
_TARGET: Final = (*(f"target_{how}" for how in LINKS), "target_freeze", "target_kill")
History = Sequence[tuple[int, str, str, str | None]]
Rows = dict[str, dict[str, dict[str, Any]]]
"""Table to key to row."""


def fault_of_sink(chance: random.Random) -> Fault:
    """One of the sink or its target, which a schedule has beside those of the source."""
    kind = chance.choice((*_SINK, *_TARGET))
    point = chance.choice(PostgresTarget.points) if kind == "sink_point" else ""
    seconds = chance.uniform(0.01, 0.15) if kind.endswith("delay") else chance.uniform(0.2, 2.5)
    amount = chance.randint(1, 40_000) if kind.endswith("cut_after") else chance.randint(0, 6)
    return Fault(kind, seconds, amount, point, chance.randint(10, 200))


class BinlogSinkRun(StoreRun):
    """One schedule on a database and two connectors of its own."""

    truncates = True

    def __init__(
        self,
        lab: BinlogLab,
        target: PostgresTarget,
        seed: int,
        faults: tuple[Fault, ...],
        say: Callable[[str], None],
    ) -> None:
        super().__init__(lab, seed, faults, say)
        self._target = target
        self._sink = f"{self._name}-sink"
        # Rows of a blocking snapshot are of a moment that the stream comes to later.
        self._is_whole = not any(fault.kind == "block" for fault in faults)
        self._problems: list[str] = []
        self._looks = 0

    def run(self) -> dict[str, Any]:  # type: ignore[override]  # another verdict
        """Run it; what it did.

        Raises:
            AssertionError: the target did not become what it has to be, or held half of a transaction.
        """
        began, lab = time.monotonic(), self._binlog_lab
        with self._database(old_rows=self._initial):
            self._begin(self._config())
            wait_for("the connector to read", self._reads)
            try:
                lab.worker.ask("PUT", f"/connectors/{self._sink}/config", self._sink_config(), 200, 201)
                if self._initial:  # of which some rows come before others
                    self._await(self._committed())
                with self._customers() as customers:
                    for fault in self._faults:
                        self._more_records(fault.records)
                        self._look()
                        self._say(f"  {time.monotonic() - began:.1f} {fault}")
                        self.strike(fault)
                        self._look()
                    self._more_records(50)
                self._say(f"  {time.monotonic() - began:.1f} peace")
                self._settle()
            finally:
                self._target.heal()
                lab.worker.ask("DELETE", f"/connectors/{self._sink}", None, 204, 404)
        assert not self._problems, "; ".join(self._problems[:3])
        return {
            "transactions": customers.number - self.quiet,
            "looks": self._looks,
            "seconds": round(time.monotonic() - began, 1),
        }

    def _sink_config(self) -> dict[str, str]:
        name = self._name
        return {
            "topics.regex": rf"{name}[.]({name}[.]({'|'.join(TABLES)}|history)|transaction)",
            "tasks.max": str(self._target.tasks),
            "truncate.enabled": "true",
            "errors.retry.delay.initial.ms": "100",
            "errors.retry.delay.max.ms": "500",
            "consumer.override.session.timeout.ms": "6000",
            **self._converters(),
            **self._target.connector(name),
        }

    def _converters(self) -> dict[str, str]:
        if self._avro:
            return super()._converters()
        return json_options()

    # --- faults

    def strike(self, fault: Fault) -> None:
        """See `LabFaults`; links of the target, too."""
        system, _, how = fault.kind.partition("_")
        if system == "target" and how in LINKS:
            assert self._target.proxy is not None
            getattr(self, f"_link_{how}")(self._target.proxy, fault)
        else:
            super().strike(fault)

    def sink_kill(self, _: Fault) -> None:
        """A task of the sink."""
        self._kill(self._binlog_lab.worker.task_pid(self._sink))

    def sink_point(self, fault: Fault) -> None:
        """A task ends at a place in the code."""
        self._binlog_lab.worker.pass_point(fault.point, skip=fault.amount)

    def sink_pause(self, fault: Fault) -> None:
        """It rests while there is more to do."""
        worker = self._binlog_lab.worker
        worker.ask("PUT", f"/connectors/{self._sink}/pause", None, 202)
        time.sleep(fault.seconds)
        worker.ask("PUT", f"/connectors/{self._sink}/resume", None, 202)

    def target_freeze(self, fault: Fault) -> None:
        """The target answers nothing for a while."""
        self._target.freeze(fault)

    def target_kill(self, _: Fault) -> None:
        """The target crashes."""
        assert self._target.server is not None
        self._target.server.kill()
        self._target.server.start()

    # --- what is there

    def _more_records(self, count: int) -> None:
        """Wait for records of the history; not for ever, as what is down may have to come back first."""
        topic, bootstrap = f"{self._name}.{self._name}.history", self._binlog_lab.kafka.bootstrap

        def end() -> int:
            return ends(bootstrap, lambda known: known == topic)

        first, deadline = end(), time.monotonic() + 5
        while time.monotonic() < deadline and end() < first + count:
            time.sleep(0.2)

    def _look(self) -> None:
        """See that the target holds whole transactions."""
        if self._is_whole:
            self._looks += 1
            history, rows = self._held()
            problems = _apart(rows, _state(history))
            if problems and history and history[-1][2] == EMPTIED:  # it is told, and may not be done
                problems = _apart(rows, _state(history[:-1]))
            self._problems += problems

    def _held(self) -> tuple[History, Rows]:
        """The target's history and tables, at one moment."""
        rows: Rows = {table: {} for table in TABLES}
        with psycopg.connect(self._target.url) as connection:
            there = {name for (name,) in connection.execute("SELECT tablename::text FROM pg_tables")}
            connection.commit()
            connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
            # Before there is a snapshot: TRUNCATE empties a table for snapshots from before it, too.
            for table in sorted(there & {f"{self._name}_{table}" for table in (*TABLES, "history")}):
                connection.execute(f"LOCK TABLE {table} IN ACCESS SHARE MODE".encode())

            def read(table: str, columns: Sequence[str]) -> list[tuple[Any, ...]]:
                if f"{self._name}_{table}" not in there:
                    return []
                named = ", ".join(f'"{column}"' for column in columns)
                return connection.execute(f"SELECT {named} FROM {self._name}_{table}".encode()).fetchall()

            for table, columns in _COLUMNS.items():
                for values in read(table, columns):
                    row = dict(zip(columns, values, strict=True))
                    rows[table][_key(table, row)] = row
            found = sorted(read("history", ("place", "xid", "tab", "key", "row")))
        return [(xid, table, key, row) for _, xid, table, key, row in found], rows

    def _settle(self) -> None:
        """Let everything be written, and compare."""
        lab = self._binlog_lab
        lab.heal()
        self._target.heal()
        finish_prepared(lab.db, self._name, random.Random(self._seed))
        with contextlib.closing(Customer(lab.db, self._name, 0)) as customer:
            customer.go_on_emptying()
        for connector in (self._name, self._sink):
            lab.worker.wait_task(connector)
        committed = self._committed()
        try:
            held = self._await(committed, self._look)
        except AssertionError as error:
            status = lab.worker.request("GET", f"/connectors/{self._sink}/status")[1]
            self._problems.append(f"{error}, {status}")
            return
        if held != committed:
            self._problems.append("the target's history is another one than the database's")

    def _await(self, committed: History, look: Callable[[], None] = lambda: None) -> History:
        """Wait until the target is the database; gives its history.

        Raises:
            AssertionError: it does not become that; says what is apart.
        """
        wanted = _state(committed)
        held: list[tuple[History, Rows]] = []

        def written() -> bool:
            look()
            held[:] = [self._held()]
            return len(held[0][0]) >= len(committed) and not _apart(held[0][1], wanted)

        try:
            wait_for("the target to be the source", written, _SECONDS)
        except AssertionError as error:
            apart = _apart(held[0][1], wanted)
            raise AssertionError(f"{error}: {len(held[0][0])} of {len(committed)} changes, {apart}") from None
        return held[0][0]


def _key(table: str, row: dict[str, Any]) -> str:
    return "/".join(str(row[name]) for name in _KEYS.get(table, ("id",)))


def _state(history: History) -> Rows:
    """What a history says that the tables hold."""
    rows: Rows = {table: {} for table in TABLES}
    for _, table, key, text in history:
        if key == EMPTIED:
            rows[table].clear()
        elif text is None:
            rows[table].pop(key, None)
        else:
            rows[table][key] = json.loads(text, parse_float=Decimal)
    return rows


def _apart(found: Rows, wanted: Rows) -> list[str]:
    """Which tables differ."""
    problems = []
    for table in TABLES:
        keys = found[table].keys() | wanted[table].keys()
        wrong = sorted(key for key in keys if found[table].get(key) != wanted[table].get(key))
        if wrong:
            key = wrong[0]
            problems.append(
                f"{table}: {len(wrong)} rows differ, such as {key}: {found[table].get(key)}, its history says"
                f" {wanted[table].get(key)}"
            )
    return problems
