"""For teams that subscribe to business events: typed events, each once, in the version they choose.

::

    @event("shop.order-placed", version=2)
    @dataclass(frozen=True)
    class OrderPlaced:
        order_id: int
        lines: list[Line]

    with Events(
        kafka="localhost:9092",
        registry="http://localhost:8080/apis/ccompat/v7",
        group="warehouse",
        events=[OrderPlaced],
        seen=SqliteSeen("seen.db"),
    ) as events:
        for received in events:
            pack(received.data)

A class names the fields that its reader uses; others may come and go. `tidings-client generate` writes such classes
from the registry.
"""

from tidings_client.consumer import Events
from tidings_client.errors import ClientError
from tidings_client.received import Received
from tidings_client.seen import MemorySeen, Seen, SqliteSeen
from tidings_client.typed import event

__all__ = ["ClientError", "Events", "MemorySeen", "Received", "Seen", "SqliteSeen", "event"]
