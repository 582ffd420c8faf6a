"""The keys that a topic says exist: those whose last record is not a delete. Gathered beside the stream, on disk.

A thread reads the topic; the keys are in a SQLite file in the directory for temporary files, so memory does not grow with
the table. After `ready` the caller's thread takes them in the order of their bytes.
"""

import sqlite3
import threading
from collections.abc import Callable

from tidings_capture.cdc.spool import directory_for_spilled
from tidings_connect.errors import ConnectError
from tidings_connect.kafka.topic_keys import Pair, TopicKeys
from tidings_service.disk import OwnDirectory

IsDelete = Callable[[bytes], bool]
"""Whether a value is of a delete; only asked where deletes have no tombstone."""


class LiveKeys:
    """The keys of one topic.

    Args:
        topic: its one reading.
        is_delete: tells a delete by its value; None: a tombstone tells it.
    """

    def __init__(self, topic: TopicKeys, is_delete: IsDelete | None) -> None:
        self._topic = topic
        self._is_delete = is_delete
        self._closing = threading.Event()
        self._error: Exception | None = None
        self._directory = OwnDirectory("tidings-keys-", directory_for_spilled())
        path = self._directory.path / "keys.sqlite"
        # One thread after the other: the reader's until it ends, then the caller's.
        self._store = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        for statement in (
            "PRAGMA journal_mode = OFF",
            "PRAGMA synchronous = OFF",
            "CREATE TABLE live (key BLOB PRIMARY KEY) WITHOUT ROWID",
        ):
            self._store.execute(statement)
        self._thread = threading.Thread(target=self._run, name="live keys", daemon=True)
        self._thread.start()

    @property
    def ready(self) -> bool:
        """Whether the topic has been read to its end.

        Raises:
            BrokerError: it could not be read.
            ConnectError: there is no room for its keys.
        """
        if self._thread.is_alive():
            return False
        if isinstance(self._error, sqlite3.Error):
            raise ConnectError(
                f"the keys of a topic cannot be kept in {directory_for_spilled()}: {self._error}",
                hint="give TMPDIR a directory with room",
            ) from self._error
        if self._error is not None:
            raise self._error
        return True

    @property
    def trimmed(self) -> list[int]:
        """Partitions whose first records have been removed: a key that stood there alone is not known."""
        return self._topic.trimmed

    def after(self, key: bytes | None, limit: int) -> list[bytes]:
        """The next keys, at most `limit`."""
        found = self._store.execute(
            "SELECT key FROM live WHERE key > ? ORDER BY key LIMIT ?", (key or b"", limit)
        )
        return [row[0] for row in found]

    def close(self) -> None:
        """Stop reading, and remove the file."""
        self._closing.set()
        self._thread.join()
        self._store.close()
        self._directory.cleanup()

    def _run(self) -> None:
        try:
            for pairs in self._topic.batches():
                if self._closing.is_set():
                    return
                self._take(pairs)
        except Exception as error:  # noqa: BLE001 - raised by `ready`, in the caller's thread
            self._error = error

    def _take(self, pairs: list[Pair]) -> None:
        is_delete, store = self._is_delete, self._store
        last: dict[bytes, bool] = {}
        for key, value in pairs:
            last[key] = value is not None and (is_delete is None or not is_delete(value))
        store.execute("BEGIN")
        store.executemany(
            "INSERT OR IGNORE INTO live VALUES (?)", [(key,) for key, live in last.items() if live]
        )
        store.executemany(
            "DELETE FROM live WHERE key = ?", [(key,) for key, live in last.items() if not live]
        )
        store.execute("COMMIT")
