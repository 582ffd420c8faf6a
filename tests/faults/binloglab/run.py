"""One schedule: a connector, traffic, the faults, peace, and whether the topics are the database's history, once."""

import contextlib
import json
import random
import secrets
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import pymysql
from faultlab.fault import Fault
from faultlab.lab_faults import LINKS, LabFaults

from binloglab.servers import BinlogLab
from binloglab.traffic import HIDDEN, PAUSES, Traffic, create_tables, finish_prepared, run
from binloglab.verdict import Topics, judged
from tidings_stack.capture import JSON_CONVERTER
from tidings_stack.waiting import wait_for

SNAPSHOTS: Final = ("signal", "block")
LIGHT: Final = (
    *(
        "kill_task",
        "kill_task",
        "kill_worker",
        "terminate",
        "rotate",
        "rotate",
        "purge",
        "alter",
        "swap",
        "compress",
    ),
    *("signal", "signal", "block"),
    *(f"{server}_{how}" for server in ("db", "kafka") for how in LINKS),
)
HEAVY: Final = ("crash", "restart_database", "fail_over", "fail_over", "kafka_kill", "kafka_restart")
WATERMARKS: Final[Mapping[str, dict[str, str]]] = {
    "insert_insert": {},
    "insert_delete": {"incremental_snapshot_watermarking_strategy": "insert_delete"},
    "read_only": {"read_only": "true"},
}
LAST: Final = -999
"""The row behind all others."""


@dataclass
class Outcome:
    """How a schedule ended."""

    problems: list[str] = field(default_factory=list)
    seconds: float = 0.0
    transactions: int = 0
    records: int = 0


def make_schedule(
    seed: int, *, faults: int = 5, heavy: float = 0.5, signals: bool = False, has_gtids: bool = True
) -> tuple[Fault, ...]:
    """The faults of a seed; `heavy` is how likely one of them stops a server.

    Args:
        signals: whether the first is a signal for a snapshot.
        has_gtids: whether there can be a failover.
    """
    chance = random.Random(f"mariadb {seed}")
    kinds = [chance.choice(LIGHT) for _ in range(chance.randint(2, faults))]
    if signals:
        kinds.insert(0, "signal")
    if chance.random() < heavy:
        kinds[chance.randrange(len(kinds))] = chance.choice(HEAVY)
    if not has_gtids:
        kinds = ["crash" if kind == "fail_over" else kind for kind in kinds]
    return tuple(
        Fault(
            kind,
            seconds=chance.uniform(0.01, 0.15) if kind.endswith("delay") else chance.uniform(0.2, 2.5),
            amount=chance.randint(1, 40_000) if kind.endswith("cut_after") else chance.randint(0, 6),
            records=chance.randint(20, 2_000),
        )
        for kind in kinds
    )


class Run(LabFaults):
    """One schedule on a lab.

    Args:
        pauses: see `Traffic`.
    """

    truncates = False
    """Whether tables are truncated by the seed; the verdict on the topics knows of none."""

    def __init__(
        self,
        lab: BinlogLab,
        seed: int,
        faults: tuple[Fault, ...],
        say: Callable[[str], None],
        pauses: Sequence[float] = PAUSES,
    ) -> None:
        self._pauses = pauses
        super().__init__(lab, self._more_records)  # type: ignore[arg-type]  # what it asks of a lab is there
        self._binlog_lab, self._seed, self._faults, self._say = lab, seed, faults, say
        self._name = f"m{seed}x{secrets.token_hex(3)}"
        self._topics = Topics(lab.kafka.bootstrap, self._name)
        self._columns = self._signals = 0
        self._takes_snapshots = any(fault.kind in SNAPSHOTS for fault in faults)
        # With a second definition while the connector is away nobody knows the columns between, and it stops.
        definitions = sum(fault.kind in {"alter", "swap"} for fault in faults)
        metadata = random.Random(f"metadata {seed}").choice(lab.flavour.metadata)
        self._metadata = metadata if definitions < 2 else "FULL"
        self._initial = random.Random(f"initial {seed}").random() < 0.4
        self._alters = random.Random(f"alters {seed}").random() < 0.5
        if self._alters:
            self._metadata = "FULL"
        self._virtual = random.Random(f"virtual {seed}").random() < 0.5
        self._truncates = random.Random(f"truncates {seed}").choice((0, 0.02, 0.1)) if self.truncates else 0
        """Beside which part of the transactions a table is truncated."""
        self._threads = random.Random(f"threads {seed}").choice((1, 1, 2))
        kinds = [kind for kind in WATERMARKS if lab.flavour.has_gtids or kind != "read_only"]
        self._local = lab.flavour.has_gtids and random.Random(f"local {seed}").random() < 0.6
        self._watermarks = random.Random(f"watermarks {seed}").choice(kinds)

    def run(self) -> Outcome:
        """Run it to the verdict.

        Raises:
            AssertionError: the connector did not come back, or did not catch up.
        """
        began, lab, name = time.monotonic(), self._binlog_lab, self._name
        with self._database(old_rows=self._takes_snapshots or self._initial):
            config = self._config()
            if not self._initial:
                self._begin(config)
                wait_for("the connector to read", self._reads)
            with self._traffic(self._seed) as traffic:
                if self._initial:
                    self._more_rows(self._faults[0].records * 20)
                    self._begin(config)
                for fault in self._faults:
                    self._more_records(fault.records)
                    self._say(f"  {time.monotonic() - began:.1f} {fault}")
                    self.strike(fault)
                self._more_records(200)
            self._say(f"  {time.monotonic() - began:.1f} peace")
            lab.heal()
            finish_prepared(lab.db, name, random.Random(self._seed))
            lab.worker.wait_task(name)
            if self._initial:  # one that begins again at peace would read the last row, and others behind it
                wait_for(
                    "the first snapshot", lambda: self._topics.notes("Initial Snapshot", "COMPLETED"), 600
                )
            if self._takes_snapshots:
                self._take_last_snapshot()
            run(lab.db, f"INSERT INTO {name}.a (id, n) VALUES ({LAST}, 0)")
            wait_for("the last row", lambda: LAST in self._topics.last_ids(), 600)
            found = self._topics.read()
            problems = judged(lab.db, name, found, initial=self._initial, read_last=self._takes_snapshots)
            outcome = Outcome(problems, transactions=traffic.transactions)
            outcome.records = sum(map(len, found.values()))
        outcome.seconds = time.monotonic() - began
        return outcome

    @contextlib.contextmanager
    def _database(self, *, old_rows: bool) -> Iterator[None]:
        """The schedule's tables, for as long as a `with` lasts; with them its connector goes, and what it has left prepared."""
        lab, name = self._binlog_lab, self._name
        self._create_tables(old_rows=old_rows)
        try:
            self._say(
                f"  {self._watermarks}, {self._threads} threads, {self._metadata}"
                + ", local" * self._local
                + ", alters" * self._alters
                + ", initial" * self._initial
            )
            self._set_metadata(self._metadata)
            yield
        finally:
            with contextlib.suppress(Exception):
                lab.heal()
                lab.worker.ask("DELETE", f"/connectors/{name}", None, 204, 404)
                finish_prepared(lab.db, name, random.Random(self._seed))
            self._set_metadata("FULL")
            run(lab.db, f"DROP DATABASE {name}")

    def _create_tables(self, *, old_rows: bool) -> None:
        create_tables(self._binlog_lab.db, self._name, old_rows=old_rows)

    def _config(self) -> dict[str, str]:
        """Of the connector, by the seed."""
        name = self._name
        config = self._binlog_lab.connector(
            name,
            signal_data_collection=f"{name}.signals",
            incremental_snapshot_chunk_size="100",
            notification_enabled_channels="sink",
            notification_sink_topic_name=f"{name}.notes",
            snapshot_max_threads=str(self._threads),
            snapshot_mode="initial" if self._initial else "no_data",
            **self._history(),
            **WATERMARKS[self._watermarks],
            **({"gtid_source_excludes": self._binlog_lab.flavour.local_sources} if self._local else {}),
        )
        skipped = {"skipped.operations": "none"} if self.truncates else {}
        return config | HIDDEN | skipped | self._converters()

    def _converters(self) -> dict[str, str]:
        if not self._alters:
            return {}
        return {  # or null would be told as a column's default
            "value.converter": JSON_CONVERTER,
            "value.converter.schemas.enable": "false",
            "value.converter.replace.null.with.default": "false",
        }

    def _traffic(self, seed: int, *, most_rows: int = 3_000) -> Traffic:
        return Traffic(
            self._binlog_lab.writable,
            self._name,
            seed,
            self._pauses,
            xa=0.3,
            local=0.1 if self._local else 0,
            flavour=self._binlog_lab.flavour,
            alters=self._alters,
            virtual=self._virtual,
            truncates=self._truncates,
            most_rows=most_rows,
        )

    def _begin(self, config: Mapping[str, str]) -> None:
        self._binlog_lab.worker.ask("PUT", f"/connectors/{self._name}/config", config, 200, 201)
        self._binlog_lab.worker.wait_task(self._name)

    def _more_rows(self, count: int) -> None:
        """Wait until the writers have told of so many changes."""

        def are_there() -> bool:
            ((number,),) = run(self._binlog_lab.db, f"SELECT COUNT(*) FROM {self._name}.history")
            return bool(number >= count)

        wait_for(f"{count} changes", are_there)

    def _set_metadata(self, value: str) -> None:
        """A server that is started anew has FULL again."""
        for server in self._binlog_lab.servers:
            run(server, f"SET GLOBAL binlog_row_metadata = {value}")

    def _history(self) -> dict[str, str]:
        """Options: a log that does not name columns needs one."""
        if self._metadata == "FULL":
            return {}
        return {
            "schema_history_internal_kafka_topic": f"{self._name}.history",
            "schema_history_internal_kafka_bootstrap_servers": self._binlog_lab.kafka.proxied,
        }

    # --- faults

    def strike(self, fault: Fault) -> None:
        """See `LabFaults`; links of the database, too."""
        server, _, how = fault.kind.partition("_")
        if server == "db" and how in LINKS:
            getattr(self, f"_link_{how}")(self._binlog_lab.db_proxy, fault)
        else:
            super().strike(fault)

    def terminate(self, _: Fault) -> None:
        """An administrator ends the connector's connections."""
        found = run(self._binlog_lab.db, self._binlog_lab.flavour.readers)
        for (number,) in found:
            with contextlib.suppress(pymysql.Error):  # it has ended by itself
                run(self._binlog_lab.db, f"KILL {number}")

    def rotate(self, _: Fault) -> None:
        """The log goes on in another file; those that nobody reads any more are removed."""
        run(self._binlog_lab.db, "FLUSH BINARY LOGS")

    def purge(self, _: Fault) -> None:
        """All files of the log are removed that lie before the one that the connector has stored."""
        run(self._binlog_lab.db, "FLUSH BINARY LOGS")
        if self._initial:  # what was prepared before the snapshot is read from them when it is committed
            return
        status, body = self._binlog_lab.worker.request("GET", f"/connectors/{self._name}/offsets")
        if status != 200 or not body["offsets"]:
            return
        offset = body["offsets"][0]["offset"]
        with contextlib.suppress(pymysql.Error):  # the server does not have the file: it was another one's
            # A distributed transaction that is prepared has its rows in a file that no one else needs.
            if "tidings_prepared" not in offset:
                self._binlog_lab.flavour.purge(run, self._binlog_lab.db, offset)

    def signal(self, fault: Fault) -> None:
        """An incremental snapshot, by the table or over REST."""
        self._ask_for_snapshot("incremental", ["a"], over_rest=bool(fault.amount % 2))

    def block(self, fault: Fault) -> None:
        """A blocking snapshot."""
        self._ask_for_snapshot("blocking", ["a", "b"], over_rest=bool(fault.amount % 2))

    def _ask_for_snapshot(self, kind: str, tables: list[str], *, over_rest: bool) -> str:
        self._signals += 1
        id_, name = f"{kind}-{self._signals}", self._name
        data = {"type": kind, "data-collections": [f"{name}.{table}" for table in tables]}
        if over_rest:
            body = {"id": id_, "type": "execute-snapshot", "data": data}
            with contextlib.suppress(OSError):  # the worker was killed
                self._binlog_lab.worker.request("POST", f"/connectors/{name}/signals", body)
        else:
            text = json.dumps(data)
            with contextlib.suppress(pymysql.Error):  # the server is away
                run(
                    self._binlog_lab.db,
                    f"INSERT INTO {name}.signals VALUES ('{id_}', 'execute-snapshot', '{text}')",
                )
        return id_

    def _take_last_snapshot(self) -> None:
        """So that one ends in each schedule, and every row of `a` has been told."""
        id_ = self._ask_for_snapshot("incremental", ["a"], over_rest=False)
        wait_for(
            "the last snapshot", lambda: id_ in self._topics.notes("Incremental Snapshot", "COMPLETED"), 600
        )

    def fail_over(self, _: Fault) -> None:
        """The replica takes the place of a server that is killed."""
        self._binlog_lab.fail_over()

    def alter(self, _: Fault) -> None:
        """A table gets a column, in mid-stream."""
        self._columns += 1
        run(
            self._binlog_lab.db,
            f"ALTER TABLE {self._name}.a ADD COLUMN xf{self._columns} INT DEFAULT 7 AFTER id"
            f"{self._binlog_lab.flavour.alter_lock}",
        )

    def swap(self, fault: Fault) -> None:
        """A copy takes a table's place, as pt-online-schema-change does it: triggers keep the copy up to date."""
        if self._alters:  # the tool asks that nobody else alters the table meanwhile
            self.alter(fault)
            return
        self._columns += 1
        name, copy = self._name, "a_new"
        columns = [
            c
            for (c,) in run(
                self._binlog_lab.db,
                f"SELECT column_name FROM information_schema.columns WHERE table_schema = '{name}' AND table_name = 'a'",
            )
        ]
        listed, new = ", ".join(columns), ", ".join(f"NEW.{column}" for column in columns)
        put = f"REPLACE INTO {name}.{copy} ({listed}) VALUES ({new})"
        with contextlib.suppress(pymysql.Error):  # the server is away
            run(
                self._binlog_lab.db,
                *(f"DROP TRIGGER IF EXISTS {name}.swap_{event}" for event in "iud"),
                f"DROP TABLE IF EXISTS {name}.{copy}",
                f"CREATE TABLE {name}.{copy} LIKE {name}.a",
                f"ALTER TABLE {name}.{copy} ADD COLUMN y{self._columns} VARCHAR(9) DEFAULT 'y' FIRST",
                f"CREATE TRIGGER {name}.swap_i AFTER INSERT ON {name}.a FOR EACH ROW {put}",
                f"CREATE TRIGGER {name}.swap_u AFTER UPDATE ON {name}.a FOR EACH ROW BEGIN"
                f" DELETE IGNORE FROM {name}.{copy} WHERE NOT (OLD.id <=> NEW.id) AND id <=> OLD.id; {put}; END",
                f"CREATE TRIGGER {name}.swap_d AFTER DELETE ON {name}.a FOR EACH ROW DELETE IGNORE FROM {name}.{copy} WHERE id <=> OLD.id",
                f"INSERT LOW_PRIORITY IGNORE INTO {name}.{copy} ({listed}) SELECT {listed} FROM {name}.a LOCK IN SHARE MODE",
                f"RENAME TABLE {name}.a TO {name}.a_old, {name}.{copy} TO {name}.a",
                f"DROP TABLE {name}.a_old",
            )

    def compress(self, _: Fault) -> None:
        """The log's events are compressed from now on, or no longer."""
        run(self._binlog_lab.db, *self._binlog_lab.flavour.compress)

    def crash(self, _: Fault) -> None:
        """The server is killed."""
        self._binlog_lab.crash_and_start()

    def restart_database(self, _: Fault) -> None:
        """The server is restarted."""
        self._binlog_lab.db.stop()
        self._binlog_lab.db.start()

    # --- what is there

    def _reads(self) -> bool:
        """Whether a row that is written now arrives."""
        run(
            self._binlog_lab.db,
            f"INSERT INTO {self._name}.a (id, n) SELECT LEAST(MIN(id), 0) - 1, 0 FROM (SELECT id FROM"
            f" {self._name}.a UNION SELECT 0) known",
        )
        return bool(self._topics.read()["a"])

    def _more_records(self, count: int) -> None:
        """Wait for records; not for ever: some faults end with a connector that is down for a while."""
        first, deadline = self._topics.ends(), time.monotonic() + 5
        while time.monotonic() < deadline and self._topics.ends() < first + count:
            time.sleep(0.2)
