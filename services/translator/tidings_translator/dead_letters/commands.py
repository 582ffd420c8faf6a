"""Encodes the commands of ``tidings-translator dead-letters``: records on the change sets' topic, in the letter's partition.

There it is in order with the aggregate's change sets, and what follows from it is published in one Kafka transaction
with the offset behind it, as everything. It is msgpack of a map, which a change set (an array) never is.
"""

from typing import Literal

import msgspec

from tidings_translator.dead_letters.letters import Origin


class LetterCommand(
    msgspec.Struct, frozen=True, tag_field="tidings", tag="dead-letter-request", omit_defaults=True
):
    """Deal with one letter.

    Attributes:
        do: `replay` tries again; `discard` goes on without what failed.
        offset: the letter's record on this partition.
        rule: the rule that failed; None when the rows did not fit.
        event_id: the one event that could not be published.
        held: the aggregate was to be held by this.
        change_set: the record's value; not needed while the aggregate is held.
        state: the aggregate's state before the record, as above.
        shadow: the record came while the generation did not publish.
    """

    do: Literal["replay", "discard"]
    offset: int
    rule: str | None = None
    event_id: str | None = None
    held: bool = False
    change_set: bytes | None = None
    state: bytes | None = None
    shadow: bool = False

    def origin(self, topic: str, partition: int) -> Origin:
        """The letter's origin."""
        return Origin(topic, partition, self.offset, self.rule, self.event_id)


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(LetterCommand)


def encode_command(request: LetterCommand) -> bytes:
    """The request as a record's value."""
    return _encoder.encode(request)


def command_of(value: bytes) -> LetterCommand | None:
    """The request that a record's value is; None for anything else."""
    try:
        return _decoder.decode(value)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return None
