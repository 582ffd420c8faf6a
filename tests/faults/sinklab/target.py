"""What the lab asks of a system that sinks write to, and how a system is struck."""

import contextlib
import os
import signal
import time
from collections.abc import Iterator, Sequence
from enum import Enum
from typing import Any, NamedTuple

from faultlab.fault import Fault
from faultlab.lab_faults import LINKS
from faultlab.proxy import Proxy

from tidings_connect.testing.sink_contract import SINK_POINTS
from tidings_stack.server import Place, Server

TABLES = ("accounts", "orders", "items")
"""Of the source; each a topic."""


class Claim(Enum):
    """What a sink claims for what the lab has it write."""

    COPY = "a copy"
    """The newest row of each key, and each key once."""
    ONCE = "each record once"
    OBJECTS = "each record once, but for the last ones"
    """Records of a partition without a gap from the first one on; fewer than `TAIL` are not written yet."""
    AT_LEAST_ONCE = "each record"


TAIL = 5
"""How many records an object has."""


class RecordPlace(NamedTuple):
    """Where a record stands in Kafka."""

    topic: str
    partition: int
    offset: int


Rows = dict[str, list[tuple[int, Any]]]
"""Key and `n` of each row or document there is, by table: a key may be there twice."""
FLAT = {
    "transforms": "unwrap",
    "transforms.unwrap.type": "io.debezium.transforms.ExtractNewRecordState",
}
PLACED = {
    "transforms": "unwrap,place",
    "transforms.unwrap.type": "io.debezium.transforms.ExtractNewRecordState",
    "transforms.unwrap.delete.tombstone.handling.mode": "rewrite",
    "transforms.place.type": "org.apache.kafka.connect.transforms.InsertField$Value",
    "transforms.place.topic.field": "at_topic",
    "transforms.place.partition.field": "at_partition",
    "transforms.place.offset.field": "at_offset",
}
"""Flat records with their places, deletes too: what is appended is told from what is appended twice."""


class Target:
    """A system: with a server, behind a proxy that sinks use, or in files. Who reads it back goes past the proxy.

    One that is `Claim.COPY` has `rows`, another one `places`.
    """

    claim = Claim.COPY
    in_order = False
    """Whether `places` has what was written in the order in which it was."""
    points: tuple[str, ...] = SINK_POINTS
    """Places in the code at which tasks are killed."""
    wires: tuple[str, ...] = ("schemas", "avro")
    """How records with schemas may be written, of a copy; see `Schedule.wire`."""
    tasks = 2
    restarts = True
    """Whether its server has what it held, after a restart."""
    server: Server | None = None
    proxy: Proxy | None = None

    def __init__(self, place: Place) -> None: ...

    def serve(self, server: Server, port: int) -> None:
        """It is this server, at this port."""
        self.server, self.proxy = server, Proxy(port)

    def start(self) -> None:
        """Start the server, where there is one."""
        if self.server is not None:
            self.server.start()

    def heal(self) -> None:
        """Everything runs, and the link is as it should be."""
        if self.proxy is not None:
            self.proxy.heal()
        self.start()

    def close(self) -> None:
        """Stop everything."""
        if self.server is not None:
            self.server.close()
        if self.proxy is not None:
            self.proxy.close()

    def connector(self, run: str) -> dict[str, str]:
        """The sink's configuration but for its topics, for a run of its own, whose name the topics begin with."""
        raise NotImplementedError

    def rows(self, run: str) -> Rows:
        """What a copy holds; nothing of tables that are not there yet."""
        raise NotImplementedError

    def places(self, run: str) -> Sequence[RecordPlace]:
        """Of which records something is there, as often as it is there."""
        raise NotImplementedError

    # What it can suffer

    @property
    def kinds(self) -> tuple[str, ...]:
        """The faults that strike it, those that stop a server not among them."""
        links = tuple(f"target_{how}" for how in LINKS) if self.proxy is not None else ()
        return links + (("target_freeze",) if self.server is not None else ())

    @property
    def heavy(self) -> tuple[str, ...]:
        """The faults that stop its server."""
        return ("target_restart", "target_kill") if self.server is not None and self.restarts else ()

    def freeze(self, fault: Fault) -> None:
        """The server answers nothing for a while."""
        pid = self.server.pid if self.server is not None else None
        if pid is not None:
            os.kill(pid, signal.SIGSTOP)
            time.sleep(fault.seconds)
            os.kill(pid, signal.SIGCONT)


class FileTarget(Target):
    """A system without a server of its own, such as files, which somebody else may keep busy."""

    @contextlib.contextmanager
    def occupied(self, run: str) -> Iterator[None]:
        """Somebody else keeps it busy, has its files for one, for as long as a `with` lasts."""
        yield

    @property
    def kinds(self) -> tuple[str, ...]:
        """See `Target.kinds`."""
        busy = ("target_occupy",) if type(self).occupied is not FileTarget.occupied else ()
        return super().kinds + busy
