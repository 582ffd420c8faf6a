"""The job on a session of this process, started again whenever it ends, and what its tables hold."""

import random
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from shutil import rmtree
from typing import Any
from urllib.parse import urlsplit
from urllib.request import url2pathname

from pyspark import SparkContext
from pyspark.sql import SparkSession

from lakehouselab.schedule import Schedule
from lakehouselab.store import Store
from tidings_lakehouse.choices import infinite_rules
from tidings_lakehouse.formats.registry import Registry
from tidings_lakehouse.job import Job
from tidings_lakehouse.maintaining import joining
from tidings_lakehouse.settings import LakehouseSettings
from tidings_lakehouse.spark.session import create_session, stop_gateway
from tidings_service import Health

_LAYOUTS = (
    "",
    r".*_log=month;technical\.(things|shorts)_.*=bucket(4)",
    r".*_log=hour sort none;technical\.(things|shorts|pulse)_.*=bucket(3), bucket(2, n)",
    r"technical\..*_log=day sort partition, offset;technical\.(things|shorts|pulse)_.*=none sort id",
)
"""Of `TIDINGS_LAKEHOUSE_LAYOUT`."""
_FAULT_BATCHES = 4
"""In how many batches a point is waited for."""
_LOOK_SECONDS = 3.0
"""Between looks at the watermark while no batch is written; each is a query, which takes its part of the machine."""
_LOOK_AGAIN_SECONDS = 0.4
"""A look at the tables takes a part of what the job has of the machine."""


class CrashError(Exception):
    """The process would be dead."""


class Warehouse:
    """One session, and one warehouse, for all schedules: a JVM takes its time to start.

    A session that the process has already is used as it is, with its warehouse: every schedule has topics, and so tables, of
    its own.
    """

    def __init__(self, directory: Path, *, kafka: str, registry: str) -> None:
        """Args:
        directory: of a lab; the warehouse is made in it.
        """
        self._share = joining.SHARE
        joining.SHARE = 1.0  # small files are put together as often as there are some
        self.directory = directory / "warehouse"
        self.directory.mkdir(exist_ok=True)
        self.settings = LakehouseSettings(
            kafka=kafka,
            registry=registry,
            lakehouse_warehouse=str(self.directory),
            lakehouse_trigger_seconds=0.5,
            lakehouse_compact_commits=25,
            lakehouse_java_options="-XX:TieredStopAtLevel=1",
        )
        self.is_own = SparkContext._active_spark_context is None
        self.session: SparkSession = (
            create_session(self.settings, "faults")
            if self.is_own
            else SparkSession.builder.getOrCreate().newSession()
        )

    def close(self) -> None:
        joining.SHARE = self._share
        if self.is_own:
            self.session.stop()
            stop_gateway(self.session)


class LakeJob:
    """The job of one source. It dies by an exception behind a write, and nothing of it is left but the tables.

    Args:
        max_records: of a batch, of which the seed chooses; few, so that partitions are not read in step.
    """

    def __init__(
        self,
        warehouse: Warehouse,
        source: str,
        schedule: Schedule,
        *,
        max_records: Sequence[int] = (100, 200, 2_000),
    ) -> None:
        seed = schedule.seed
        chance = random.Random(f"{seed} job")
        self.session = warehouse.session.newSession()
        self.settings = warehouse.settings.model_copy(
            update={
                "source": source,
                "lakehouse_checkpoint": str(warehouse.directory / f"checkpoints-{source}"),
                "lakehouse_max_records": chance.choice(max_records),
                # A job that is behind for longer gives nothing up.
                "lakehouse_transaction_deadline_seconds": chance.choice((30.0, 300.0)),
                # With every batch, or by turns with it and later.
                "lakehouse_merge": chance.choice(("", r"technical\..*=2", r"technical\..*=10")),
                # Small files are put together never, or whenever there are some.
                "lakehouse_join_commits": chance.choice((0, 2, 5)),
                # By turns in the driver and by Spark's tasks, always in the driver, never.
                "lakehouse_small_records": chance.choice((20, 10_000, 0)),
            }
        )
        choices = schedule.choices
        never = [rf"technical\.{kind}_{source}=never" for kind in choices.only_logs]
        merge = ";".join([*never, *filter(None, [self.settings.lakehouse_merge])])
        self.settings = self.settings.model_copy(
            update={
                "lakehouse_merge": merge,
                "lakehouse_types": choices.types,
                "lakehouse_infinite": choices.infinite,
                "lakehouse_text": ".*" if schedule.format == "text" else None,
            }
        )
        self._schedule = schedule
        self._layouts = random.Random(f"{seed} layouts")
        self.source = source
        self.starts = 0
        self.batches = 0
        """Written by all its lives."""
        self._moved = time.monotonic()
        """When it passed a point last."""
        self.problems: list[str] = []
        self._lock = threading.Lock()
        self._armed: str | None = None
        self._forgets = False
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    # --- faults

    def arm(self, point: str, *, forget: bool = False) -> None:
        """Die when a point is passed; `forget`: the checkpoint is lost with it."""
        with self._lock:
            self._armed, self._forgets = point, forget

    @property
    def armed(self) -> bool:
        return self._armed is not None

    def disarm(self) -> None:
        with self._lock:
            self._armed = None

    def wait(self, condition: Callable[[], bool], patience: float, *, most: float = 600.0) -> bool:
        """Whether something becomes true while the job gets on.

        How long a batch takes is the machine's affair, so time is only counted while no point is passed.

        Args:
            patience: seconds for which the job may stand still.
            most: seconds for which it may get on.
        """
        began = time.monotonic()
        while not condition():
            now = time.monotonic()
            if now - max(began, self._moved) > patience or now - began > most:
                return False
            time.sleep(_LOOK_AGAIN_SECONDS)
        return True

    def passes(self, position: int, audit: Callable[[], None], patience: float, *, most: float) -> bool:
        """Whether the watermark passes a position while the job gets on; see `wait`.

        Args:
            audit: is called behind every batch: also while the watermark is behind, it claims nothing that is not there.
        """
        audited, looked = 0, 0.0

        def has_passed() -> bool:
            nonlocal audited, looked
            has_written = audited != self.batches
            if not has_written and time.monotonic() - looked < _LOOK_SECONDS:
                return False
            looked = time.monotonic()
            if has_written:
                audited = self.batches
                audit()
            return (self.watermark() or 0) > position

        return self.wait(has_passed, patience, most=most)

    def _pass(self, point: str) -> None:
        self._moved = time.monotonic()
        self.batches += point.startswith("batch:")
        with self._lock:
            if self._armed is None or point.partition(":")[0] != self._armed:
                return
            self._armed = None
        raise CrashError(point)

    def _run(self) -> None:
        while not self._stop.is_set():
            # Each life lays the tables out as it likes, so that they have files of several layouts.
            layout = {"lakehouse_layout": self._layouts.choice(_LAYOUTS)}
            job = Job(
                self.session,
                self.settings.model_copy(update=layout),
                Registry(self.settings.optional_registry),
                Health(),
                streams=["technical"],
                failpoint=self._pass,
            )
            self.starts += 1
            try:
                job.start()
                job.wait(self._stop)
            except Exception as error:  # noqa: BLE001 - whoever runs it starts it again
                if not _is_crash(error):
                    self.problems.append(f"the job ended: {type(error).__name__}: {str(error)[:500]}")
            finally:
                job.stop()
            with self._lock:
                forgets, self._forgets = self._forgets and self._armed is None, False
            if forgets:
                rmtree(Path(url2pathname(urlsplit(self.settings.checkpoint_uri).path)), ignore_errors=True)

    def close(self) -> None:
        """Stop it."""
        self._stop.set()
        self._thread.join(120)
        if self.has_set_aside:  # which would hold back the watermark of the next one's source
            self.session.sql(f"DELETE FROM tidings.set_aside WHERE topic LIKE '{self.source}.%'")

    # --- what the tables hold

    def rows(self, store: Store, table: str) -> tuple[str, set[tuple[Any, ...]]]:
        """What the lake has of a table, and what the database is to be asked for the same.

        A table with a log alone has each key's newest record, which is the last one in its partition.
        """
        kind, name = table.partition("_")[0], f"technical.{table}"
        is_text, is_state = self._schedule.format == "text", self._schedule.has_state(kind)
        rules = infinite_rules(self._schedule.choices.infinite)
        is_null = next((one.is_null for one in rules if one.pattern.fullmatch(name)), False)
        wanted = store.columns(table, is_state=is_state, is_text=is_text)
        columns = store.held(table, is_null=is_null, is_state=is_state, is_text=is_text)
        exists = self.session.catalog.tableExists
        if is_state:
            return wanted, set(self.sql(f"SELECT {columns} FROM {name}")) if exists(name) else set()
        if exists(name):
            self.problems.append(f"{name} is to have a log only, and has a current state")
        if not exists(f"{name}_log"):
            return wanted, set()
        twice = self.sql(
            f"SELECT partition, offset FROM {name}_log GROUP BY topic_id, partition, offset HAVING count(*) > 1 LIMIT 3"
        )
        if twice:
            self.problems.append(f"{name}_log has records more than once: {twice}")
        row = "from_json(value_text, 'after STRUCT<id: BIGINT, n: INT>').after" if is_text else "after"
        key = "key_text" if is_text else "key.id"
        newest = f"""
            SELECT max_by(struct(op, {row} AS row), offset) AS newest FROM {name}_log
            WHERE op IN ('c', 'u', 'r', 'd') GROUP BY topic_id, partition, {key}
        """
        return wanted, set(
            self.sql(f"SELECT {columns} FROM (SELECT inline(array(newest)) FROM ({newest})) WHERE op <> 'd'")
        )

    def sql(self, statement: str) -> list[tuple[Any, ...]]:
        return [tuple(row) for row in self.session.sql(statement).collect()]

    def own(self, table: str, topic: str) -> None:
        """Say to which topic a table belongs."""
        self.session.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('tidings.topic' = '{topic}')")

    @property
    def has_set_aside(self) -> bool:
        """Whether a topic is set aside."""
        if not self.session.catalog.tableExists("tidings.set_aside"):
            return False
        return bool(self.sql(f"SELECT 1 FROM tidings.set_aside WHERE topic LIKE '{self.source}.%'"))

    def watermark(self) -> int | None:
        """The source's; all of its tables have to say the same."""
        if not self.session.catalog.tableExists("tidings.watermark"):
            return None
        found = self.sql(
            f"SELECT DISTINCT commit_lsn FROM tidings.watermark WHERE topic LIKE '{self.source}.%'"
        )
        if len(found) > 1:
            self.problems.append(f"the tables have several watermarks: {found}")
        return found[0][0] if found else None

    def strike(self, point: str, patience: float, *, forget: bool = False) -> None:
        """Have it die when a point is passed, if that comes within a few batches: one may have nothing of its table."""
        self.arm(point, forget=forget)
        last = self.batches + _FAULT_BATCHES
        self.wait(lambda: not self.armed or self.batches >= last, patience)
        self.disarm()

    def claimed_too_much(self, tables: Mapping[str, str]) -> str | None:
        """What an END marker at or below the watermark counts, and the logs do not hold.

        Args:
            tables: of the database, as END markers name them, and of the lake, without the namespace.
        """
        watermark = self.watermark()
        if watermark is None:
            return None
        logs = " UNION ALL ".join(
            f"SELECT '{collection}' AS tab, tx_id, count(DISTINCT total_order) AS n"
            f" FROM technical.{table}_log WHERE total_order IS NOT NULL GROUP BY tx_id"
            for collection, table in tables.items()
            if self.session.catalog.tableExists(f"technical.{table}_log")
        )
        if not logs:
            return f"the watermark is {watermark}, and there is no log"
        missing = self.sql(f"""
            SELECT e.commit_lsn, e.tx_id, e.tab, e.wanted, r.n
            FROM (SELECT DISTINCT commit_lsn, tx_id, c.data_collection AS tab, c.event_count AS wanted
                  FROM (SELECT commit_lsn, tx_id, explode(data_collections) AS c FROM tidings.transaction_log
                        WHERE topic = '{self.source}.transaction' AND status = 'END' AND commit_lsn <= {watermark})) e
            LEFT JOIN ({logs}) r ON r.tab = e.tab AND r.tx_id = e.tx_id
            WHERE e.tab IN ({", ".join(f"'{collection}'" for collection in tables)}) AND coalesce(r.n, 0) < e.wanted
        """)
        return f"at watermark {watermark} there are missing: {missing[:3]}" if missing else None


def _is_crash(error: BaseException | None) -> bool:
    seen = 0
    while error is not None and seen < 10:
        if isinstance(error, CrashError) or "CrashError" in str(error):
            return True
        error, seen = error.__cause__ or error.__context__, seen + 1
    return False
