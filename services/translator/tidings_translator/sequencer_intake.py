"""The sequencer's way in: bytes of technical topics to the assembler, and to the dead letters what nobody can read."""

import time

from tidings_envelope.decode import EnvelopeDecoder
from tidings_envelope.errors import DecodeError, RegistryError
from tidings_envelope.left_out import HEADER as LEFT_OUT
from tidings_envelope.left_out import LeftOut, left_out
from tidings_envelope.wire import HEADER_BYTES
from tidings_service import Retry
from tidings_translator.dead_letters import dead_letter
from tidings_translator.errors import SequenceError
from tidings_translator.records import FetchedRecord, Output, Partition
from tidings_translator.sequencer_session import Session

_JSON_BEGIN = b'{"status":"BEGIN"'
"""How the first field of a marker looks: Debezium's schema puts the status first."""
_AVRO_BEGIN = b"\x0aBEGIN"


def _is_begin(value: bytes) -> bool:
    """Whether it is certainly a BEGIN marker; these are half of the markers, and END tells all that they do."""
    if value[:1] == b"\0":
        return value[HEADER_BYTES : HEADER_BYTES + len(_AVRO_BEGIN)] == _AVRO_BEGIN
    return value.startswith(_JSON_BEGIN)


def _left_out(record: FetchedRecord) -> LeftOut | None:
    """What capture says to have counted in an END marker, but not published."""
    for name, value in record.headers:
        if name == LEFT_OUT:
            return left_out(value)
    return None


class Intake:
    """Decodes records and hands them to a session's assembler.

    Args:
        dead_letters_topic: where a record goes that no second try will make readable.
        max_unreadable: so many one after the other are no accident of single records.
    """

    def __init__(self, decoder: EnvelopeDecoder, dead_letters_topic: str, max_unreadable: int) -> None:
        self._decoder = decoder
        self._dead_letters_topic = dead_letters_topic
        self._max_unreadable = max_unreadable

    def take_rows(
        self, session: Session, partition: Partition, records: list[FetchedRecord], letters: list[Output]
    ) -> None:
        decode, assembler, now = self._decoder.envelope, session.assembler, time.monotonic()
        take = assembler.row
        traces = session.traces
        reads_rows = traces.reads_rows
        for record in records:
            try:
                envelope = decode(record.value)
                if envelope is not None:
                    if reads_rows or record.headers:
                        traces.note(record.headers, envelope)
                    take(partition, record.offset, envelope, now)
                else:
                    assembler.nothing(partition, record.offset)
            except (DecodeError, RegistryError) as error:
                letter = self._unreadable(session, partition, record, error)
                if assembler.unreadable(partition, record.offset):
                    letters.append(letter)
            else:
                session.unreadable_in_a_row = 0

    def take_markers(
        self, session: Session, partition: Partition, records: list[FetchedRecord], letters: list[Output]
    ) -> None:
        assembler, now = session.assembler, time.monotonic()
        for record in records:
            value = record.value
            if value is None or _is_begin(value):
                assembler.nothing(partition, record.offset)
                continue
            try:
                marker = self._decoder.marker(value)
                assembler.marker(partition, record.offset, marker, now, _left_out(record))
            except (DecodeError, RegistryError) as error:
                letter = self._unreadable(session, partition, record, error)
                if assembler.unreadable(partition, record.offset):
                    letters.append(letter)
            else:
                session.unreadable_in_a_row = 0

    def _unreadable(
        self,
        session: Session,
        partition: Partition,
        record: FetchedRecord,
        error: DecodeError | RegistryError,
    ) -> Output:
        """A record that no second try will make readable; a registry that is away is another matter.

        Raises:
            RegistryError: the registry did not answer.
            SequenceError: too many one after the other.
        """
        if error.retry == Retry.TIMED:
            raise error
        session.unreadable_in_a_row += 1
        if session.unreadable_in_a_row > self._max_unreadable:
            raise SequenceError(
                f"{session.unreadable_in_a_row} records one after the other are unreadable, up to {partition} offset"
                f" {record.offset}: {error}",
                hint="is TIDINGS_REGISTRY the one these topics were written with? TIDINGS_MAX_UNREADABLE_IN_A_ROW",
            ) from error
        return dead_letter(
            self._dead_letters_topic,
            stage="decode",
            error=type(error).__name__,
            reason=str(error),
            partition=partition,
            offset=record.offset,
            key=record.key,
            value=record.value,
        )
