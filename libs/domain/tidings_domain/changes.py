"""Defines the change set, the message from the sequencer to the rules: what one transaction did to one aggregate.

A change set holds every row change that one committed transaction made to one aggregate (its root row and its child
rows), and the rows that the aggregate refers to, as they were at that commit. On the wire it is msgpack of the structs
below as arrays; a later version may append fields, which both older and newer readers accept.

Rows are as Debezium represents them. A `Decimal` travels as its text (msgpack has no decimal) and becomes a `Decimal`
again where the row meets the type that the domain declares for the column; nothing in between calculates with it.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal
from urllib.parse import quote

import msgspec

from tidings_domain.errors import ChangeSetError

_Micros = Annotated[int, msgspec.Meta(ge=-62_135_596_800_000_000, le=253_402_300_799_999_999)]
"""Microseconds since 1970 that a `datetime` can be."""
Op = Literal["c", "u", "d", "r"]
"""Debezium's operations on a row: create, update, delete, read (by a snapshot)."""


class RowChange(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One row change, as the technical event told it.

    `before` may hold invented values: under REPLICA IDENTITY DEFAULT only its key columns can be trusted.
    `ordinal` is the change's place in its transaction (Debezium's ``total_order``), 0 for a snapshot's row.
    """

    table: str
    op: Op
    before: dict[str, Any] | None
    after: dict[str, Any] | None
    ordinal: int = 0


class ChangeSet(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """All that one transaction did to one aggregate.

    Attributes:
        aggregate: the aggregate's class name, such as ``Order``.
        id: the root row's key as text, made by `identity`.
        commit_lsn: LSN just after the commit (the END marker's); for a snapshot's row the row's own LSN.
        txid: the transaction's id, None for a snapshot's row.
        ts_us: commit time (snapshot: when the row was read), microseconds since 1970 UTC.
        snapshot: the rows were read by a snapshot; they build state and are nobody's news.
        rows: the changes in the order of their ordinals.
        references: ``{table: {identity of the key: row}}`` as of the commit, for the references of `rows`.
        traceparent: the W3C trace context of the transaction, with `tracestate`; None where it has none.
    """

    aggregate: str
    id: str
    commit_lsn: int
    txid: int | None
    ts_us: _Micros
    snapshot: bool
    rows: tuple[RowChange, ...]
    references: dict[str, dict[str, dict[str, Any]]] = {}
    traceparent: str | None = None
    tracestate: str | None = None


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(ChangeSet)
_VALUE = re.compile(r"Invalid enum value .*(?= - at)", re.DOTALL)


def encode_change_set(change_set: ChangeSet) -> bytes:
    """The change set as bytes for the change set topic."""
    return _encoder.encode(change_set)


def decode_change_set(data: bytes) -> ChangeSet:
    """The change set that `encode_change_set` wrote.

    Raises:
        ChangeSetError: the bytes are truncated, of another format, or of other types.
    """
    try:
        return _decoder.decode(data)
    except msgspec.DecodeError as error:
        # Of a wrong operation msgspec says the value, which may be any cell's.
        raise ChangeSetError(f"not a change set: {_VALUE.sub('Invalid enum value', str(error))}") from error
    except (RecursionError, UnicodeDecodeError) as error:
        raise ChangeSetError("not a change set: too deep, or a text that is not UTF-8") from error


def identity(row: Mapping[str, Any], columns: Iterable[str]) -> str:
    """A key as text: the one form in which the sequencer and the rules name an aggregate or a referenced row.

    One column gives its value's text. Several are joined by commas, with commas and percent signs inside the values
    escaped, so that different keys never give the same text.

    Raises:
        KeyError: the row lacks one of the columns.
    """
    values = [str(row[column]) for column in columns]
    if len(values) == 1:
        return values[0]
    return ",".join(quote(value, safe=" /:+-_") for value in values)
