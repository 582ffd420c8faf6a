"""What signals ask of incremental snapshots: the tables that are to be read, or the keys. Pure."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from tidings_capture.cdc.database import TableId
from tidings_capture.cdc.incremental.state import Collection, expanded
from tidings_capture.cdc.signals.channels import Signal, condition_for
from tidings_connect.errors import ConnectError
from tidings_envelope.headers.repair import MOST_KEYS


def wanted_tables(
    signal: Signal,
    names: Iterable[str],
    captured: Iterable[TableId],
    enclose: Callable[[str], str],
    *,
    deleted: bool,
) -> list[Collection]:
    """The tables of ``data-collections``.

    Args:
        names: of the signal.
        captured: the tables that the filters choose now.
        enclose: see `SignalOptions.enclose`.
        deleted: the rows that are gone are wanted, not those that are there.

    Raises:
        ConnectError: a name or a condition is not of its form.
    """
    key = signal.text("surrogate-key")
    return [
        Collection(
            name,
            condition_for(signal, name, enclose),
            key if key.strip() else "",
            signal.id,
            deleted=deleted,
        )
        for name in expanded(list(names), captured)
    ]


def wanted_keys(signal: Signal) -> Collection:
    """The table ``data-collection`` and the ``keys`` of a signal ``repair-rows``.

    Raises:
        ConnectError: they are missing or not of their form; holds no value of a key.
    """
    name, keys = signal.text("data-collection").strip(), signal.data.get("keys")
    if not name:
        raise ConnectError(f"data-collection of signal {signal.id} is missing or is not a string")
    if not isinstance(keys, list) or not keys or not all(map(_is_key, keys)):
        raise ConnectError(
            f"keys of signal {signal.id} is missing, or is not a list of objects whose values are strings"
        )
    if len(keys) > MOST_KEYS:
        raise ConnectError(f"signal {signal.id} has {len(keys)} keys; {MOST_KEYS} is the most")
    return Collection(name, correlation_id=signal.id, keys=tuple(keys))


def _is_key(value: Any) -> bool:
    return (
        isinstance(value, Mapping) and bool(value) and all(isinstance(part, str) for part in value.values())
    )
