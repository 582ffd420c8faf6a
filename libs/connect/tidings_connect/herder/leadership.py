"""The right to write configurations: one request at a time, and only on the worker that leads the group."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from tidings_connect.errors import ConflictError
from tidings_connect.group.worker_group import Group
from tidings_connect.storage.kafka import Storage

LEADER_SECONDS: Final = 30.0
"""How long a request waits for the group to have a leader; a worker that has just started needs some of it."""
_LOOK_SECONDS: Final = 0.1


class Leadership:
    """Whether this worker leads, and whose turn it is to write."""

    def __init__(self) -> None:
        self._storage: Storage | None = None
        self._group: Group | None = None
        self._lock = asyncio.Lock()

    def of(self, storage: Storage, group: Group) -> None:
        """What is written, and who says who leads; until then nobody does."""
        self._storage, self._group = storage, group

    @asynccontextmanager
    async def writing(self) -> AsyncIterator[Storage]:
        """The storage, with all that was ever asked for known; nobody else here writes meanwhile. Waits while the group
        finds its leader.

        Raises:
            ConflictError: another leads, or nobody for now.
            BrokerError: it is not known whether something that was asked for before is stored.
        """
        async with self._lock:
            yield await self._leading()

    async def _leading(self) -> Storage:
        deadline = time.monotonic() + LEADER_SECONDS
        while True:
            if self._group is not None and self._storage is not None:
                if self._group.leads:
                    await self._storage.settle()
                    if self._group.leads:
                        return self._storage
                elif self._group.leader_url is not None:
                    raise ConflictError(
                        "Cannot complete request because of a conflicting operation (e.g. worker rebalance)"
                    )
            if time.monotonic() > deadline:
                raise ConflictError(
                    "Cannot complete request momentarily due to no known leader URL, likely because a rebalance "
                    "was underway."
                )
            await asyncio.sleep(_LOOK_SECONDS)
