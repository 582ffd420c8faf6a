"""The job's metrics, by the names that dashboards and alerts rely on."""

from prometheus_client import Counter, Gauge, Histogram

ROWS = Counter("tidings_lakehouse_rows", "Rows written to a table by this process.", ["table"])
TABLE_ROWS = Gauge("tidings_lakehouse_table_rows", "Rows that a table has.", ["table"])
TABLE_BYTES = Gauge(
    "tidings_lakehouse_table_bytes", "Size of a table's files, without old snapshots'.", ["table"]
)
TABLE_FILES = Gauge("tidings_lakehouse_table_files", "Data files of a table.", ["table"])
TABLE_DELETE_FILES = Gauge(
    "tidings_lakehouse_table_delete_files",
    "Files that mark rows of a table's data files as deleted.",
    ["table"],
)
TABLE_DELETED_RATIO = Gauge(
    "tidings_lakehouse_table_deleted_ratio",
    "The part of the rows in a table's data files that is marked as deleted.",
    ["table"],
)
MAINTAINED = Counter(
    "tidings_lakehouse_maintenance",
    "Times that a table's files were looked after (done), that its small ones alone were put together (joined), or that either has"
    " failed, after which it is tried again.",
    ["table", "result"],
)
MAINTENANCE_FAILING = Gauge(
    "tidings_lakehouse_maintenance_failing",
    "1 while the last attempt to look after a table has failed.",
    ["table"],
)
BATCHES = Counter("tidings_lakehouse_batches", "Batches written.", ["stream"])
BATCH_SECONDS = Histogram(
    "tidings_lakehouse_batch_seconds",
    "Time to write a batch.",
    ["stream"],
    buckets=(0.1, 0.25, 0.5, 1, 2, 4, 8, 15, 30, 60, 120),
)
PHASE_SECONDS = Counter(
    "tidings_lakehouse_phase_seconds",
    "Time that batches have spent in each of their steps; what is left of a batch's time is spent between them.",
    ["stream", "phase"],
)
QUARANTINED = Counter("tidings_lakehouse_quarantined", "Records that could not be decoded.", ["topic"])
SET_ASIDE = Gauge(
    "tidings_lakehouse_topics_set_aside",
    "1 for a topic that cannot be written, while the others go on; nothing of it is skipped.",
    ["topic", "reason"],
)
ACCEPTED_LOSSES = Gauge(
    "tidings_lakehouse_accepted_losses",
    "Losses of a topic's records that a person has accepted for good, one for each partition and time.",
    ["topic"],
)
ACCEPTED_LOSS_RECORDS = Gauge(
    "tidings_lakehouse_accepted_loss_records",
    "Records at most that accepted losses of a topic have together; those of a deleted topic are not known.",
    ["topic"],
)
POSSIBLE_RENAMES = Counter(
    "tidings_lakehouse_possible_renames",
    "Times that a column came as another one went, so that values of older rows may stand under the former name.",
    ["table"],
)
RENAMED = Counter("tidings_lakehouse_renames", "Columns that were renamed as in the database.", ["table"])
WATERMARK_WAITING = Gauge(
    "tidings_lakehouse_watermark_waiting_seconds",
    "How long the oldest commit that was read waits for rows before the watermark passes it.",
)
PASSED_WITH_MISSING_ROWS = Counter(
    "tidings_lakehouse_incomplete_commits",
    "Commits that the watermark has passed without all of the rows that their END markers count.",
)
COMMITS_OUT_OF_ORDER = Counter(
    "tidings_lakehouse_commits_out_of_order",
    "Commits of a MariaDB whose sequence numbers are lower than that of one before, so that current states keep older rows.",
)
AUDIT_WRONG = Gauge("tidings_lakehouse_audit_wrong_rows", "Rows that the last audit found wrong.", ["table"])
AUDIT_UNDECIDED = Gauge(
    "tidings_lakehouse_audit_undecided_rows",
    "Rows that differed and that the watermark had not passed in time.",
    ["table"],
)
AUDITED = Gauge("tidings_lakehouse_audit_timestamp_seconds", "When the last audit ended; 0: none has, yet.")
AUDIT_FAILING = Gauge(
    "tidings_lakehouse_audit_failing", "1 while the last audit could not be made to its end."
)
LAG = Gauge("tidings_lakehouse_lag_records", "Records on a topic that are not in a table yet.", ["topic"])
COMMIT_LAG = Gauge(
    "tidings_lakehouse_commit_lag_seconds",
    "How long ago a topic's newest readable change was committed at its source, while newer records wait; 0 when none does.",
    ["topic"],
)
UNMERGED = Gauge(
    "tidings_lakehouse_unmerged_offsets",
    "Offsets of a table's log that its current state waits for, by TIDINGS_LAKEHOUSE_MERGE.",
    ["table"],
)
FRESHNESS = Gauge(
    "tidings_lakehouse_freshness_seconds",
    "Age of a table's newest change when it became readable, by the change's own time.",
    ["table"],
)


def begin(stream: str) -> None:
    """Show a stream's series from its start on: what first shows with its first batch has no increase by it."""
    BATCHES.labels(stream)
    BATCH_SECONDS.labels(stream)
