"""Places in the log of a server that names no transactions (``gtid_mode=OFF``): a byte of a file. They hold on that server only. Pure."""

from typing import Final, NamedTuple


class FileId(NamedTuple):
    """A transaction, by where it begins."""

    file: str
    begin: int
    gtid: str | None = None
    """Where the log names this one after all."""

    @property
    def shown(self) -> str | None:
        """``source.gtid``."""
        return self.gtid

    @property
    def name(self) -> str:
        """``transaction.id``, as Debezium has it."""
        return self.gtid or f"file={self.file},pos={self.begin}"

    @property
    def origin(self) -> str | None:
        """See `TransactionId`."""
        return self.gtid.partition(":")[0] if self.gtid else None

    def __str__(self) -> str:
        return f"{self.file}:{self.begin}"


class FilePosition(NamedTuple):
    """A byte of a file at which an event begins."""

    file: str
    position: int

    @classmethod
    def read(cls, text: str) -> "FilePosition":
        """From its text.

        Raises:
            ValueError: it is not one.
        """
        file, _, position = text.rpartition(":")
        if not file or not position.isdecimal():
            raise ValueError("a place in a log without GTIDs is written <file>:<position>")
        return cls(file, int(position))

    @property
    def has_ids(self) -> bool:
        """See `LogPosition`."""
        return False

    @property
    def is_start(self) -> bool:
        """See `LogPosition`."""
        return not self.file

    @property
    def sequence(self) -> int | None:
        """See `LogPosition`."""
        return None

    def after(self, gtid: FileId) -> "FilePosition":
        """See `LogPosition`; no event begins there, so that nothing can be read from it."""
        return max(self, FilePosition(gtid.file, gtid.begin + 1), key=_order)

    def ended(self, gtid: FileId, file: str, end: int) -> "FilePosition":  # noqa: ARG002 - where it ends is enough
        """See `LogPosition`."""
        return FilePosition(file, end)

    def passed(self, file: str, end: int) -> "FilePosition":
        """See `LogPosition`."""
        return FilePosition(file, end)

    def holds(self, gtid: FileId) -> bool:
        """See `LogPosition`."""
        return _order(FilePosition(gtid.file, gtid.begin)) < _order(self)

    def contains(self, other: "FilePosition") -> bool:
        """See `LogPosition`."""
        return _order(other) <= _order(self)

    def __str__(self) -> str:
        return f"{self.file}:{self.position}"


def _order(one: FilePosition) -> tuple[int, int]:
    return file_number(one.file), one.position


def file_number(file: str) -> int:
    """Files of a log are counted at the end of their names; 0 where there is no number."""
    digits: Final = file.rpartition(".")[2]
    return int(digits) if digits.isdecimal() else 0
