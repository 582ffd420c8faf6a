"""What a commit adds to a table by itself: files that are written, and delete files with those that they replace."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tidings_lakehouse.spark.held_rows import Deleted


@dataclass(frozen=True)
class Added:
    """Files that no snapshot names yet."""

    files: list[Any]
    marks: Mapping[str, str]
    """Properties of the snapshot that will name them."""
    deleted: Deleted = field(default_factory=Deleted)

    def put_to(self, table: Any, branch: str, begun: int | None = None) -> None:
        """Have the branch of a table, or of a transaction on it, name the files; one snapshot.

        Args:
            begun: the snapshot in which the rows that go were found, and with which the branch begins.
        """
        update = (
            self._replacing(table, branch, begun) if self.deleted.added else self._appending(table, branch)
        )
        for key, value in self.marks.items():
            update = update.set(key, value)
        update.commit()

    def _appending(self, table: Any, branch: str) -> Any:
        update = table.newAppend().toBranch(branch)
        for file in self.files:
            update = update.appendFile(file)
        return update

    def _replacing(self, table: Any, branch: str, begun: int | None) -> Any:
        update = table.newRowDelta().toBranch(branch).validateDataFilesExist(self.deleted.files)
        if begun is not None:
            # Otherwise Iceberg looks for the files from the table's first snapshot on, and refuses where that has expired.
            update = update.validateFromSnapshot(begun)
        for file in self.deleted.added:
            update = update.addDeletes(file)
        for file in self.deleted.replaced:
            update = update.removeDeletes(file)
        for file in self.files:
            update = update.addRows(file)
        return update
