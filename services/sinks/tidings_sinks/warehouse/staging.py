"""A batch's rows as a Parquet file, which the warehouse reads."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from pyarrow import parquet

from tidings_service import Retry
from tidings_sinks.errors import BusyError, DataProblemError, TargetError
from tidings_sinks.warehouse.values import column_of

_NO_SPACE: Final = frozenset({28, 122})
"""ENOSPC, EDQUOT."""


class Staging:
    """A directory. Whoever holds the warehouse's lock uses it."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._count = 0

    def begin(self) -> None:
        """Make it, and remove what a task left that was killed.

        Raises:
            TargetError: this user may not.
        """
        try:
            self._directory.mkdir(exist_ok=True)
            self.clear()
        except OSError as error:
            raise TargetError(
                f"the directory of staged batches cannot be used: {error.strerror}",
                hint="make it, let the worker write to it, or name another with tidings.staging.directory",
            ) from None

    def clear(self) -> None:
        """Remove all staged files."""
        for file in self._directory.glob("*.parquet"):
            file.unlink(missing_ok=True)

    def write(
        self, names: Sequence[str], types: Sequence[pa.DataType], values: Iterable[Sequence[Any]]
    ) -> Path:
        """The values of each column as a file.

        Raises:
            DataProblemError: a value does not fit its type.
            BusyError: the disk is full.
        """
        columns = []
        for name, kind, of_column in zip(names, types, values, strict=True):
            try:
                columns.append(column_of(kind, of_column))
            except ValueError as error:
                raise DataProblemError(f"column {name}: {error}") from None
        self._count += 1
        file = self._directory / f"{self._count}.parquet"
        try:
            # Neither dictionaries nor statistics: it is read once, and whole.
            table = pa.Table.from_arrays(columns, names=[f"c{place}" for place in range(len(names))])
            parquet.write_table(table, file, compression="lz4", use_dictionary=False, write_statistics=False)
        except OSError as error:
            if error.errno in _NO_SPACE:
                raise BusyError("the disk of staged batches is full") from None
            raise TargetError(f"a batch cannot be staged: {error.strerror}", retry=Retry.TIMED) from None
        return file
