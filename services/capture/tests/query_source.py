"""What the tests of query sources on MariaDB and MySQL share."""

from mariadb_parts import Database

from tidings_connect.testing.memory_worker import MemoryWorker
from tidings_stack.mariadb import MySqlLikeServer

BOTH = {
    "mode": "timestamp+incrementing",
    "timestamp.column.name": "updated",
    "incrementing.column.name": "id",
}


class Source:
    """A connector and its database."""

    def __init__(self, worker: MemoryWorker, server: MySqlLikeServer, database: Database) -> None:
        self.worker, self.server, self.database = worker, server, database
        self.run = database.run

    def begin(self, **options: str) -> None:
        self.worker.put(
            {
                "connection.url": f"jdbc:{self.server.name}://127.0.0.1:{self.server.port}/{self.database.name}",
                "connection.user": "admin",
                "connection.password": self.server.password,
                "topic.prefix": "q-",
                "poll.interval.ms": "20",
                **options,
            }
        )

    def ids(self, topic: str = "q-ev") -> list[int]:
        return [value["id"] for value in self.worker.values(topic)]

    def await_ids(self, wanted: list[int], topic: str = "q-ev") -> None:
        self.worker.wait_for(lambda: self.ids(topic) == wanted, f"ids {wanted}")
