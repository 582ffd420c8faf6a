"""One schedule from an empty database to a verdict: a connector, traffic, the faults, peace."""

import contextlib
import json
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import psycopg

from faultlab.history import confirmed_lsn, create_tables, final_rows, read_history
from faultlab.schedule import Schedule
from faultlab.servers import Lab
from faultlab.strikes import Strikes
from faultlab.traffic import Traffic
from faultlab.verdict import Ends, Moment, Verdict, judge, read_topics
from tidings_stack.postgres import create_database, drop_database
from tidings_stack.waiting import wait_for


def connector_config(lab: Lab, name: str) -> dict[str, str]:
    """A connector on the tables of `history`, which tells the server soon what it has."""
    return {**lab.connector(name, "a|b"), "status.update.interval.ms": "500"}


@dataclass
class Outcome:
    """How a schedule ended."""

    schedule: Schedule
    verdict: Verdict
    seconds: float
    transactions: int
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
            create_tables(self._url, history, self.schedule.rows, self.schedule.omissions)
            first = self.schedule.faults[0]
            if self.schedule.snapshot and first.kind == "point":
                self.lab.worker.arm(first.point)
            self.lab.worker.ask("PUT", f"/connectors/{self.name}/config", self.config(), 200, 201)
            if not self.schedule.snapshot:
                self.lab.worker.wait_task(self.name)
            strikes = Strikes(self.lab, self._url, self.config(), self._more_records, strict=self._strict)
            with Traffic(self._url, self.schedule.seed, alters=self.schedule.alters) as traffic:
                for fault in self.schedule.faults:
                    if fault.records:
                        self._more_records(fault.records)
                    self._say(f"  {time.monotonic() - began:.1f} {fault}")
                    strikes.strike(fault)
                    self._look()
            outcome = self._settle(history, began, traffic.transactions, strikes.signals)
        finally:
            self._clean()
        return outcome

    def _settle(self, history: str, began: float, transactions: int, signals: list[str]) -> Outcome:
        self._say(f"  {time.monotonic() - began:.1f} peace")
        self.lab.heal()
        self.lab.worker.wait_task(self.name)
        self._say(f"  {time.monotonic() - began:.1f} it runs")
        with psycopg.connect(self._url, autocommit=True) as connection:
            connection.execute("INSERT INTO a VALUES (-1, 2000000000)")
        omissions = self.schedule.omissions
        truth = read_history(self._url, history, omissions)
        last = truth[-1].end_lsn

        def done() -> bool:
            state = self.lab.worker.task(self.name)
            assert "no further attempt" not in state.get("trace", ""), state["trace"]
            return self._have_ended(signals) and confirmed_lsn(self._url, self.name) >= last

        try:
            wait_for(f"the slot of {self.name} to be confirmed up to the end", done)
        except AssertionError as error:
            state = self.lab.worker.task(self.name)
            raise AssertionError(f"{error}; {state}\n{self.lab.worker.tail()}") from None
        self._look()
        self._say(f"  {time.monotonic() - began:.1f} caught up")
        if signals:
            truth = read_history(
                self._url, history, omissions
            )  # with the windows that were opened and closed meanwhile
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
            omissions=omissions,
        )
        return Outcome(self.schedule, verdict, time.monotonic() - began, transactions, moments=self._moments)

    def _have_ended(self, signals: list[str]) -> bool:
        """Whether all rows have been read that signals asked for."""
        asked, under_way = set(), False
        for line in self.lab.worker.log.read_bytes()[self._log_began :].splitlines():
            with contextlib.suppress(json.JSONDecodeError):  # of librdkafka, or cut off by a kill
                said = json.loads(line)
                match said["event"]:
                    case "incremental snapshot asked for":
                        asked.add(said["signal"])
                        under_way = True
                    case "incremental snapshot goes on":
                        under_way = True
                    case "incremental snapshot finished":
                        under_way = False
        return asked >= set(signals) and not under_way

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
