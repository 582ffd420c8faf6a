"""From records as they stand in topics to what a sink task is given: converters, headers, transforms, tolerance."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from tidings_connect.config.task_options import converters_of, transforms_of
from tidings_connect.converters.encoding import make_converter
from tidings_connect.data.errors import DataError
from tidings_connect.data.parse import parse_text
from tidings_connect.data.subscription import Consumed, TopicPartition
from tidings_connect.task.channel import TaskJob
from tidings_connect.task.patience import Patience
from tidings_connect.task.sink.letters import HEADER, KEY, TRANSFORMATION, VALUE, Letters
from tidings_connect.task.sink.task import LeftOut, SinkRecord
from tidings_connect.transforms.chain import TransformError, make_chain
from tidings_connect.transforms.record import Header, SourceRecord
from tidings_envelope.errors import EnvelopeError
from tidings_envelope.schema import ConnectSchema
from tidings_service import Retry, TidingsError

_OVER: Final = object()
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
        self._classes = {side: options.get(f"{side}.converter", "") for side in ("key", "value")}
        chain = transforms_of(job.config)
        self._chain = make_chain(chain, patience.pauses) if chain else None
        self._patience = patience
        self._letters = letters
        self._counts: Counter[str] = Counter()
        self._headers_known: dict[bytes, tuple[ConnectSchema | None, Any]] = {}
        """What short headers are: a source's are the same in record after record."""

    @property
    def counts(self) -> Mapping[str, int]:
        """How many records the task has been given, by the topic that they were read from."""
        return self._counts

    def count(self, batch: Sequence[SinkRecord]) -> None:
        """The task has these."""
        for record in batch:
            self._counts[record.original.topic] += 1

    def made(self, record: Consumed) -> SinkRecord | LeftOut:
        """What the task is given, or what it is told of a record that is left out.

        Raises:
            RecordError: it cannot be made, and errors are not tolerated.
            TransformError: of a failure that may pass, and has not in time; so are errors of the schema registry.
            StopRequested: the task was to stop while a step was tried again.
        """
        at = TopicPartition(record.topic, record.partition)
        try:
            key = self._step(KEY, self._classes["key"], record, self._key.decode, record.key)
            value = self._step(VALUE, self._classes["value"], record, self._value.decode, record.value)
            headers = self._headers(record)
        except _LeftOutError:
            return LeftOut(at, record.offset, None)
        plain = SourceRecord(
            record.topic, record.partition, *key, *value, record.timestamp, headers, record.offset
        )
        result: SourceRecord | None = plain
        if self._chain is not None:
            place = f"topic {record.topic}, partition {record.partition}, offset {record.offset}"
            try:
                result = self._chain.apply(plain, place)
            except TransformError as error:
                if error.retry == Retry.TIMED:
                    raise  # nothing is wrong with the record
                self._letters.leave_out(record, TRANSFORMATION, type(error).__name__, error)
                return LeftOut(at, record.offset, None)
        if result is None:
            return LeftOut(at, record.offset, SinkRecord(*plain[:-1], record.offset, at))
        return SinkRecord(*result[:-1], record.offset, at)

    def close(self) -> None:
        """Close transforms and converters."""
        if self._chain is not None:
            self._chain.close()
        for converter in (self._key, self._value):
            converter.close()

    def _step(
        self,
        stage: str,
        class_name: str,
        record: Consumed,
        decode: Callable[[str, bytes | None], tuple[ConnectSchema | None, Any]],
        data: bytes | None,
    ) -> tuple[ConnectSchema | None, Any]:
        pauses: Iterator[None] | None = None
        while True:
            try:
                return decode(record.topic, data)
            except DataError as error:
                self._letters.leave_out(record, stage, class_name, error)
                raise _LeftOutError from None
            except (EnvelopeError, TidingsError) as error:
                pauses = pauses or self._patience.pauses()
                if error.retry != Retry.TIMED or next(pauses, _OVER) is _OVER:
                    raise

    def _headers(self, record: Consumed) -> list[Header]:
        """As SimpleHeaderConverter reads them: text that looks like a value of a type is one."""
        found = []
        for name, data in record.headers:
            if data is None:
                found.append(Header(name, None, None))
                continue
            known = self._headers_known.get(data)
            if known is None:
                known = self._parsed(name, data, record)
            found.append(Header(name, *known, data))
        return found

    def _parsed(self, name: str, data: bytes, record: Consumed) -> tuple[ConnectSchema | None, Any]:
        try:
            parsed = parse_text(data.decode())
        except UnicodeDecodeError:
            self._letters.leave_out(record, HEADER, _SIMPLE, DataError(f"header {name} is not text"))
            raise _LeftOutError from None
        # What may be changed by whoever is given it is not shared.
        if len(data) <= _MOST_HEADER_BYTES and not isinstance(parsed[1], list | dict):
            if len(self._headers_known) >= _MOST_HEADERS:
                self._headers_known.clear()
            self._headers_known[data] = parsed
        return parsed


class _LeftOutError(Exception):
    """A record is left out."""
