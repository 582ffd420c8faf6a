"""Which version of pgoutput's protocol is spoken, and with what: chosen by the server's version and the options.

Versions (PostgreSQL documentation, "Logical Streaming Replication Protocol"): 1 from PostgreSQL 10, 2 with streaming of
transactions in progress from 14, 3 with two-phase commits from 15, 4 with parallel streaming from 16. What is not asked
for does not change a byte, so the highest version is asked for.
"""

from dataclasses import dataclass
from typing import Final

from tidings_capture.postgres.errors import CatalogError
from tidings_service import Retry

_VERSIONS: Final = ((160000, 4), (150000, 3), (140000, 2))
_NEEDS: Final = {"on": 140000, "parallel": 160000}
_TWO_PHASE: Final = 150000


@dataclass(frozen=True, slots=True)
class ProtocolOptions:
    """``tidings.streaming.*`` and ``tidings.two.phase``."""

    streaming: str = "off"
    """``on`` or ``parallel``: the server sends big transactions before they are committed."""
    memory_bytes: int = 16 << 20
    """Changes of unfinished transactions above this go to disk."""
    two_phase: bool = False
    """The server sends a prepared transaction before its COMMIT PREPARED."""

    @property
    def assembles(self) -> bool:
        """Whether transactions come in parts."""
        return self.two_phase or self.streaming != "off"

    def parameters(self, server_version: int) -> tuple[tuple[str, str], ...]:
        """What START_REPLICATION is told.

        Args:
            server_version: for example 160011.

        Raises:
            CatalogError: the server is too old for an option.
        """
        if server_version < _NEEDS.get(self.streaming, 0):
            raise _too_old("tidings.streaming.mode", self.streaming, _NEEDS[self.streaming])
        if self.two_phase and server_version < _TWO_PHASE:
            raise _too_old("tidings.two.phase", "true", _TWO_PHASE)
        version = next((protocol for since, protocol in _VERSIONS if server_version >= since), 1)
        found = [("proto_version", str(version))]
        if server_version >= 140000:
            found.append(("messages", "true"))
        if self.streaming != "off":
            found.append(("streaming", self.streaming))
        if self.two_phase:
            found.append(("two_phase", "on"))
        return tuple(found)


def _too_old(option: str, value: str, needed: int) -> CatalogError:
    return CatalogError(
        f"{option}={value} needs PostgreSQL {needed // 10000} or newer",
        hint=f"leave {option} out, or upgrade the server",
        retry=Retry.NEVER,
    )
