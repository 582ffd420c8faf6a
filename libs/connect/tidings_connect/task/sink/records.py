"""From records as they stand in topics to what a sink task is given: converters, headers, transforms, tolerance."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Final

from tidings_connect.config.task_options import converters_of, transforms_of
from tidings_connect.converters.decoding import Decoded
from tidings_connect.converters.encoding import DecodesMany, DecodesStructs, make_converter
from tidings_connect.data.errors import DataError
from tidings_connect.data.parse import parse_text
from tidings_connect.data.subscription import Consumed, TopicPartition
from tidings_connect.task.channel import TaskJob
from tidings_connect.task.patience import Patience
from tidings_connect.task.sink.commit_time import OF_COMMIT, committed_ms
from tidings_connect.task.sink.letters import HEADER, KEY, TRANSFORMATION, VALUE, Letters
from tidings_connect.task.sink.task import LeftOut, SinkRecord, TopicColumns
from tidings_connect.transforms.chain import TransformError, make_chain
from tidings_connect.transforms.record import Header, SourceRecord
from tidings_envelope.errors import EnvelopeError
from tidings_service import Retry, TidingsError

_OVER: Final = object()
_FAILURES: Final = (DataError, EnvelopeError, TidingsError)
"""Of converters."""
_SIMPLE: Final = "SimpleHeaderConverter"
_MOST_HEADERS: Final = 2_000
"""Of which it is remembered what they are."""
_MOST_HEADER_BYTES: Final = 100


class Records:
    """Makes the records of one task.

    Args:
        letters: takes those that cannot be made.
        patience: how long steps are tried again whose failure may pass.
    """

    def __init__(self, job: TaskJob, letters: Letters, patience: Patience) -> None:
        options = converters_of(job.config, job.converters)
        self._key, self._value = (make_converter(options, is_key=is_key) for is_key in (True, False))
        self._classes = {
            stage: options.get(f"{side}.converter", "") for stage, side in ((KEY, "key"), (VALUE, "value"))
        }
        chain = transforms_of(job.config)
        self._chain = make_chain(chain, patience.pauses) if chain else None
        self._patience = patience
        self._letters = letters
        self._counts: Counter[str] = Counter()
        self._headers_known: dict[tuple[str, bytes | None], Header] = {}
        """Short headers: a source's are the same in record after record."""
        self._last_headers: tuple[Sequence[tuple[str, bytes | None]], list[Header]] = (), []
        """Those of a record, of which each is known, and what they are."""
        self._places: dict[tuple[str, int], TopicPartition] = {}

    @property
    def counts(self) -> Mapping[str, int]:
        """How many records the task has been given, by the topic that they were read from."""
        return self._counts

    def count(self, topics: Iterable[str]) -> None:
        """The task has a record of each of these, the topics that they were read from."""
        self._counts.update(topics)

    def made(
        self, batch: Sequence[Consumed], reads: frozenset[str] | None = None
    ) -> list[SinkRecord | LeftOut]:
        """What the task is given, and what it is told of records that are left out.

        Args:
            reads: `SinkTask.reads`.

        Raises:
            RecordError: one cannot be made, and errors are not tolerated.
            TransformError: of a failure that may pass, and has not in time; so are errors of the schema registry.
            StopRequested: the task was to stop while a step was tried again.
        """
        try:
            decoded = self._decoded(batch, None if reads is None or self._chain else reads | OF_COMMIT)
        except _FAILURES:
            decoded = None  # which one it is, and whether it passes, is seen one by one
        if decoded is None:
            return [self._made(record, *self._key_and_value(record)) for record in batch]
        return [self._made(record, key, value) for record, key, value in zip(batch, *decoded, strict=True)]

    def columns(
        self, batch: Sequence[Consumed], reads: frozenset[str] | None = None
    ) -> list[TopicColumns] | None:
        """The same, topic by topic and field by field; None where the batch is to be made record by record, as one is with
        transforms, of a format that has no such way, or with a record that cannot be read.

        Args:
            reads: `SinkTask.reads`.
        """
        key, value = self._key, self._value
        if (
            self._chain is not None
            or not isinstance(key, DecodesStructs)
            or not isinstance(value, DecodesStructs)
        ):
            return None
        topics: dict[str, list[Consumed]] = {}
        for record in batch:
            topics.setdefault(record.topic, []).append(record)
        found = []
        for some in topics.values():
            try:
                made = self._columns_of_topic(some, key, value, reads)
            except _FAILURES:
                return None  # which one it is, and whether it passes, is seen one by one
            if made is None:
                return None
            found.append(made)
        return found

    def _columns_of_topic(
        self,
        batch: Sequence[Consumed],
        key_converter: DecodesStructs,
        value_converter: DecodesStructs,
        reads: frozenset[str] | None,
    ) -> TopicColumns | None:
        keys = [record.key for record in batch if record.key is not None]
        values = [record.value for record in batch if record.value is not None]
        headers = self._headers_in_turn(batch)
        if headers is None or len(keys) < len(batch):
            return None
        key = key_converter.decode_structs(keys)
        value = value_converter.decode_structs(values, reads) if values else None
        if key is None or (values and value is None):
            return None
        places = None
        if len(values) < len(batch):
            places = [place for place, record in enumerate(batch) if record.value is not None]
        schema, structs = value or (None, None)
        return TopicColumns(batch, *key, schema, structs, places, headers, partial(self._one_of, batch))

    def first_commits(self, batch: Sequence[Consumed]) -> dict[TopicPartition, int]:
        """When the first changes of records that were made columns were committed, by partition; milliseconds since the Unix epoch."""
        found: dict[TopicPartition, int] = {}
        for place, record in enumerate(batch):
            if record[:2] in found:
                continue
            at = TopicPartition(record.topic, record.partition)
            try:
                committed = committed_ms(self._one_of(batch, place))
            except (ValueError, *_FAILURES):
                committed = record.timestamp  # what the task has not looked at cannot be read
            if committed is not None:
                found[at] = committed
        return found

    def _one_of(self, batch: Sequence[Consumed], place: int) -> SinkRecord:
        record = batch[place]
        try:
            key = self._key.decode(record.topic, record.key)
            value = self._value.decode(record.topic, record.value)
        except DataError as error:
            raise ValueError("the record cannot be read") from error
        made = self._made(record, key, value)
        assert isinstance(made, SinkRecord)  # its headers were read before
        return made

    def _headers_in_turn(self, batch: Sequence[Consumed]) -> list[list[Header]] | None:
        """See `TopicColumns.headers`; None where one cannot be read."""
        found: list[list[Header]] = []
        last: Sequence[tuple[str, bytes | None]] = ()
        try:
            for record in batch:
                if record.headers != last:
                    last = record.headers
                    found.append([self._known_or_parsed(*each) for each in last])
        except UnicodeDecodeError:
            return None
        return found

    def _decoded(
        self, batch: Sequence[Consumed], reads: frozenset[str] | None
    ) -> tuple[Sequence[Decoded], Sequence[Decoded]] | None:
        """Keys and values of many at once, where the converters can do so."""
        if not isinstance(self._value, DecodesMany):
            return None
        values = self._value.decode_many([record.value for record in batch], reads)
        if values is None:
            return None
        if isinstance(self._key, DecodesMany):
            keys = self._key.decode_many([record.key for record in batch])
            return None if keys is None else (keys, values)
        return [self._key.decode(record.topic, record.key) for record in batch], values

    def _key_and_value(self, record: Consumed) -> tuple[Decoded, Decoded] | tuple[None, None]:
        """None of both: it is left out."""
        topic = record.topic
        try:
            try:
                key = self._key.decode(topic, record.key)
            except _FAILURES as error:
                key = self._again(error, KEY, record, self._key.decode, record.key)
            try:
                value = self._value.decode(topic, record.value)
            except _FAILURES as error:
                value = self._again(error, VALUE, record, self._value.decode, record.value)
        except _LeftOutError:
            return None, None
        return key, value

    def _made(
        self, record: Consumed, decoded_key: Decoded | None, decoded_value: Decoded | None
    ) -> SinkRecord | LeftOut:
        topic, partition, offset, _, _, given, timestamp, _ = record
        at = self._places.get((topic, partition))
        if at is None:
            at = self._places[topic, partition] = TopicPartition(topic, partition)
        if decoded_key is None or decoded_value is None:
            return LeftOut(at, offset, None)
        (key_schema, key), (value_schema, value) = decoded_key, decoded_value
        try:
            headers = self._headers(record) if given else []
        except _LeftOutError:
            return LeftOut(at, offset, None)
        if self._chain is None:
            return SinkRecord(
                topic, partition, key_schema, key, value_schema, value, timestamp, headers, offset, at
            )
        plain = SourceRecord(
            topic, partition, key_schema, key, value_schema, value, timestamp, headers, offset
        )
        place = f"topic {topic}, partition {partition}, offset {offset}"
        try:
            result = self._chain.apply(plain, place)
        except TransformError as error:
            if error.retry == Retry.TIMED:
                raise  # nothing is wrong with the record
            self._letters.leave_out(record, TRANSFORMATION, type(error).__name__, error)
            return LeftOut(at, offset, None)
        if result is None:
            return LeftOut(at, offset, SinkRecord(*plain[:-1], offset, at))
        return SinkRecord(*result[:-1], offset, at)

    def close(self) -> None:
        """Close transforms and converters."""
        if self._chain is not None:
            self._chain.close()
        for converter in (self._key, self._value):
            converter.close()

    def _again(
        self,
        error: Exception,
        stage: str,
        record: Consumed,
        decode: Callable[[str, bytes | None], Decoded],
        data: bytes | None,
    ) -> Decoded:
        """Decode once more what could not be decoded, as long as that may pass."""
        pauses: Iterator[None] | None = None
        while True:
            if isinstance(error, DataError):
                self._letters.leave_out(record, stage, self._classes[stage], error)
                raise _LeftOutError from None
            assert isinstance(error, EnvelopeError | TidingsError)
            pauses = pauses or self._patience.pauses()
            if error.retry != Retry.TIMED or next(pauses, _OVER) is _OVER:
                raise error
            try:
                return decode(record.topic, data)
            except _FAILURES as again:
                error = again

    def _headers(self, record: Consumed) -> list[Header]:
        """As SimpleHeaderConverter reads them: text that looks like a value of a type is one."""
        given, (former, found) = record.headers, self._last_headers
        if given == former:
            return found.copy()
        found = []
        for name, data in given:
            try:
                found.append(self._known_or_parsed(name, data))
            except UnicodeDecodeError:
                self._letters.leave_out(record, HEADER, _SIMPLE, DataError(f"header {name} is not text"))
                raise _LeftOutError from None
        if all(each in self._headers_known for each in given):
            self._last_headers = given, found.copy()
        return found

    def _known_or_parsed(self, name: str, data: bytes | None) -> Header:
        return self._headers_known.get((name, data)) or self._parsed(name, data)

    def _parsed(self, name: str, data: bytes | None) -> Header:
        if data is None:
            return Header(name, None, None)
        parsed = parse_text(data.decode())
        found = Header(name, *parsed, data)
        # What may be changed by whoever is given it is not shared.
        if len(data) <= _MOST_HEADER_BYTES and not isinstance(parsed[1], list | dict):
            if len(self._headers_known) >= _MOST_HEADERS:
                self._headers_known.clear()
            self._headers_known[name, data] = found
        return found


class _LeftOutError(Exception):
    """A record is left out."""
