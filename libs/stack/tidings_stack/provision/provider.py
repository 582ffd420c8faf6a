"""Where tests get their servers from: processes of their own, containers, or servers that exist already.

One server of each kind is shared by a whole test session and started when it is first used.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from tidings_jvm import PlainProgress
from tidings_stack.errors import NotSupportedError, StackError
from tidings_stack.provision.protocols import AnyServer, OwnedServer
from tidings_stack.stack import Stack

VARIABLES = {
    "pg": "TIDINGS_PG",
    "kafka": "TIDINGS_KAFKA",
    "registry": "TIDINGS_REGISTRY",
    "connect": "TIDINGS_CONNECT",
}


class Source(Protocol):
    """A kind of servers: processes or containers."""

    def ensure(self, *members: str) -> None:
        """Start members that are not there yet."""

    @property
    def servers(self) -> Mapping[str, AnyServer]:
        """The started members."""

    def add_connect(self, bootstrap: str, *, settings: Mapping[str, str] | None = None) -> OwnedServer:
        """Start one more Kafka Connect."""
        ...

    def add_pg(
        self,
        version: str,
        *,
        settings: Mapping[str, str] | None = None,
        binaries: Path | None = None,
        extensions: Sequence[Path] = (),
    ) -> OwnedServer:
        """Start one more PostgreSQL."""

    def close(self) -> None:
        """End all."""


class ExistingServer:
    """A server named by an environment variable. It is not ours to stop."""

    def __init__(self, member: str, url: str) -> None:
        self._member = member
        self.url = url

    def start(self) -> None:
        """Not supported."""
        raise self._refusal()

    def stop(self) -> None:
        """Not supported."""
        raise self._refusal()

    def kill(self) -> None:
        """Not supported."""
        raise self._refusal()

    def _refusal(self) -> NotSupportedError:
        return NotSupportedError(f"the server in {VARIABLES[self._member]} is not ours to stop or start")


class Provider:
    """Servers by member name, started on first use. `together` are started with the first one that is used."""

    def __init__(
        self, source: Source, existing: Mapping[str, ExistingServer], together: Sequence[str] = ()
    ) -> None:
        self._source = source
        self._existing = dict(existing)
        self._together = [member for member in together if member not in self._existing]
        self._lock = threading.Lock()

    @property
    def pg(self) -> AnyServer:
        """PostgreSQL."""
        return self._get("pg")

    @property
    def kafka(self) -> AnyServer:
        """Kafka; `url` is its bootstrap servers."""
        return self._get("kafka")

    @property
    def registry(self) -> AnyServer:
        """The schema registry; `url` is the base of its Confluent API."""
        return self._get("registry")

    @property
    def connect(self) -> AnyServer:
        """Kafka Connect; `url` is its REST interface."""
        return self._get("connect")

    def add_pg(
        self,
        version: str,
        settings: Mapping[str, str] | None = None,
        *,
        binaries: Path | None = None,
        extensions: Sequence[Path] = (),
    ) -> OwnedServer:
        """Start one more PostgreSQL of its own; for `binaries` and `extensions` see `PostgresServer`."""
        return self._source.add_pg(version, settings=settings, binaries=binaries, extensions=extensions)

    def add_connect(self, settings: Mapping[str, str] | None = None) -> OwnedServer:
        """Start one more Kafka Connect of its own, on the same Kafka."""
        return self._source.add_connect(self.kafka.url, settings=settings)

    def add_replica(self, primary: OwnedServer, settings: Mapping[str, str] | None = None) -> OwnedServer:
        """Start a streaming replica of a server that `add_pg` gave.

        Raises:
            NotSupportedError: servers are containers.
        """
        from tidings_stack.postgres import PostgresServer  # noqa: PLC0415

        if not isinstance(self._source, Stack) or not isinstance(primary, PostgresServer):
            raise NotSupportedError("replicas are made of local processes only")
        return self._source.add_replica(primary, settings=settings)

    def _get(self, member: str) -> AnyServer:
        existing = self._existing.get(member)
        if existing is not None:
            return existing
        with self._lock:
            self._source.ensure(*{member, *self._together})
            return self._source.servers[member]


@contextlib.contextmanager
def open_provider(
    environment: Mapping[str, str], *, together: Sequence[str] = (), say: Callable[[str], None] | None = None
) -> Iterator[Provider]:
    """Give a provider as the environment wishes, and end at the end what it started."""
    kind = environment.get("TIDINGS_STACK", "processes")
    source: Source
    if kind == "containers":
        from tidings_stack.provision.containers import ContainerStack  # noqa: PLC0415 (an optional dependency)

        source = ContainerStack()
    elif kind == "processes":
        source = Stack(members=(), progress=PlainProgress(say))
    else:
        raise StackError(f"TIDINGS_STACK is {kind!r}", hint="it may be processes or containers")
    existing = {
        member: ExistingServer(member, environment[variable])
        for member, variable in VARIABLES.items()
        if environment.get(variable)
    }
    try:
        yield Provider(source, existing, together)
    finally:
        source.close()
