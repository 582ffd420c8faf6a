"""The reader of the storage topics where a broker takes connections and says nothing."""

import socket
import threading
import time
from collections.abc import Iterator

import pytest

from tidings_connect.errors import BrokerError
from tidings_connect.kafka.clients import AdminClient
from tidings_connect.kafka.compacted_log import TopicTail


@pytest.fixture
def silent() -> Iterator[str]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"127.0.0.1:{server.getsockname()[1]}"


def test_who_asks_for_the_end_gets_an_error_though_the_client_is_made_anew_meanwhile(
    silent: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the reader, which has noticed that nothing comes: a client that nobody holds any more never answers."""
    tail = TopicTail({"bootstrap.servers": silent}, ["t"], lambda _: None, lambda _: None, lambda _: None)
    tail._reached = {("t", 0): 0}
    asked = threading.Event()
    list_offsets = AdminClient.list_offsets

    def ask(admin: AdminClient, *places: object, **how: object) -> object:
        futures = list_offsets(admin, *places, **how)  # type: ignore[arg-type]
        asked.set()
        return futures

    monkeypatch.setattr(AdminClient, "list_offsets", ask)
    said: list[BaseException] = []

    def ends() -> None:
        try:
            tail._ends(time.monotonic())
        except BrokerError as error:
            said.append(error)

    asker = threading.Thread(target=ends, daemon=True)
    asker.start()
    assert asked.wait(60)
    tail._begin_anew()
    asker.join(20)
    assert len(said) == 1, "nobody answers"
    assert "cannot read t: " in str(said[0])
