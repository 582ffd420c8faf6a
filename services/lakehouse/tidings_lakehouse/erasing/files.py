"""Removes the files that still hold rows which a table has no more: the last step of an erasure.

A deleted row stays in its data file, the file in the snapshots before, and the least and greatest values of the file's columns in
the manifests that name it, also in those that name it as removed. So files with deleted rows are written anew, manifests that name
removed files too, then every snapshot but the newest goes with what only it needs, then files that no snapshot names. No other
writer may be at work meanwhile: what it has written and not committed yet is such a file.
"""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from tidings_lakehouse.catalogs.conf import FILE_IO
from tidings_lakehouse.errors import ErasureError
from tidings_lakehouse.tables.commits import Commits
from tidings_lakehouse.tables.snapshots import PROGRESS_PROPERTY, noted_in, progress_text
from tidings_lakehouse.tables.table_counts import table_size
from tidings_lakehouse.topics import CATALOG

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_OWN_BRANCH = "tidings_"
_MAIN = "main"
_FILES = {
    # Files that have lost a row, whatever their size, and no others.
    "delete-file-threshold": 1,
    "min-file-size-bytes": 0,
    "remove-dangling-deletes": "true",
    "max-concurrent-file-group-rewrites": 1,
}
_LATER = dt.timedelta(days=1)
"""Behind every snapshot and file that there is, also one that was made by a clock that is fast."""


class FormerFiles:
    """Removes former files of tables."""

    def __init__(self, session: SparkSession, commits: Commits) -> None:
        self._session = session
        self._commits = commits
        self._jvm: Any = session.sparkContext._jvm  # noqa: SLF001 - the only way to Iceberg's own interface
        self._spark = session._jsparkSession  # noqa: SLF001

    def check(self, name: str) -> None:
        """See that nothing but `main` keeps snapshots of a table.

        Raises:
            ErasureError: a branch or a tag does.
        """
        kept = [
            (str(entry.getKey()), "BRANCH" if entry.getValue().isBranch() else "TAG")
            for entry in self._load(name).refs().entrySet()
            if entry.getKey() != _MAIN and not str(entry.getKey()).startswith(_OWN_BRANCH)
        ]
        if kept:
            what = ", ".join(f"{kind.lower()} {one}" for one, kind in kept)
            drops = "; ".join(f"ALTER TABLE {name} DROP {kind} `{one}`" for one, kind in kept)
            raise ErasureError(
                f"{name}: {what} keeps a snapshot that may hold the rows; nothing has been erased",
                hint=f"drop it first, in Spark: {drops}",
            )

    def remove(self, name: str) -> None:
        """Remove them, after the rows have been deleted and committed.

        Raises:
            ErasureError: not all of them could be.
            SecondWriterError: somebody has written to the table meanwhile.
        """
        self._rewrite_files(name)
        self._keep_note(name)
        self._rewrite_manifests(name)
        self._commits.check(name)  # while the snapshots are there
        self._keep_note(name)
        self._expire(name)
        self._remove_orphans(name)

    def _rewrite_files(self, name: str) -> None:
        if not table_size(self._session, name).delete_files:
            return
        options = ", ".join(f"'{key}', '{value}'" for key, value in _FILES.items())
        [done] = self._session.sql(
            f"CALL {CATALOG}.system.rewrite_data_files(table => '{name}', options => map({options}))"
        ).collect()
        if done["failed_data_files_count"]:
            raise ErasureError(
                f"{name}: files with deleted rows could not be written anew",
                hint="run the same command again",
            )

    def _expire(self, name: str) -> None:
        table = self._load(name)
        # Of writes that failed: the next one would remove them.
        if left := [one for one in map(str, table.refs().keySet()) if one.startswith(_OWN_BRANCH)]:
            manage = table.manageSnapshots()
            for one in left:
                manage = manage.removeBranch(one)
            manage.commit()
        self._load(name).expireSnapshots().expireOlderThan(_later()).retainLast(1).commit()

    def _remove_orphans(self, name: str) -> None:
        actions = self._jvm.org.apache.iceberg.spark.actions.SparkActions.get(self._spark)
        removal = actions.deleteOrphanFiles(self._load(name)).olderThan(_later())
        # Hadoop, which lists otherwise, knows no object store.
        removal.usePrefixListing(bool(self._session.conf.get(FILE_IO, None))).execute()

    def _keep_note(self, name: str) -> None:
        """Note the writers' progress with the newest snapshot: the one that it is true of goes, and the rows are counted anew."""
        table = self._load(name)
        noted, head = noted_in(table), table.currentSnapshot()
        if noted and head is not None:
            text = progress_text(table, noted, int(head.snapshotId()))
            self._commits.set_properties(name, {PROGRESS_PROPERTY: text})

    def _rewrite_manifests(self, name: str) -> None:
        """Write manifests anew that name removed files, and with them the least and greatest values of their columns."""
        table = self._load(name)
        head = table.currentSnapshot()
        if head is None:
            return
        stale = [one for one in head.allManifests(table.io()) if one.hasDeletedFiles()]
        if not stale:
            return
        rows = self._session.sql(f"SELECT snapshot_id, data_file.file_path FROM {name}.entries").collect()  # noqa: S608
        added_by = {row["file_path"]: row["snapshot_id"] for row in rows}
        rewrite = table.rewriteManifests()
        for manifest in stale:
            rewrite = rewrite.deleteManifest(manifest)
            if manifest.hasExistingFiles() or manifest.hasAddedFiles():
                rewrite = rewrite.addManifest(self._of_live_files(table, manifest, added_by))
        rewrite.commit()

    def _of_live_files(self, table: Any, manifest: Any, added_by: dict[str, int]) -> Any:
        """A manifest of the files that another names and that are still the table's."""
        files, operations, io = self._jvm.org.apache.iceberg.ManifestFiles, table.operations(), table.io()
        specs = table.specs()
        spec = specs.get(manifest.partitionSpecId())
        version = operations.current().formatVersion()
        location = operations.metadataFileLocation(f"erased-{uuid.uuid4().hex}.avro")
        output = io.newOutputFile(location)
        is_data = manifest.content().name() == "DATA"
        reader = files.read(manifest, io, specs) if is_data else files.readDeleteManifest(manifest, io, specs)
        writer = (
            files.write(version, spec, output, None)
            if is_data
            else files.writeDeleteManifest(version, spec, output, None)
        )
        try:
            for file in _each(reader.iterator()):
                sequence, number = file.dataSequenceNumber(), file.fileSequenceNumber()
                writer.existing(file, added_by[str(file.location())], sequence, number)
        finally:
            reader.close()
            writer.close()
        return writer.toManifestFile()

    def _load(self, name: str) -> Any:
        return self._jvm.org.apache.iceberg.spark.Spark3Util.loadIcebergTable(
            self._spark, f"{CATALOG}.{name}"
        )


def _later() -> int:
    """In milliseconds since 1970."""
    return int((dt.datetime.now(dt.UTC) + _LATER).timestamp() * 1000)


def _each(iterator: Any) -> Iterator[Any]:
    while iterator.hasNext():
        yield iterator.next()
