"""What the tests of a rebuild share: a stream of business events that goes on, a worker, the command, and a reader that looks all
the while."""

import io
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from decimal import Decimal
from itertools import pairwise
from pathlib import Path
from typing import Any

import fastavro
from confluent_kafka import Producer
from end_to_end import GROUP, put_connectors
from event_records import register

from tidings_envelope.fault_points import watched
from tidings_sinks.rebuild.command import main
from tidings_stack.capture import CaptureWorker, CaptureWorkers
from tidings_stack.waiting import wait_for

ROOT = Path(__file__).parents[3]
EXAMPLES = ROOT / "examples/read-models"
_PLACED = json.loads((ROOT / "schemas/shop/order-placed/v2.avsc").read_text("utf-8"))


class GoneError(BaseException):
    """Ends the command at a point, where nothing of it is done any more."""


class Events:
    """Orders, by number from 1 on, in one partition; some are placed whenever `more` is called."""

    def __init__(self, kafka: str, registry: str, topic: str) -> None:
        self.topic, self.last = topic, 0
        self._producer = Producer({"bootstrap.servers": kafka})
        self._schema_id = register(registry, f"{topic}-value", _PLACED)
        self._parsed = fastavro.parse_schema(_PLACED)
        self._lock = threading.Lock()

    def more(self, count: int = 1) -> None:
        """Place so many orders."""
        with self._lock:
            for _ in range(count):
                self.last += 1
                self._producer.produce(
                    self.topic, self._event(self.last), str(self.last),
                    headers=[("ce_id", f"e-{self.last}".encode()), ("ce_time", b"2026-02-03T04:05:06Z")],
                )  # fmt: skip
            assert self._producer.flush(60) == 0

    def _event(self, number: int) -> bytes:
        out = io.BytesIO()
        out.write(b"\0" + self._schema_id.to_bytes(4, "big"))
        person = {
            "customer_id": number % 7,
            "email": "e",
            "first_name": "A",
            "last_name": "B",
            "city": "Oslo",
        }
        line = {"line_no": 1, "product_id": number % 5, "quantity": 1, "unit_price": Decimal(1), "discount": Decimal(0), "amount": Decimal(1)}  # fmt: skip
        event = {"order_id": number, "customer": person, "total": Decimal(1), "currency": "EUR", "placed_at": 0, "lines": [line]}  # fmt: skip
        fastavro.schemaless_writer(out, self._parsed, event)
        return out.getvalue()


class Place:
    """A worker with a sink, and the command for it."""

    def __init__(
        self, workers: CaptureWorkers, directory: Path, name: str, registry: str, secrets: dict[str, str]
    ) -> None:
        self.secrets = directory / f"{name}-secrets.properties"
        self.secrets.write_text("".join(f"{key}={value}\n" for key, value in secrets.items()), "utf-8")
        settings = {
            **GROUP,
            "config.providers": "file",
            "config.providers.file.class": "org.apache.kafka.common.config.provider.FileConfigProvider",
            "value.converter": "io.confluent.connect.avro.AvroConverter",
            "value.converter.schema.registry.url": registry,
        }
        self.properties = workers.properties(name, settings)
        self.worker: CaptureWorker = workers.start(self.properties)

    def create(self, name: str, file: str, topic: str, **more: str) -> None:
        """A sink as the example has it, from a topic of ours."""
        text = (EXAMPLES / file).read_text("utf-8").replace("shop.order-placed.v2", topic)
        config = json.loads(text.replace("/run/secrets/read-models.properties", str(self.secrets)))
        config["tasks.max"] = "1"  # there is one partition
        config |= {
            key.replace("__", "\0").replace("_", ".").replace("\0", "_"): value for key, value in more.items()
        }
        put_connectors(self.worker, {name: config})

    def names(self) -> set[str]:
        """The connectors that are there."""
        return set(self.worker.request("GET", "/connectors")[1])

    def rebuild(self, name: str, *options: str) -> int:
        """The command; its exit code."""
        return main(["rebuild", name, "--worker", str(self.properties), "--grace", "0", *options])

    def rebuild_until(self, point: str, name: str, *options: str) -> None:
        """The command, which ends at a point as by SIGKILL: no handler of an error is there."""

        def end(reached: str) -> None:
            if reached == point:
                raise GoneError

        try:
            with watched(end):
                self.rebuild(name, *options)
        except GoneError:
            return
        raise AssertionError(f"{point} was not reached")


@contextmanager
def looking(look: Callable[[], int], events: Events, seconds: float = 0.05) -> Iterator[list[int]]:
    """Look again and again at how many orders a read model has, while more are placed; none may ever be gone again.

    Args:
        seconds: between two looks, which cost the servers more than the rebuild itself.
    """
    seen: list[int] = []
    errors: list[BaseException] = []
    over = threading.Event()

    def run() -> None:
        try:
            while not over.wait(seconds):
                seen.append(look())
                if len(seen) % 10 == 0:
                    events.more()
        except BaseException as error:  # noqa: BLE001 - told where the reader is waited for
            errors.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield seen
        events.more(3)
        wait_for("the reader to see every order", lambda: errors or (seen and seen[-1] == events.last), 60)
    finally:
        over.set()
        thread.join()
    assert not errors, errors
    assert seen == sorted(seen), [pair for pair in pairwise(seen) if pair[0] > pair[1]]


def status_of(place: Place, name: str, capsys: Any) -> dict[str, Any]:
    """What `--status --json` says."""
    capsys.readouterr()
    assert place.rebuild(name, "--status", "--json") == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found
