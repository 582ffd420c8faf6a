"""One schedule between MariaDB or MySQL and the lake: phases of the binlog lab's traffic, with its faults and those of the job.

After each phase, when the watermark has passed the last commit, the current states are the database's, and so are the tables as
of moments in the midst of the traffic; the log of a table without a key has each change once, in the order of the commits. The
watermark never claims what is not there. At the end the tables are read again, and then the columns that came and went are as
the database has them, too.
"""

import contextlib
import json
import random
import re
import time
from collections import defaultdict
from collections.abc import Callable
from typing import Any, Final

import pymysql
from binloglab.run import Run, make_schedule
from binloglab.servers import BinlogLab
from binloglab.traffic import connect, finish_prepared, run
from binloglab.verdict import names_that_came
from faultlab.fault import Fault
from faultlab.topics import create_topics

from lakehouselab.job import LakeJob, Warehouse
from lakehouselab.moments import Moment, apart, differences
from lakehouselab.run import MOST_SECONDS, PARTITIONS, PATIENCE_SECONDS, Outcome
from lakehouselab.schedule import POINTS, Schedule
from tidings_stack.capture import avro_options, json_options

_PAUSES: Final = (0.1, 0.3, 0.5)
"""Of which few rows come: every one takes its time in a batch."""
_MOST_ROWS: Final = 100
_PAST: Final = {"a": "id, n, note", "history": "seq, tab, op, id, former, later"}
"""What is compared of the tables that have a key, in SQL of every reader."""
_STATES: Final = {**_PAST, "a": "id, n, note, doc"}
"""The same with documents, which servers and capture write otherwise."""
_MOMENTS_AGAIN: Final = 3


def make_lake_schedule(seed: int, *, faults: int = 3, has_gtids: bool = True) -> tuple[Fault, ...]:
    """Faults of the source, and among them some of the job."""
    made = list(make_schedule(seed, faults=faults, has_gtids=has_gtids))
    chance = random.Random(f"lake {seed}")
    for _ in range(chance.randint(1, 3)):
        kind = chance.choice(("point", "point", "forget"))
        made.insert(chance.randint(0, len(made)), Fault(kind, point=chance.choice(POINTS), records=100))
    return tuple(made)


class BinlogLakeRun(Run):
    """One schedule on a database, a connector and a job of its own."""

    truncates = True

    def __init__(
        self,
        lab: BinlogLab,
        warehouse: Warehouse,
        seed: int,
        faults: tuple[Fault, ...],
        say: Callable[[str], None],
    ) -> None:
        super().__init__(lab, seed, faults, say, _PAUSES)
        self._initial = True
        self._warehouse = warehouse
        self._format = random.Random(f"{seed} format").choice(("avro", "json"))
        self._chance = random.Random(f"{seed} moments")
        self._moments: list[Moment] = []
        self._unseen: list[Moment] = []
        self._pulses = 0
        self._found = Outcome()

    def run(self) -> Outcome:  # type: ignore[override]  # another verdict
        """Run it to the verdict.

        Raises:
            AssertionError: the connector did not come back.
        """
        began = time.monotonic()
        tables = [f"{self._name}.{table}" for table in ("a", "b", "history")]
        create_topics(self._binlog_lab.kafka.bootstrap, self._name, tables, PARTITIONS)
        with self._database(old_rows=True):
            self._begin(self._config())
            schedule = Schedule(self._seed, self._faults, ("a", "b"), format=self._format)
            self._job = LakeJob(self._warehouse, self._name, schedule, max_records=(1_000, 2_000, 5_000))
            try:
                self._settle("the first snapshot")
                for number, fault in enumerate(self._faults):
                    if self._found.problems:
                        break
                    self._say(f"  {time.monotonic() - began:.1f} {fault}")
                    self._phase(number, fault)
                else:
                    self._end()
            finally:
                self._job.close()
                self._found.starts = self._job.starts
                self._found.problems += self._job.problems
        self._found.seconds = time.monotonic() - began
        return self._found

    def _phase(self, number: int, fault: Fault) -> None:
        with self._traffic(self._seed * 100 + number, most_rows=_MOST_ROWS) as traffic:
            self._more_records(fault.records)
            self._take_moment()
            self.strike(fault)
            self._audit(str(fault))
            self._more_records(20)
            self._take_moment()
        self._found.transactions += traffic.transactions
        self._settle(str(fault))

    def _end(self) -> None:
        again = self._chance.sample(self._moments, min(_MOMENTS_AGAIN, len(self._moments)))
        self._found.problems += self._other_pasts(again)
        self._ask_for_snapshot("incremental", ["a"], over_rest=False)
        self._settle("a snapshot was asked for")
        # It goes on beside the stream, whose commits the watermark follows.
        self._job.wait(lambda: not self._wrong_columns(), PATIENCE_SECONDS)
        self._found.problems += [*self._wrong_states(), *self._wrong_columns()]

    def _config(self) -> dict[str, str]:
        return super()._config() | {"table.include.list": rf"{self._name}\.(a|b|local|history)"}

    def _converters(self) -> dict[str, str]:
        if self._format == "avro":
            return avro_options(self._binlog_lab.registry.url)
        return json_options()

    # --- faults of the job

    def point(self, fault: Fault) -> None:
        """The job dies behind a write."""
        self._job.strike(fault.point, PATIENCE_SECONDS)

    def forget(self, fault: Fault) -> None:
        """It dies, and its checkpoint is lost."""
        self._job.strike(fault.point, PATIENCE_SECONDS, forget=True)

    # --- what has to be true

    def _audit(self, under: str) -> None:
        tables = {f"{self._name}.{table}": f"{self._name}_{table}" for table in ("a", "b", "history")}
        if (problem := self._job.claimed_too_much(tables)) is not None:
            self._found.problems.append(f"under {under}: {problem}")

    def _settle(self, after: str) -> None:
        """Traffic rests: the watermark passes it, and then the tables are the database's."""
        lab = self._binlog_lab
        lab.heal()
        finish_prepared(lab.db, self._name, random.Random(self._seed))
        lab.worker.wait_task(self._name)
        position, began = lab.flavour.position(run, lab.db), time.monotonic()
        self._pulses += 1
        run(lab.db, f"INSERT INTO {self._name}.b (id, n) VALUES ({-self._pulses}, 0)")
        if not self._job.passes(position, lambda: self._audit(after), PATIENCE_SECONDS, most=MOST_SECONDS):
            self._found.problems.append(
                f"after {after}: the watermark is {self._job.watermark()}, and {position} was committed"
                f" {time.monotonic() - began:.0f} s ago"
            )
            return
        self._found.slowest = max(self._found.slowest, time.monotonic() - began)
        unseen, self._unseen = self._unseen, []
        problems = [*self._wrong_states(), *self._wrong_log(), *self._other_pasts(unseen)]
        self._found.problems += [f"after {after}: {problem}" for problem in problems]

    def _wrong_states(self) -> list[str]:
        found = []
        for table, columns in _STATES.items():
            wanted = set(map(_plain, run(self._binlog_lab.db, f"SELECT {columns} FROM {self._name}.{table}")))
            name = f"technical.{self._name}_{table}"
            rows = [_plain(row) for row in self._lake(f"SELECT {columns} FROM {name}", name)]
            if sorted(rows, key=repr) != sorted(wanted, key=repr):
                found.append(f"{table} ({len(rows)} rows): {apart(wanted, set(rows))}")
        return found

    def _lake(self, statement: str, table: str) -> list[tuple[Any, ...]]:
        """The rows; none where there is no table yet."""
        return self._job.sql(statement) if self._job.session.catalog.tableExists(table) else []

    def _wrong_log(self) -> list[str]:
        """Of `b`, which has no key: what became of each row, in order."""
        wanted: dict[int, list[tuple[Any, ...]]] = defaultdict(list)
        for number, *change in run(
            self._binlog_lab.db,
            f"SELECT id, op, former, later FROM {self._name}.history WHERE tab = 'b' AND id >= 0 ORDER BY seq",
        ):
            wanted[number].append(tuple(change))
        told: dict[int, list[tuple[Any, ...]]] = defaultdict(list)
        name = f"technical.{self._name}_b_log"
        for number, *change in self._lake(
            f"SELECT coalesce(after.id, before.id), op, before.n, after.n FROM {name} WHERE op <> 'r'"
            f" AND coalesce(after.id, before.id) >= 0 ORDER BY last_commit_lsn NULLS FIRST, lsn",
            name,
        ):
            told[number].append(tuple(change))
        return [
            f"row {number} of b: the database did {wanted.get(number)}, the log has {told.get(number)}"
            for number in sorted(wanted.keys() | told.keys())
            if wanted.get(number) != told.get(number)
        ][:3]

    def _wrong_columns(self) -> list[str]:
        """Of `a`, whose rows have just been read: the columns that came and went, which may have become others in the lake."""
        db, name = self._binlog_lab.db, self._name
        table = f"technical.{name}_a"
        held = self._job.session.table(table).columns
        problems = []
        for column in names_that_came(db, name):
            same = [one for one in held if re.fullmatch(rf"{column}(__.*)?", one)]
            if not same:
                problems.append(f"{table} has no column {column}")
                continue
            texts = ", ".join(f"cast({one} AS string)" for one in same)
            lake = {number: values for number, *values in self._job.sql(f"SELECT id, {texts} FROM {table}")}
            wrong = [
                (number, value, lake.get(number))
                for number, value in run(db, f"SELECT id, CAST({column} AS CHAR) FROM {name}.a")
                if value not in (lake.get(number) or ())
            ]
            problems += [f"{table}.{column}: (id, database, lake) are {wrong[:3]}"] if wrong else []
        return problems[:3]

    # --- moments

    def _take_moment(self) -> None:
        """What the tables hold now; or not, where the server is away."""
        db = self._binlog_lab.db
        with contextlib.suppress(pymysql.Error):
            locked = connect(db, read_timeout=20)
            try:
                with locked.cursor() as cursor:
                    cursor.execute("SET SESSION lock_wait_timeout = 10")
                    cursor.execute("FLUSH TABLES WITH READ LOCK")
                    position = self._binlog_lab.flavour.position(run, db)
                    rows = {}
                    for table, columns in _PAST.items():
                        cursor.execute(f"SELECT {columns} FROM {self._name}.{table}")
                        rows[f"{self._name}_{table}"] = set(cursor.fetchall())
            finally:
                locked.close()
            self._moments.append(Moment(position, rows))
            self._unseen.append(self._moments[-1])

    def _other_pasts(self, moments: list[Moment]) -> list[str]:
        if not moments:
            return []
        self._found.moments += len(moments)

        def columns(table: str) -> str:
            return _PAST[table.removeprefix(f"{self._name}_")]

        return differences(self._job.settings, columns, moments, self._job.sql, self._chance)


def _plain(row: tuple[Any, ...]) -> tuple[Any, ...]:
    """A row with its document as every server and capture would write it."""
    *values, last = row
    if isinstance(last, str) and last.startswith("{"):
        last = json.dumps(json.loads(last), sort_keys=True)
    return (*values, last)
