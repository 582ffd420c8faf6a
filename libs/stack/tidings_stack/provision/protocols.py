"""What tests may ask of a server, whether it is a process, a container or somebody else's."""

from typing import Protocol


class AnyServer(Protocol):
    """What every server can be asked, whoever runs it. `stop`, `start` and `kill` may raise NotSupportedError."""

    @property
    def url(self) -> str:
        """Where clients connect."""

    def start(self) -> None:
        """Start it again, on the same port and data."""

    def stop(self) -> None:
        """Stop it gracefully."""

    def kill(self) -> None:
        """End it as a crash would."""


class OwnedServer(AnyServer, Protocol):
    """A server that this process started."""

    @property
    def port(self) -> int:
        """Its port on the loopback interface."""

    def close(self) -> None:
        """End it for good."""
