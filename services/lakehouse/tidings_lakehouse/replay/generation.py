"""Writes what a new generation begins with, for ``tidings-translator generations start --from-replay``.

A directory with ``replay.json`` and a file of gzipped JSON for each share, one object a line, those of an aggregate in commit order:

    {"event": "shop.order-placed.v1", "id": "7", "headers": [{"key": "ce_id", "value": "..."}], "body": "..."}    what the rules say
    {"aggregate": "order", "id": "7", "state": "..."}     an aggregate at the end of the range
    {"memory_key": "...", "memory_value": "..."}     what the sequencer remembers of rows by then, as in its changelog

Bytes are in base64. ``replay.json`` has the range, by topic its id in Kafka and the offset from which each partition is needed from
there on, what the sequencer knows of transactions and of a MariaDB's servers, and by file how many lines it has (`tidings_translator.generations.from_replay.directory` reads it).
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as sf

from tidings_domain.loading.fingerprint import fingerprint
from tidings_envelope.position import lsn_to_text
from tidings_lakehouse.errors import ReplayError
from tidings_lakehouse.replay.resuming import Resumption, resumption_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tidings_lakehouse.replay.run import Replayed

MANIFEST = "replay.json"
_UNFIT = ("held", "too-large")
"""What is told of aggregates whose state cannot be gone on with."""


def write_generation(session: SparkSession, source: str, found: Replayed, directory: Path) -> dict[str, Any]:
    """Write a replay that was run `with_state`; gives what `MANIFEST` says.

    Args:
        session: of the lakehouse.
        source: the topic prefix.
        found: the replay.
        directory: must not exist.

    Raises:
        ReplayError: the generation could not go on from there.
    """
    if directory.exists():
        raise ReplayError(f"{directory} exists", hint="name a new directory")
    told = found.told()
    for kind in _UNFIT:
        if kind in told:
            raise ReplayError(
                f"{told[kind].times} aggregates or rows are {kind}, such as: {told[kind].reason}",
                hint="mend the domain, or begin with the log (tidings-lakehouse history, generations start --from-lake), where a"
                " person can deal with each",
            )
    resumption = resumption_of(session, source, found.range)
    line = sf.coalesce(
        sf.when(
            sf.col("topic").isNotNull(),
            sf.to_json(sf.struct(sf.col("topic").alias("event"), "id", "headers", "body")),
        ),
        sf.when(sf.col("state").isNotNull(), sf.to_json(sf.struct("aggregate", "id", "state"))),
        sf.when(sf.col("memory_key").isNotNull(), sf.to_json(sf.struct("memory_key", "memory_value"))),
    )
    lines = found.rows.select(line.alias("line")).where("line IS NOT NULL")
    lines.write.option("compression", "gzip").text(directory.absolute().as_uri())
    manifest = _manifest(source, found, resumption, told["letter"].times if "letter" in told else 0)
    counts = lines.groupBy(sf.spark_partition_id().alias("number")).count().collect()
    manifest["files"] = files_of(directory, {row["number"]: row["count"] for row in counts})
    (directory / MANIFEST).write_text(json.dumps(manifest, indent=2) + "\n", "utf-8")
    return manifest


def files_of(directory: Path, counts: dict[int, int]) -> dict[str, int]:
    """The files, and how many lines each has.

    Args:
        counts: of the lines of Spark's partitions, whose numbers are in the files' names.

    Raises:
        ReplayError: some are not here.
    """
    files = {int(path.name.split("-")[1]): path.name for path in directory.glob("part-*.gz")}
    lacking = counts.keys() - files.keys()
    if lacking:
        raise ReplayError(
            f"{len(lacking)} of {len(counts)} files are not in {directory} here: executors have written them on other machines",
            hint="name a directory that all of them reach, or run it with TIDINGS_LAKEHOUSE_MASTER=local[*]",
        )
    return {files[number]: counts.get(number, 0) for number in sorted(files)}


def _manifest(source: str, found: Replayed, resumption: Resumption, letters: int) -> dict[str, Any]:
    return {
        "source": source,
        "domain": found.domain.name,
        "fingerprint": fingerprint(found.domain),
        "until": lsn_to_text(resumption.commit_lsn),
        "letters": letters,
        "began_lsn": resumption.began_lsn,
        "snapshot_lsn": found.range.snapshot or 0,
        "finished": resumption.finished,
        "lost": resumption.lost,
        "topics": resumption.topics,
        "replication_domain": resumption.replication_domain,
        "last_of_server": {str(server): last for server, last in resumption.servers.last.items()},
        "servers_since": resumption.servers.since,
    }
