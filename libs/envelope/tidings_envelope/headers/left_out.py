"""Rows that a transaction's END marker counts, and that capture has not published: a header of the END record.

The marker's body is Debezium's, which counts every row of the transaction. Where a transform has dropped some, or a failure of
a transform or a conversion was tolerated, the header says of which tables, so that nobody waits for these rows. Debezium
writes no such header.
"""

import msgspec

from tidings_envelope.errors import DecodeError

HEADER = "tidings.left.out"


class LeftOut(msgspec.Struct, frozen=True, omit_defaults=True):
    """Numbers of rows by ``schema.table``, as in the marker's ``data_collections``."""

    filtered: dict[str, int] = {}
    """Dropped on purpose: the transaction is complete without them."""
    failed: dict[str, int] = {}
    """They could not be transformed or converted, and that was tolerated: the transaction will never be complete."""


_decode = msgspec.json.Decoder(LeftOut).decode


def left_out(value: bytes | None) -> LeftOut:
    """What the header's value says.

    Raises:
        DecodeError: it is not a JSON object of numbers by table.
    """
    try:
        return _decode(value or b"")
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise DecodeError(f"the header {HEADER} is not a JSON object of numbers by table") from error
