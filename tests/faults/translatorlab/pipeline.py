"""A store on the lab's servers: its database, its connector, its stages, and what they publish."""

import contextlib
import json
import secrets
from collections.abc import Iterator
from typing import Literal

import psycopg
from confluent_kafka import (
    ConsumerGroupTopicPartitions,
    KafkaException,
    Producer,
)
from confluent_kafka.admin import AdminClient, NewPartitions
from faultlab.servers import Lab
from faultlab.topics import create_topics

from tidings_stack.postgres import create_database, drop_database
from tidings_stack.waiting import wait_for
from tidings_translator.base.naming import group, prefix
from translatorlab.poison import Place, letters
from translatorlab.published import Published, Verdict
from translatorlab.stages import Stages, published_ends
from translatorlab.store import TABLES, create_store
from translatorlab.story import story
from translatorlab.truth import count, expected_events

Form = Literal["json", "avro"]
_PARTITIONS, _NEW_PARTITIONS = 3, 12
"""Of a table's topic. Where topics are new, more partitions get their first row while the group rebalances."""
_LITTLE = {"TIDINGS_READ_AHEAD_ROWS": "10", "TIDINGS_MAX_BUFFERED_ROWS": "100"}
"""So little may wait for its transaction that most of what is fetched is with Faust, which throws it away at a rebalance."""
_CATCH_UP_SECONDS = 240.0
"""How long nothing may be published before all is: a machine with too much to do gets there, too."""


class Pipeline(Stages):
    """Everything that belongs to one name. Stages of it are started and stopped by faults; checks go past the proxies.

    Args:
        new_topics: capture makes the tables' topics while the stages run, each with its first row, which comes late for some.
            The groups rebalance while what is committed of partitions whose first row still waits is offset 0.
    """

    def __init__(
        self, lab: Lab, form: Form, settings: dict[str, str] | None = None, *, new_topics: bool = False
    ) -> None:
        self.lab = lab
        self.name = f"s{secrets.token_hex(4)}"
        self._slot = f"{self.name}_order"
        directory = lab.directory / self.name
        directory.mkdir()
        self._second = directory / "second"
        assert lab.registry_proxy is not None
        registry = f"http://127.0.0.1:{lab.registry_proxy.port}/apis/ccompat/v7"
        own = {
            "TIDINGS_KAFKA": lab.kafka.proxied,
            "TIDINGS_REGISTRY": registry,
            "TIDINGS_SOURCE": self.name,
            "TIDINGS_LAB_NAME": self.name,
            "TIDINGS_MALFORMED_GRACE_SECONDS": "0.5",
            "TIDINGS_SESSION_TIMEOUT_SECONDS": "6",
            "TIDINGS_TRANSACTION_TIMEOUT_SECONDS": "6",
            "TIDINGS_TRANSACTION_DEADLINE_SECONDS": "30",
            "TIDINGS_RAISED_PARTITIONS": "ignore",
            "TIDINGS_LAB_SECOND": str(self._second),
            **(_LITTLE if new_topics else {}),
            **(settings or {}),
        }
        super().__init__(self.name, directory, own, bootstrap=lab.kafka.bootstrap)
        self.poisoned: set[Place] = set()
        """Records that must have become dead letters."""
        self.published = Published(lab.kafka.bootstrap, self.name)
        self._form: Form = form
        self.new_topics = new_topics
        self.runs = 0
        """Of schedules, so far."""
        self.partitions = _NEW_PARTITIONS if new_topics else _PARTITIONS
        self.url = create_database(lab.pg.url, self.name)
        create_store(self.url, self._slot)
        tables = () if new_topics else TABLES
        create_topics(
            lab.kafka.bootstrap, self.name, [f"public.{table}" for table in tables], self.partitions
        )
        lab.worker.ask("PUT", f"/connectors/{self.name}/config", self._connector(), 200, 201)
        lab.worker.wait_task(self.name)
        for kind in ("sequencer", "translator"):
            self.stage(kind, 1).start()

    def expire(self) -> int:
        """Delete what the stages have committed, as retention does: not one record is needed any more. How many."""
        admin = AdminClient({"bootstrap.servers": self.lab.kafka.bootstrap})
        places = []
        for kind in ("sequencer", "translator"):
            asked = ConsumerGroupTopicPartitions(group(kind, self.name, self.generation))
            [future] = admin.list_consumer_group_offsets([asked]).values()
            places += [one for one in future.result().topic_partitions or () if one.offset > 0]
        if not places:
            return 0
        return sum(future.result().low_watermark for future in admin.delete_records(places).values())

    def change_domain(self) -> None:
        """Let stages that start from now on have the other version of the domain."""
        if self._second.exists():
            self._second.unlink()
        else:
            self._second.touch()

    def widen(self) -> None:
        """Give the live generation's change sets and states a partition more.

        Raises:
            KafkaException: the broker is away, or refuses.
        """
        admin = AdminClient({"bootstrap.servers": self.lab.kafka.bootstrap})
        start = prefix(self.name, self.generation)
        known = admin.list_topics(timeout=10).topics
        topics = [f"{start}.{what}" for what in ("change-sets", "state")]
        wanted = [
            NewPartitions(topic, len(known[topic].partitions) + 1) for topic in topics if topic in known
        ]
        for made in admin.create_partitions(wanted).values() if wanted else ():
            made.result(60)

    def _connector(self) -> dict[str, str]:
        lab = self.lab
        formed = lab.avro() if self._form == "avro" else {"decimal.handling.mode": "string"}
        return {
            **lab.connector(self.name, f"{'|'.join(TABLES)}|elsewhere|signals"),
            "signal.data.collection": "public.signals",
            "incremental.snapshot.chunk.size": "64",
            "topic.creation.default.partitions": str(self.partitions),
            "topic.creation.default.replication.factor": "1",
            # Payments of nothing, which END counts and nobody gets: some are filtered, of others the filter fails.
            "errors.tolerance": "all",
            "transforms": "nothing",
            "transforms.nothing.type": "io.debezium.transforms.Filter",
            "transforms.nothing.language": "jsr223.python",
            "transforms.nothing.condition": (
                "value.after is None or value.after.number > 0 or (value.after.number < -1000 and 1 / 0 > 0)"
            ),
            "transforms.nothing.topic.regex": r".*\.payments",
            **formed,
        }

    def topics(self) -> list[str]:
        """Topics of tables that there are; none while the broker is away."""
        admin = AdminClient({"bootstrap.servers": self.lab.kafka.bootstrap, "log_level": 0})
        try:
            known = admin.list_topics(timeout=10).topics
        except KafkaException:
            return []
        return [topic for table in TABLES if (topic := f"{self.name}.public.{table}") in known]

    def write_unreadable(self, table: str | None, partition: int) -> None:
        """Put a record that nobody can read on a table's topic, or among the END markers: it is nobody's row, nobody's END."""
        topic = f"{self.name}.transaction" if table is None else f"{self.name}.public.{table}"
        if table is not None and topic not in self.topics():
            return  # the broker would make it, with partitions of its own
        producer = Producer({"bootstrap.servers": self.lab.kafka.bootstrap, "log_level": 0})
        producer.produce(topic, b"nobody can read this", b"x", 0 if table is None else partition)
        producer.flush(5)  # a broker that is away does without it

    def resnapshot(self, kind: str = "incremental") -> None:
        """Ask for a snapshot of everything: it must be nobody's news."""
        tables = json.dumps([f"public.{table}" for table in TABLES])
        with psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute(
                "INSERT INTO signals VALUES (%s, 'execute-snapshot', %s)",
                (secrets.token_hex(4), f'{{"type": "{kind}", "data-collections": {tables}}}'),
            )

    def published_ends(self) -> int:
        """How far the change sets and the business topics have been written: cheap, and grows with what is done."""
        return published_ends(self.lab.kafka.bootstrap, self.name, schema="public")

    def settle(self) -> Verdict:
        """Let everything be told, and compare.

        Raises:
            AssertionError: the connector does not come back.
        """
        self.lab.heal()
        self.disarm()
        self.lab.worker.wait_task(self.name)
        want = expected_events(self.url, self._slot)
        wanted = count(want)
        self.published.wait(wanted, _CATCH_UP_SECONDS)
        verdict = self.published.judge(want)
        verdict.problems += self._without_letters()
        for order in dict.fromkeys(verdict.wrong[:2]):
            verdict.problems += story(
                self.lab.kafka.bootstrap, self.name, prefix(self.name, self.generation), order
            )
        if verdict.problems:
            verdict.problems += self.states()
        return verdict

    def _without_letters(self) -> list[str]:
        """Poisoned records that nobody has been told of, which they are once the stages have read so far."""

        def missing() -> set[Place]:
            return self.poisoned - letters(self.lab.kafka.bootstrap, f"tidings.{self.name}.")

        if not self.poisoned:
            return []
        with contextlib.suppress(AssertionError):
            wait_for("the dead letters", lambda: not missing(), _CATCH_UP_SECONDS)
        return [
            f"{len(left)} unreadable records without a letter, such as {min(left)}"
            for left in [missing()]
            if left
        ]

    def close(self) -> None:
        """Stop the stages, remove connector and database."""
        super().close()
        with contextlib.suppress(Exception):
            self.lab.heal()
            self.lab.worker.ask("DELETE", f"/connectors/{self.name}", None, 204, 404)
        drop_database(self.lab.pg.url, self.name)


@contextlib.contextmanager
def open_pipeline(
    lab: Lab, form: Form, settings: dict[str, str] | None = None, *, new_topics: bool = False
) -> Iterator[Pipeline]:
    """A pipeline that runs, for as long as a `with` lasts."""
    pipeline = Pipeline(lab, form, settings, new_topics=new_topics)
    try:
        yield pipeline
    finally:
        pipeline.close()
