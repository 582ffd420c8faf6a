"""The branch that a job's rows are written to, and the one commit that moves `main` to it.

See `tables.commits`: the commit holds only on the metadata that it was made for, and only if `main` is still what the branch
began with, or has only been compacted since.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from py4j.protocol import Py4JJavaError

from tidings_lakehouse.errors import SecondWriterError
from tidings_lakehouse.tables.added import Added
from tidings_lakehouse.tables.snapshots import (
    PROGRESS_PROPERTY,
    head_of,
    is_only_compacted,
    noted_in,
    progress_text,
)

_BRANCH = "tidings_"
_MAIN = "main"
_REFUSALS = (
    "org.apache.iceberg.exceptions.CommitFailedException",
    "org.apache.iceberg.exceptions.ValidationException",
    "java.lang.IllegalArgumentException",
)
"""What Iceberg throws when `main` or the metadata are not what the branch was made from."""
_PUBLISHES = 5
"""Times that a commit is tried while what stands between it and `main` is not a writer: somebody sets a property, old snapshots go."""

Note = Mapping[str, Any]
"""What a writer notes under names of its own; JSON's types only."""


class CompactedError(Exception):
    """A compaction came between the beginning of a write and its commit."""


def second_writer(name: str) -> SecondWriterError:
    """The error of a table that another job has written to."""
    return SecondWriterError(
        f"somebody else has written to {name} while this job did; nothing of this job's batch was written to it",
        hint="one job writes to a warehouse: stop the other one, or give each a warehouse of its own; if a person has "
        "changed the table, start the job again",
    )


class Branch:
    """The branch of one job, of the same name in each of its tables."""

    def __init__(self, writer: str, load: Callable[[str], Any]) -> None:
        """For the job `writer`; `load` gives Iceberg's table of a name, as it is now."""
        self.name = _BRANCH + writer[:12]
        self._load = load

    def stage(self, table: Any, references: Any, begun: int | None) -> None:
        """Have the branch begin where `main` is; what writes that failed have left goes.

        Args:
            table: or a transaction on it.
        """
        left = [name for name in map(str, references.keySet().toArray()) if name.startswith(_BRANCH)]
        if left:
            manage = table.manageSnapshots()
            for name in left:
                manage = manage.removeBranch(name)
            manage.commit()
        manage = table.manageSnapshots()
        if begun is None:
            manage.createBranch(self.name).commit()
        else:
            manage.createBranch(self.name, begun).commit()

    def publish(
        self, name: str, begun: int | None, note: Note | None, added: Added | None = None
    ) -> int | None:
        """Have `main` move to the branch, or to new files; gives the snapshot that it has then, None for none.

        Args:
            begun: the snapshot that the branch began with.

        Raises:
            SecondWriterError: another job has written to the table.
            CompactedError: what was staged is to be prepared again.
        """
        refusal: Exception | None = None
        for _ in range(_PUBLISHES):
            table = self._load(name)
            head = head_of(table)
            if head != begun:
                if begun is None or not is_only_compacted(table, begun):
                    raise second_writer(name) from refusal
                if added is None or added.deleted.added:
                    raise CompactedError
                begun = head  # new files are as good behind it
            try:
                return self._move_main(table, begun, note, added)
            except Py4JJavaError as error:
                if error.java_exception.getClass().getName() not in _REFUSALS:
                    raise
                refusal = error  # `main` says who came between
        raise second_writer(name) from refusal

    def _move_main(self, table: Any, begun: int | None, note: Note | None, added: Added | None) -> int | None:
        """Rows become readable, and the table says how far it is: one commit."""
        noted = {**noted_in(table), **(note or {})}
        transaction = table.newTransaction()
        if added is not None:
            self.stage(transaction, table.refs(), begun)
            added.put_to(transaction, self.name, begun)
            table = transaction.table()
        reference = table.refs().get(self.name)
        head = None if reference is None else int(reference.snapshotId())
        manage = transaction.manageSnapshots()
        manage.fastForwardBranch(_MAIN, self.name).removeBranch(self.name).commit()
        if noted and head is not None:
            text = progress_text(table, noted, head)
            transaction.updateProperties().set(PROGRESS_PROPERTY, text).commit()
        transaction.commitTransaction()
        return head
