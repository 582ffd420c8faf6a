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

    def put_to(self, table: Any, branch: str) -> None:
        """Have the branch of a table, or of a transaction on it, name the files; one snapshot."""
        update = self._replacing(table, branch) if self.deleted.added else self._appending(table, branch)
        for key, value in self.marks.items():
            update = update.set(key, value)
        update.commit()

    def _appending(self, table: Any, branch: str) -> Any:
        update = table.newAppend().toBranch(branch)
        for file in self.files:
            update = update.appendFile(file)
        return update

    def _replacing(self, table: Any, branch: str) -> Any:
        update = table.newRowDelta().toBranch(branch).validateDataFilesExist(self.deleted.files)
        for file in self.deleted.added:
            update = update.addDeletes(file)
        for file in self.deleted.replaced:
            update = update.removeDeletes(file)
        for file in self.files:
            update = update.addRows(file)
        return update
