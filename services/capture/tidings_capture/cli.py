"""The command ``tidings-capture``: a worker, or one of the commands that need no Kafka.

``tidings-capture worker.properties`` runs a worker (`worker`), ``tidings-capture tail URL`` shows a database's changes
(`tail.command`), ``tidings-capture wal URL`` what its slots retain (`wal.command`), ``tidings-capture ddl install URL`` adds the
trigger for DDL (`postgres.ddl_command`). Each loads only what it needs.
"""

import sys
from collections.abc import Sequence
from typing import Final

_OTHERS: Final = "Without Kafka: `tidings-capture tail --help`, `wal --help`, `ddl --help`."


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; its exit code."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    match given[:1]:
        case ["tail"]:
            from tidings_capture.postgres.tail.command import main as command  # noqa: PLC0415 - needs no Kafka
        case ["wal"]:
            from tidings_capture.postgres.wal.command import main as command  # noqa: PLC0415 - needs no Kafka
        case ["ddl"]:
            from tidings_capture.postgres.server.ddl_command import main as command  # noqa: PLC0415 - needs no Kafka
        case _:
            from tidings_connect.worker import main as worker  # noqa: PLC0415 - loads Kafka's client

            return worker(given, _OTHERS)
    return command(given[1:])


if __name__ == "__main__":
    sys.exit(main())
