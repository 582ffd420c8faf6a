"""Decodes records of technical topics for the assembler; those that cannot be read become dead letters.

Whatever is wrong with one record is told with its position, and the next one follows: an error that ended the process would
come again with each of its successors. What a record cannot help (the registry is away, the disk is full) does end it,
and no offset has moved.
"""

import time
from collections.abc import Callable
from typing import Any, TypeVar

from tidings_domain.errors import RowError, SequenceError
from tidings_envelope.binlog import read_as_of
from tidings_envelope.decode import EnvelopeDecoder
from tidings_envelope.errors import DecodeError, EnvelopeError
from tidings_envelope.headers.as_of import as_of
from tidings_envelope.headers.left_out import HEADER as LEFT_OUT
from tidings_envelope.headers.left_out import LeftOut, left_out
from tidings_envelope.headers.reading import Headers
from tidings_envelope.wire import HEADER_BYTES
from tidings_translator.base.records import FetchedRecord, Output, Partition
from tidings_translator.dead_letters.letters import dead_letter
from tidings_translator.dead_letters.report import report
from tidings_translator.sequencer.session import Session

_JSON_BEGIN = b'{"status":"BEGIN"'
"""How the first field of a marker looks: Debezium's schema puts the status first."""
_AVRO_BEGIN = b"\x0aBEGIN"


T = TypeVar("T")
_HINT = "is TIDINGS_REGISTRY the one these topics were written with? TIDINGS_MAX_UNREADABLE_IN_A_ROW"


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
        take, check = assembler.row, session.router.check
        traces, unreadable = session.traces, session.unreadable_in_a_row
        self._decoder.replication_domain = session.progress.replication_domain
        reads_rows = traces.reads_rows
        for record in records:
            try:
                envelope = _decoded(decode, record)
                if envelope is not None:
                    check(envelope)
                    if reads_rows or record.headers:
                        traces.note(record.headers, envelope)
                    position = as_of(record.headers) if envelope.op == "r" else None
                    if position is not None:
                        envelope = read_as_of(envelope, position)
                    take(partition, record.offset, envelope, now, record.key, position)
                else:
                    assembler.nothing(partition, record.offset)
            except (DecodeError, RowError) as error:
                letter = self._unreadable(session, partition, record, error)
                if assembler.unreadable(partition, record.offset):
                    letters.append(letter)
            else:
                if unreadable:
                    unreadable.pop(partition.topic, None)
        session.progress.note_domain(self._decoder.replication_domain)

    def take_markers(
        self, session: Session, partition: Partition, records: list[FetchedRecord], letters: list[Output]
    ) -> None:
        assembler, now = session.assembler, time.monotonic()
        self._decoder.replication_domain = session.progress.replication_domain
        for record in records:
            value = record.value
            if value is None or _is_begin(value):
                assembler.nothing(partition, record.offset)
                continue
            try:
                marker = _decoded(self._decoder.marker, record)
                if marker is None:
                    assembler.nothing(partition, record.offset)
                else:
                    assembler.marker(partition, record.offset, marker, now, _left_out(record))
            except DecodeError as error:
                letter = self._unreadable(session, partition, record, error)
                if assembler.unreadable(partition, record.offset):
                    letters.append(letter)
            else:
                session.unreadable_in_a_row.pop(partition.topic, None)
        session.progress.note_domain(self._decoder.replication_domain)

    def _unreadable(
        self,
        session: Session,
        partition: Partition,
        record: FetchedRecord,
        error: DecodeError | RowError,
    ) -> Output:
        """A record that no second try will make readable.

        Raises:
            SequenceError: too many of its topic one after the other.
        """
        topic = partition.topic
        in_a_row = session.unreadable_in_a_row[topic] = session.unreadable_in_a_row.get(topic, 0) + 1
        if in_a_row > self._max_unreadable:
            raise SequenceError(
                f"{in_a_row} records of {topic} one after the other are unreadable, up to {partition} offset"
                f" {record.offset}: {error}",
                hint=error.hint or _HINT,
            ) from error
        return report(
            dead_letter(
                self._dead_letters_topic,
                stage="decode",
                error=type(error).__name__,
                reason=str(error),
                partition=partition,
                offset=record.offset,
                key=record.key,
                value=record.value,
            )
        )


def _decoded(decode: Callable[[Any, Headers], T], record: FetchedRecord) -> T:
    """What `decode` makes of a record's value and headers.

    Raises:
        DecodeError: the value is none of it.
        EnvelopeError: it could not be told, and not because of the value.
    """
    try:
        return decode(record.value, record.headers)
    except (EnvelopeError, MemoryError):
        raise
    except Exception as error:  # a record is from outside: whatever it breaks, it is only this one
        raise DecodeError(f"decoding failed with {type(error).__name__}") from error
