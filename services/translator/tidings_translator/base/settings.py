"""Settings of the two stages, read from ``TIDINGS_*``."""

import socket
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from tidings_service.disk import DEFAULT_FREE_BYTES
from tidings_service.kafka_settings import KafkaSettings
from tidings_service.registry_settings import RegistrySettings
from tidings_translator.base.naming import NAME, ORIGINAL, group, ledger_topic, prefix, shadow_topic

DAY_SECONDS = 86_400.0
_TEXT = Annotated[str, Field(min_length=1)]


class StageSettings(KafkaSettings, RegistrySettings):
    """What both stages can be told."""

    domain: _TEXT
    """The Python package with aggregates and rules, for example tidings_shop.domain."""
    source: _TEXT
    """The topic prefix of the source, Debezium's topic.prefix."""
    instance: _TEXT = Field(default_factory=socket.gethostname)
    """A name for this process that is its alone and stays the same over restarts; default: the host's name."""
    generation: Annotated[str, Field(pattern=f"^{NAME}$")] = ORIGINAL
    """The generation this process works for, as `tidings-translator generations start` named it."""
    replication: Annotated[int, Field(ge=1, le=100)] = 1
    """Replication factor of topics that this service creates."""
    partitions: Annotated[int, Field(ge=1, le=10_000)] = 4
    """Partitions of change set, state and business topics when they are created."""
    raised_partitions: Literal["refuse", "ignore"] = "refuse"
    """What to do when change sets or states have got more partitions: stop, or go on in those that there were."""
    session_timeout_seconds: Annotated[float, Field(ge=6, le=300)] = 10.0
    """How long the group waits for a member that has gone silent."""
    transaction_timeout_seconds: Annotated[float, Field(ge=1, le=300)] = 20.0
    """After this long Kafka aborts a transaction whose producer has gone silent."""
    transaction_deadline_seconds: Annotated[float, Field(ge=5, le=600)] = 45.0
    """After this long without an answer to a commit the process ends, to be started again."""

    dead_letters_days: Annotated[float, Field(ge=0, le=36_500)] = 0.0
    """How long Kafka keeps dead letters, with the rows in them, whether or not somebody has dealt with them; 0 keeps them until
    then."""

    @property
    def change_sets_topic(self) -> str:
        return f"{prefix(self.source, self.generation)}.change-sets"

    @property
    def sequencer_state_topic(self) -> str:
        return f"{prefix(self.source, self.generation)}.sequencer-state"

    @property
    def state_topic(self) -> str:
        return f"{prefix(self.source, self.generation)}.state"

    @property
    def dead_letters_topic(self) -> str:
        return f"{prefix(self.source, self.generation)}.dead-letters"

    @property
    def transaction_topic(self) -> str:
        return f"{self.source}.transaction"

    @property
    def ledger_topic(self) -> str:
        return ledger_topic(self.source)

    def shadow_topic(self, topic: str) -> str:
        """Where this generation writes the events for a business topic while it does not publish."""
        return shadow_topic(self.source, self.generation, topic)


class SequencerSettings(StageSettings):
    """Settings of tidings-sequencer."""

    http_port: int = Field(default=8091, ge=0, le=65535)
    """Port for /metrics, /healthz and /readyz; 0 takes a free one."""
    max_buffered_rows: Annotated[int, Field(ge=100)] = 500_000
    """Rows held in memory for transactions that are not complete; one with more than a quarter of these goes to disk."""
    max_buffered_bytes: Annotated[int, Field(ge=1_000_000)] = 256 * 1024 * 1024
    """Bytes of memory that these rows may take, whichever is reached first; a row takes about 2 kB and its values."""
    spill_directory: Path | None = None
    """Where large transactions wait on disk (about as large there as in JSON); default: the system's temporary directory."""
    spill_max_bytes: Annotated[int, Field(ge=1_000_000)] | None = None
    """How many bytes they may take there together; the sequencer stops before it writes more. Default: as many as there is room."""
    spill_free_bytes: Annotated[int, Field(ge=0)] = DEFAULT_FREE_BYTES
    """How many bytes of that disk must be left free, for whoever else is on it."""
    read_ahead_rows: Annotated[int, Field(ge=10)] = 20_000
    """Rows of one partition that may wait for the transaction topic before the partition is paused."""
    discovery_seconds: Annotated[float, Field(gt=0, le=3600)] = 3.0
    """How often to look for topics of tables that had no rows yet."""
    malformed_grace_seconds: Annotated[float, Field(ge=0, le=3600)] = 5.0
    """How long after its END a transaction's rows may still be on their way to Kafka; after that, and when all partitions of its tables were read to the end, one that lacks unreadable rows is given up as a whole."""
    on_missing_rows: Literal["wait", "give_up"] = "wait"
    """What to do with a transaction whose rows are not on their topics, although nothing explains it: wait until they come, which stops all that is behind it, or give it up as a whole after TIDINGS_MISSING_ROWS_SECONDS."""
    missing_rows_seconds: Annotated[float, Field(gt=0, le=86_400)] = 60.0
    """After so long the log says that such a transaction lacks rows, or it is given up; counted from when all partitions of its tables had been read to the end."""

    snapshot_skew_seconds: Annotated[float, Field(ge=0, le=3600)] = 2.0
    """How far the clocks of the connector and of the database may differ: a blocking snapshot's rows wait for a transaction that was committed so long after they were read."""

    trace_column: _TEXT | None = None
    """A column that holds a transaction's trace context (such as tracingspancontext), where headers do not."""
    max_unreadable_in_a_row: Annotated[int, Field(ge=1)] = 100
    """As many unreadable records of one topic one after the other are not bad records but a wrong set-up: it stops."""

    change_sets_days: Annotated[float, Field(ge=0, le=36_500)] = 30.0
    """How long Kafka keeps change sets: longer than translators are ever away; 0 keeps them for ever."""
    transactions: Literal["whole", "none"] = "whole"
    """whole: the source has provide.transaction.metadata=true; none: it has not, and every row is translated for itself."""

    @property
    def give_up_seconds(self) -> float | None:
        """After how long a transaction is given up whose missing rows nothing explains; None is never."""
        return self.missing_rows_seconds if self.on_missing_rows == "give_up" else None

    @property
    def part_rows(self) -> int:
        """About as many rows of a large transaction are in memory when its change sets are made."""
        return max(self.max_buffered_rows // 8, 1)

    @property
    def part_bytes(self) -> int:
        """And as many bytes."""
        return max(self.max_buffered_bytes // 16, 1)

    @property
    def group(self) -> str:
        return group("sequencer", self.source, self.generation)


class TranslatorSettings(StageSettings):
    """Settings of tidings-translator."""

    http_port: int = Field(default=8092, ge=0, le=65535)
    """Port for /metrics, /healthz and /readyz; 0 takes a free one."""
    cloudevents_mode: Literal["binary", "structured"] = "binary"
    """binary: attributes in headers, Avro values; structured: one JSON document a value, for consumers without Avro."""
    on_failure: str = ""
    """Another policy than in the domain for single rules: rule=skip|hold|stop, with commas; *=... is every other rule."""
    on_bad_rows: Literal["skip", "hold", "stop"] = "skip"
    """What to do when a row does not fit the domain: leave its change set out, hold the aggregate, or stop."""
    on_missing_references: Literal["skip", "hold", "stop"] = "hold"
    """What to do when a row's required reference is not known: leave its change set out, hold the aggregate, or stop."""
    max_held_bytes: Annotated[int, Field(ge=1_000)] = 64 * 1024 * 1024
    """As many bytes of change sets of held aggregates may wait in one partition; more stop the translator."""
    readers_seconds: Annotated[float, Field(ge=0, le=86_400)] = 30.0
    """How often Kafka is asked who reads the business topics, for the metrics; 0 never."""

    @property
    def group(self) -> str:
        return group("translator", self.source, self.generation)
