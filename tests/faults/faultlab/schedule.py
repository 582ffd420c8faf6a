"""Random schedules: a connector, traffic, a few faults, peace, a verdict. One seed makes one schedule.

Times in a schedule are times of faults (how long a link is held); nothing that is checked depends on them.
"""

import contextlib
import json
import os
import random
import secrets
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import psycopg

from faultlab.fault import Fault
from faultlab.history import confirmed_lsn, create_tables, final_rows, read_history
from faultlab.proxy import Proxy
from faultlab.servers import Lab, Worker
from faultlab.traffic import Traffic
from faultlab.verdict import Ends, Moment, Verdict, judge, read_topics
from tidings_capture.fault_points import POINTS
from tidings_stack.postgres import create_database, drop_database
from tidings_stack.waiting import wait_for

STREAM_POINTS = [p for p in POINTS if not p.startswith(("config.", "snapshot.", "slot.created", "window."))]
SNAPSHOT_POINTS = [p for p in POINTS if p.startswith(("snapshot.", "slot.created"))]


@dataclass(frozen=True, slots=True)
class Schedule:
    """What a seed stands for."""

    seed: int
    faults: tuple[Fault, ...]
    options: dict[str, str]
    rows: int
    """In table a before the connector."""

    @property
    def snapshot(self) -> bool:
        return self.options.get("snapshot.mode") == "initial"


LIGHT = (
    *("kill_task", "kill_worker", "stop_worker", "point", "point", "point", "freeze_task"),
    *("pg_cut", "pg_hold", "pg_delay", "pg_cut_after", "pg_lose"),
    *("kafka_cut", "kafka_hold", "kafka_delay", "kafka_cut_after", "kafka_lose"),
    *("terminate", "restart", "pause", "reconfigure"),
)
HEAVY = ("pg_immediate", "kafka_kill", "kafka_restart")


def make_schedule(
    seed: int, *, faults: int = 4, heavy: float = 0.5, options: dict[str, str] | None = None
) -> Schedule:
    """The schedule of a seed.

    Args:
        faults: how many at most.
        heavy: how likely one of them stops a server.
    """
    chance = random.Random(seed)
    snapshot = chance.random() < 0.3
    kinds = [chance.choice(LIGHT) for _ in range(chance.randint(2, faults))]
    if chance.random() < heavy:
        kinds[chance.randrange(len(kinds))] = chance.choice(HEAVY)
    chosen: dict[str, str] = {}
    if snapshot:
        chosen["snapshot.mode"] = "initial"
        chosen["snapshot.max.threads"] = chance.choice(("1", "2"))
    if chance.random() < 0.3:
        chosen["topic.creation.default.partitions"] = "3"
        chosen["topic.creation.default.replication.factor"] = "1"
    if chance.random() < 0.3:
        chosen["tidings.streaming.mode"] = "on"
        chosen["tidings.streaming.memory.bytes"] = "100000"
    made = []
    for number, kind in enumerate(kinds):
        points = SNAPSHOT_POINTS if snapshot and number == 0 else STREAM_POINTS
        made.append(
            Fault(
                kind,
                seconds=chance.uniform(0.01, 0.15) if kind.endswith("delay") else chance.uniform(0.2, 2.5),
                amount=chance.randint(1, 40_000) if kind.endswith("cut_after") else chance.randint(0, 6),
                point=chance.choice(points) if kind == "point" else "",
                records=chance.randint(20, 300),
            )
        )
    return Schedule(
        seed, tuple(made), {**chosen, **(options or {})}, chance.randint(5_000, 30_000) if snapshot else 0
    )


def connector_config(lab: Lab, name: str) -> dict[str, str]:
    """A connector on the database `name`, whose topics, slot and publication are called so, too."""
    return {
        "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
        "tasks.max": "1",
        "plugin.name": "pgoutput",
        "database.hostname": "127.0.0.1",
        "database.port": str(lab.pg_proxy.port),
        "database.user": "postgres",
        "database.password": lab.pg.password,
        "database.dbname": name,
        "topic.prefix": name,
        "slot.name": name,
        "publication.name": name,
        "publication.autocreate.mode": "filtered",
        "table.include.list": r"public\.(a|b)",
        "provide.transaction.metadata": "true",
        "snapshot.mode": "no_data",
        "status.update.interval.ms": "500",
        "slot.max.retries": "60",
        "slot.retry.delay.ms": "250",
        "errors.retry.delay.initial.ms": "100",
        "errors.retry.delay.max.ms": "500",
        "tidings.receive.timeout.ms": "4000",
    }


@dataclass
class Outcome:
    """How a schedule ended."""

    schedule: Schedule
    verdict: Verdict
    seconds: float
    transactions: int
    restarts: int = 0
    moments: list[Moment] = field(default_factory=list)


class Run:
    """One schedule on a lab. The lab is as it was when `run` has returned.

    Args:
        strict: every fault has to happen, and its consequence to be over before the next: for schedules that are written
            down. A random one goes on when a point is never passed.
    """

    def __init__(
        self,
        lab: Lab,
        schedule: Schedule,
        say: Callable[[str], None] = lambda _: None,
        *,
        strict: bool = False,
    ) -> None:
        self.lab = lab
        self._strict = strict
        self.schedule = schedule
        self.name = f"f{schedule.seed}x{secrets.token_hex(3)}"
        self._say = say
        self._moments: list[Moment] = []
        self._url = ""
        self._ends = Ends(lab.kafka.bootstrap)
        self._log_began = lab.worker.log.stat().st_size
        self._asked = False

    def config(self) -> dict[str, str]:
        """The connector's configuration."""
        return connector_config(self.lab, self.name) | self.schedule.options

    def run(self) -> Outcome:
        """Run it to the verdict.

        Raises:
            AssertionError: the connector did not come back, or did not catch up.
        """
        began = time.monotonic()
        self._url = create_database(self.lab.pg.url, self.name)
        history = f"{self.name}_history"
        try:
            create_tables(self._url, history, self.schedule.rows)
            first = self.schedule.faults[0]
            if self.schedule.snapshot and first.kind == "point":
                self.lab.worker.arm(first.point)
            self.lab.worker.ask("PUT", f"/connectors/{self.name}/config", self.config(), 200, 201)
            if not self.schedule.snapshot:
                self.lab.worker.wait_task(self.name)
            with Traffic(self._url, self.schedule.seed) as traffic:
                for fault in self.schedule.faults:
                    if fault.records:
                        self._more_records(fault.records)
                    self._say(f"  {time.monotonic() - began:.1f} {fault}")
                    self._strike(fault)
                    self._look()
            outcome = self._settle(history, began, traffic.transactions)
        finally:
            self._clean()
        return outcome

    def _settle(self, history: str, began: float, transactions: int) -> Outcome:
        self._say(f"  {time.monotonic() - began:.1f} peace")
        self.lab.heal()
        self.lab.worker.wait_task(self.name)
        self._say(f"  {time.monotonic() - began:.1f} it runs")
        with psycopg.connect(self._url, autocommit=True) as connection:
            connection.execute("INSERT INTO a VALUES (-1, 2000000000)")
        truth = read_history(self._url, history)
        last = truth[-1].end_lsn

        def done() -> bool:
            state = self.lab.worker.task(self.name)
            assert "no further attempt" not in state.get("trace", ""), state["trace"]
            if (
                self._asked
                and '"incremental snapshot finished"'
                not in self.lab.worker.log.read_bytes()[self._log_began :].decode()
            ):
                return False
            return confirmed_lsn(self._url, self.name) >= last

        try:
            wait_for(f"the slot of {self.name} to be confirmed up to the end", done)
        except AssertionError as error:
            state = self.lab.worker.task(self.name)
            raise AssertionError(f"{error}; {state}\n{self.lab.worker.tail()}") from None
        self._look()
        self._say(f"  {time.monotonic() - began:.1f} caught up")
        decode = self.lab.decoder() if "AvroConverter" in str(self.schedule.options) else json.loads
        records = read_topics(self.lab.kafka.bootstrap, self.name, decode)
        first_streamed = 0
        if self.schedule.snapshot:
            first_streamed = _before_stream(truth, records, self.name)
        verdict = judge(
            self.name,
            truth,
            records,
            final_rows(self._url),
            self._moments,
            exactly_once=self.schedule.options.get("exactly.once.support") == "required",
            from_lsn=first_streamed,
        )
        return Outcome(self.schedule, verdict, time.monotonic() - began, transactions, moments=self._moments)

    def _clean(self) -> None:
        self._ends.close()
        with contextlib.suppress(Exception):
            self.lab.heal()
            self.lab.worker.ask("DELETE", f"/connectors/{self.name}", None, 204, 404)
        drop_database(self.lab.pg.url, self.name)

    def _more_records(self, count: int) -> None:
        """Wait for records; not for ever: some faults end with a connector that is down for a while."""
        first = sum(self._ends.of(self.name).values())
        deadline = time.monotonic() + 3
        while time.monotonic() < deadline and sum(self._ends.of(self.name).values()) < first + count:
            time.sleep(0.2)

    def _look(self) -> None:
        """The slot first, then the topics: what the slot has let go of must be there."""
        try:
            confirmed = confirmed_lsn(self._url, self.name)
            ends = self._ends.of(self.name)
            if ends:
                self._moments.append(Moment(confirmed, ends))
        except psycopg.OperationalError:
            pass  # there is nothing to see while the server starts

    # Faults

    def _strike(self, fault: Fault) -> None:
        lab, kind = self.lab, fault.kind
        server, _, how = kind.partition("_")
        if server in {"pg", "kafka"} and hasattr(self, f"_link_{how}"):
            getattr(self, f"_link_{how}")(lab.pg_proxy if server == "pg" else lab.kafka_proxy, fault)
            return
        getattr(self, f"_{kind}")(fault)

    def _link_cut(self, proxy: Proxy, _: Fault) -> None:
        proxy.cut()

    def _link_hold(self, proxy: Proxy, fault: Fault) -> None:
        proxy.hold()
        time.sleep(fault.seconds)
        proxy.heal()

    def _link_delay(self, proxy: Proxy, fault: Fault) -> None:
        proxy.delay(fault.seconds)
        self._more_records(fault.amount * 50)
        proxy.heal()

    def _link_cut_after(self, proxy: Proxy, fault: Fault) -> None:
        proxy.cut_after(fault.amount)
        self._more_records(50)

    def _link_lose(self, proxy: Proxy, fault: Fault) -> None:
        proxy.lose()
        self._more_records(fault.amount * 50)

    def _kill_task(self, _: Fault) -> None:
        pid = self.lab.worker.task_pid()
        if pid is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def _kill_worker(self, _: Fault) -> None:
        self.lab.worker.kill()
        self.lab.worker.start()

    def _stop_worker(self, _: Fault) -> None:
        self.lab.worker.stop()
        self.lab.worker.start()

    def _freeze_task(self, fault: Fault) -> None:
        pid = self.lab.worker.task_pid()
        if pid is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGSTOP)
                time.sleep(fault.seconds)
                os.kill(pid, signal.SIGCONT)

    def _point(self, fault: Fault) -> None:
        worker = self.lab.worker
        worker.arm(fault.point, skip=fault.amount)
        if self._strict:
            wait_for(f"{fault.point} to be passed", lambda: not worker.armed)
            return
        deadline = time.monotonic() + 4
        while worker.armed and time.monotonic() < deadline:
            time.sleep(0.02)
        worker.disarm()

    def _terminate(self, _: Fault) -> None:
        with psycopg.connect(self.lab.pg.url, autocommit=True) as connection:
            connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'tidings-capture'"
            )

    def _restart(self, _: Fault) -> None:
        self.lab.worker.request("POST", f"/connectors/{self.name}/restart?includeTasks=true")

    def _pause(self, fault: Fault) -> None:
        self.lab.worker.request("PUT", f"/connectors/{self.name}/pause")
        time.sleep(fault.seconds / 4)
        self.lab.worker.ask("PUT", f"/connectors/{self.name}/resume", None, 202, 204)

    def _reconfigure(self, fault: Fault) -> None:
        changed = self.config() | {"poll.interval.ms": str(100 + fault.amount)}
        self.lab.worker.ask("PUT", f"/connectors/{self.name}/config", changed, 200)

    def _pg_immediate(self, _: Fault) -> None:
        self.lab.crash_postgres()
        self.lab.pg.start()

    def _kafka_kill(self, _: Fault) -> None:
        self.lab.kafka.kill()
        self.lab.kafka.start()

    def _kafka_freeze(self, fault: Fault) -> None:
        """The host of the broker stands still; when it goes on, its controller takes it for dead, and it has led nothing."""
        pid = self.lab.kafka.pid
        assert pid is not None
        os.kill(pid, signal.SIGSTOP)
        time.sleep(fault.seconds)
        os.kill(pid, signal.SIGCONT)

    def _point_lose(self, fault: Fault) -> None:
        """At a point the network forgets the task's connections, and the host that the task is on dies."""
        worker = self.lab.worker
        worker.arm(fault.point, action="freeze")
        wait_for(f"{fault.point} to be passed", lambda: not worker.armed)
        self.lab.pg_proxy.lose()
        pid = worker.task_pid()
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        wait_for("the task to be another", lambda: worker.task_pid() not in {pid, None})

    def _kafka_disk_full(self, _: Fault) -> None:
        """The broker stops itself when it cannot write; it is started when there is room again."""
        self.lab.fill_disk()
        wait_for("the broker to give up", lambda: not self.lab.kafka.running)
        self.lab.kafka.start()

    def _snapshot(self, fault: Fault) -> None:
        """Ask for an incremental snapshot, within which a point is passed."""
        self.lab.worker.arm(fault.point, skip=fault.amount)
        with psycopg.connect(self._url, autocommit=True) as connection:
            connection.execute(
                "INSERT INTO signals VALUES (%s, 'execute-snapshot', %s)",
                (
                    secrets.token_hex(4),
                    '{"type": "incremental", "data-collections": ["public.a", "public.b"]}',
                ),
            )
        self._asked = True
        wait_for(f"{fault.point} to be passed", lambda: not self.lab.worker.armed)

    def _registry_refuse(self, fault: Fault) -> None:
        """The registry is away while a table gets a column, so that a schema has to be registered."""
        proxy = self.lab.registry_proxy
        assert proxy is not None
        proxy.refuse()
        with psycopg.connect(self._url, autocommit=True) as connection:
            connection.execute(f"ALTER TABLE a ADD COLUMN c{secrets.token_hex(3)} int")
        wait_for(
            "the task to fail for want of the registry",
            lambda: "registry" in (self.lab.worker.task(self.name).get("trace") or ""),
        )
        time.sleep(fault.seconds)
        proxy.heal()
        self.lab.worker.wait_task(self.name)

    def _registry_kill(self, _: Fault) -> None:
        """What is registered already is known: the registry is not needed for it."""
        self.lab.registry.kill()
        self._more_records(50)
        assert self.lab.worker.task(self.name)["state"] == "RUNNING"
        self.lab.registry.start()

    def _owner(self) -> tuple[Worker, Worker]:
        """The one of the two workers that runs the task, and the other one."""
        first, second = self.lab.worker, self.lab.partner
        assert second is not None

        def running() -> str | None:
            task = second.task(self.name)
            return str(task["worker_id"]) if task["state"] == "RUNNING" else None

        owner = wait_for("one of two workers to run the task", running)
        return (first, second) if owner == first.id else (second, first)

    def _taken_over(self, by: Worker, former: Worker) -> None:
        def taken() -> bool:
            # Its own task: what it says of another's may be of before it was cut off.
            return by.task_pid() is not None and by.task(self.name)["state"] == "RUNNING"

        wait_for("the other worker to take over", taken)
        wait_for("the former task to be over", lambda: former.task_pid() is None)

    def _cut_off(self, _: Fault) -> None:
        """The worker that has the task is cut off from Kafka, and its connections to the server are forgotten."""
        worker, other = self._owner()
        if worker is self.lab.partner:  # whose way to Kafka is not through the proxy
            self._freeze_owner(Fault("freeze_owner"))
            worker, other = self._owner()
        self.lab.kafka_proxy.hold()
        self.lab.pg_proxy.lose()
        self._taken_over(other, worker)
        self.lab.kafka_proxy.heal()
        self.lab.pg_proxy.heal()

    def _freeze_owner(self, _: Fault) -> None:
        """The worker that has the task stands still; its task does not."""
        worker, other = self._owner()
        wait_for("the two workers to know of each other", lambda: worker.knows(other))
        os.kill(worker.pid, signal.SIGSTOP)
        try:
            self._taken_over(other, worker)
        finally:
            os.kill(worker.pid, signal.SIGCONT)

    def _kafka_restart(self, _: Fault) -> None:
        self.lab.kafka.stop()
        self.lab.kafka.start()


def _before_stream(truth: list, records: dict, prefix: str) -> int:  # type: ignore[type-arg]
    """The end of the last transaction before the first that the topics hold: what is up to there is in the snapshot."""
    streamed = {
        r.value["transaction"]["id"].partition(":")[0]
        for (topic, _), found in records.items()
        if topic.startswith(f"{prefix}.public.")
        for r in found
        if r.value is not None and r.value["transaction"] is not None
    }
    before = 0
    for transaction in truth:
        if transaction.txid in streamed:
            break
        before = transaction.end_lsn
    return before
