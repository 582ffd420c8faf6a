"""The metrics of both stages; dashboards and alerts rely on their names."""

from prometheus_client import Counter, Gauge, Histogram

SEQUENCER_ROWS = Counter("tidings_sequencer_rows_total", "Rows read from a technical topic.", ["topic"])
SEQUENCER_TRANSACTIONS = Counter(
    "tidings_sequencer_transactions_total", "Database transactions completed, empty ones included."
)
SEQUENCER_CHANGE_SETS = Counter(
    "tidings_sequencer_change_sets_total", "Change sets written, by aggregate.", ["aggregate"]
)
SEQUENCER_DUPLICATES = Counter(
    "tidings_sequencer_duplicates_total", "Rows and transaction markers that had been seen before."
)
SEQUENCER_OPEN_TRANSACTIONS = Gauge(
    "tidings_sequencer_open_transactions", "Transactions of which not everything has been read."
)
SEQUENCER_OPEN_AGE = Gauge(
    "tidings_sequencer_open_transaction_age_seconds",
    "How long the oldest incomplete transaction has been waiting here.",
)
SEQUENCER_MISSING_ROWS_AGE = Gauge(
    "tidings_sequencer_missing_rows_age_seconds",
    "How long the next transaction has lacked rows although its tables' partitions were read to the end; 0 when none does.",
)
SEQUENCER_BEGAN_ANEW = Counter(
    "tidings_sequencer_began_anew_total",
    "Snapshots with which the stream began anew: the connector tells of nothing that was committed before them.",
)
SEQUENCER_SILENT_TRANSACTIONS = Counter(
    "tidings_sequencer_silent_transactions_total",
    "Transactions without events, since they were committed while a snapshot was read with which the stream began anew.",
)
SEQUENCER_SNAPSHOT_ROWS = Gauge(
    "tidings_sequencer_snapshot_rows_waiting",
    "Rows of a snapshot in the middle of the stream that wait for a transaction that was committed after them.",
)
SEQUENCER_BUFFERED_ROWS = Gauge(
    "tidings_sequencer_buffered_rows", "Rows held for incomplete transactions, in memory and on disk."
)
SEQUENCER_BUFFERED_BYTES = Gauge(
    "tidings_sequencer_buffered_bytes", "Memory that the rows which are not on disk take, about."
)
SEQUENCER_SPILLED_ROWS = Gauge(
    "tidings_sequencer_spilled_rows", "Those of them that are on disk, because their transaction is large."
)
SEQUENCER_SPILLED_BYTES = Gauge(
    "tidings_sequencer_spilled_bytes", "What they, and rows that are being sorted, take on disk now."
)

TRANSLATOR_CHANGE_SETS = Counter(
    "tidings_translator_change_sets_total", "Change sets evaluated, by aggregate.", ["aggregate"]
)
TRANSLATOR_PARTIAL = Counter(
    "tidings_translator_partial_change_sets_total",
    "Change sets for which rules did not run, since the aggregate was there before anything was known of it.",
    ["aggregate"],
)
TRANSLATOR_EVENTS = Counter(
    "tidings_translator_events_total",
    "Business events published, by event and version.",
    ["event", "version"],
)
TRANSLATOR_SHADOW_EVENTS = Counter(
    "tidings_translator_shadow_events_total",
    "Events written to shadow topics by a generation that does not publish, by event and version.",
    ["event", "version"],
)
GENERATION_PUBLISHES = Gauge(
    "tidings_generation_publishes",
    "1 where this process's generation is the one that publishes, 0 for a shadow and for one that is retired.",
    ["generation"],
)
GENERATION_HANDOVER = Gauge(
    "tidings_generation_handover",
    "1 while this process's generation takes part in a promotion that is not finished.",
    ["generation"],
)
TRANSLATOR_DEPRECATED = Gauge(
    "tidings_translator_event_deprecated_timestamp_seconds",
    "From when a live version is deprecated, by its contract (seconds since 1970); absent for others.",
    ["event", "version"],
)
TRANSLATOR_SUNSET = Gauge(
    "tidings_translator_event_sunset_timestamp_seconds",
    "From when a live version may be gone, by its contract (seconds since 1970); absent for others.",
    ["event", "version"],
)
READERS_LEFT_OUT = Gauge(
    "tidings_business_readers_left_out",
    "Consumer groups of business topics that have no series: there are too many.",
)
READER_MEMBERS = Gauge(
    "tidings_business_reader_members",
    "Members of a consumer group that has offsets on a business topic.",
    ["event", "version", "group"],
)
READER_LAG = Gauge(
    "tidings_business_reader_lag_records",
    "Offsets between what a group has committed on a business topic and the topic's end.",
    ["event", "version", "group"],
)
READER_DISTANCE = Gauge(
    "tidings_business_reader_log_start_distance_records",
    "Offsets between the first that is left of a business topic and what a group has committed, in the partition with the"
    " fewest; below 0 it has missed events. Absent while nothing was ever deleted.",
    ["event", "version", "group"],
)
READER_SEEN = Gauge(
    "tidings_business_reader_seen_timestamp_seconds",
    "When the group last had members, or its offsets moved, as far as this process has seen (seconds since 1970).",
    ["event", "version", "group"],
)
TRANSLATOR_LATENCY = Histogram(
    "tidings_translator_event_latency_seconds",
    "From the commit in the database to the commit of the event in Kafka.",
    buckets=(0.025, 0.05, 0.1, 0.15, 0.25, 0.4, 0.6, 1, 2.5, 5, 10, 30, 60, 300),
)
STATE_ENTRIES = Gauge("tidings_state_entries", "Entries of the stage's state store.", ["stage"])

DEAD_LETTERS = Counter(
    "tidings_dead_letters_total", "Records sent to the dead-letter topic.", ["stage", "reason"]
)
DEAD_LETTERS_RESOLVED = Counter(
    "tidings_dead_letters_resolved_total", "Dead letters replayed or discarded by people.", ["outcome"]
)
HELD_AGGREGATES = Gauge(
    "tidings_held_aggregates",
    "Aggregates whose transactions wait for a person, after a failure.",
    ["aggregate"],
)
HELD_CHANGE_SETS = Gauge(
    "tidings_held_change_sets", "Change sets of held aggregates that wait.", ["partition"]
)
HELD_SHARE = Gauge(
    "tidings_held_share",
    "Bytes of change sets that wait, by what may wait (TIDINGS_MAX_HELD_BYTES); at 1 the translator stops.",
    ["partition"],
)
HELD_SINCE = Gauge(
    "tidings_held_oldest_timestamp_seconds",
    "Commit time of the oldest change set that waits (seconds since 1970); 0 when none does.",
)
KAFKA_TRANSACTIONS = Counter(
    "tidings_kafka_transactions_total",
    "Kafka transactions by outcome: committed, retried, dropped (another member owns the partitions).",
    ["stage", "outcome"],
)
KAFKA_TRANSACTION_SECONDS = Histogram(
    "tidings_kafka_transaction_seconds",
    "Duration of a Kafka transaction, from its first record to its commit.",
    ["stage"],
    buckets=(0.005, 0.01, 0.02, 0.04, 0.08, 0.15, 0.3, 0.6, 1.2, 2.5, 5, 10, 30),
)
TOPIC_RETENTION_SHORT = Gauge(
    "tidings_topic_retention_short",
    "1 where somebody has set a topic of ours to keep less than is needed, so that Kafka may delete what was not read.",
    ["topic"],
)
CONSUMER_BEGAN = Gauge(
    "tidings_consumer_began_at_offset",
    "Offset at which this process began to read a partition of which nothing had been committed; above 0: of a trimmed topic.",
    ["stage", "topic", "partition"],
)
CONSUMER_LOG_START = Gauge(
    "tidings_consumer_log_start_offset",
    "The first offset that a partition still has; it grows when retention deletes.",
    ["stage", "topic", "partition"],
)
CONSUMER_DISTANCE = Gauge(
    "tidings_consumer_log_start_distance_records",
    "Offsets between the first that a partition still has and what is committed: what retention may still take unharmed.",
    ["stage", "topic", "partition"],
)
CONSUMER_LAG = Gauge(
    "tidings_consumer_lag_records",
    "Records between what is committed and the end of the partition.",
    ["stage", "topic", "partition"],
)
