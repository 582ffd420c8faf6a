"""Makes guessing passwords at the REST API slow: wrong ones are answered late, later with each from the same address.

A right password is never delayed, for a proxy's address is that of all its clients. So that guessing many at once gains
nothing, only a few wrong ones of an address may wait for their answer at a time: while they do, further requests with a
password are answered 429 without a look at it.
"""

import asyncio
import ipaddress
import time
from collections import OrderedDict
from typing import Final

from tidings_service import get_logger

_MOST_ADDRESSES: Final = 10_000
_MOST_WAITING: Final = 10
_FORGOTTEN_SECONDS: Final = 600.0
_TOLD_AT: Final = 10
"""After so many wrong passwords the log says so."""

_log = get_logger(__name__)


class _Address:
    __slots__ = ("failures", "last", "waiting")

    def __init__(self) -> None:
        self.failures = self.waiting = 0
        self.last = 0.0


class Guesses:
    """What is remembered of addresses that wrong passwords came from; the oldest is forgotten when there are many.

    Args:
        first_seconds: of the delay after a first wrong password; it doubles with each further one.
        longest_seconds: of any delay.
    """

    def __init__(self, first_seconds: float = 0.1, longest_seconds: float = 5.0) -> None:
        self._first, self._longest = first_seconds, longest_seconds
        self._addresses: OrderedDict[str, _Address] = OrderedDict()

    @property
    def remembered(self) -> int:
        """How many addresses."""
        return len(self._addresses)

    def too_many(self, remote: str | None) -> bool:
        """Whether so many wrong passwords of an address wait for their answer that no further one is looked at."""
        found = self._addresses.get(_network(remote))
        return found is not None and found.waiting >= _MOST_WAITING

    async def wrong(self, remote: str | None) -> None:
        """A wrong password has come: returns when it may be answered."""
        name, now = _network(remote), time.monotonic()
        found = self._addresses.pop(name, None) or _Address()
        if now - found.last > _FORGOTTEN_SECONDS and not found.waiting:
            found.failures = 0
        found.last = now
        found.failures += 1
        self._addresses[name] = found
        if len(self._addresses) > _MOST_ADDRESSES:
            self._addresses.popitem(last=False)
        if found.failures == _TOLD_AT:
            _log.warning("many wrong passwords at the REST API", address=name, failures=found.failures)
        found.waiting += 1
        try:
            await asyncio.sleep(min(self._first * 2.0 ** min(found.failures - 1, 30), self._longest))
        finally:
            found.waiting -= 1


def _network(remote: str | None) -> str:
    """An address; of IPv6 the network that a single host is usually given whole."""
    try:
        address = ipaddress.ip_address((remote or "").partition("%")[0])
    except ValueError:
        return remote or ""
    if address.version == 4:
        return str(address)
    return str(ipaddress.ip_network((address, 64), strict=False))
