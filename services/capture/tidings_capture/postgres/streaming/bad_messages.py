"""What is said of a message of the stream that cannot be decoded or converted: also where it stands."""

import struct
from typing import Final

from tidings_capture.cdc.types.conversion import ConversionError
from tidings_capture.postgres.wire.pgoutput import TAG, DecodeError
from tidings_envelope.position import lsn_to_text

_U64: Final = struct.Struct(">Q").unpack_from


def add_position(error: DecodeError | ConversionError, data: bytes) -> None:
    """Put a message's LSN to an error, which knows the message or the column only."""
    error.args = (f"{error}, at LSN {lsn_to_text(_U64(data, 1)[0])}", *error.args[1:])


def cut_short(data: bytes) -> DecodeError:
    """The error of a message that ends before its first fields do."""
    tag = chr(data[TAG]) if len(data) > TAG else "w"
    return DecodeError("the message is cut short", tag=tag, offset=max(len(data) - TAG, 0))
