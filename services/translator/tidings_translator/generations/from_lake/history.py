"""Reads what ``tidings-lakehouse history`` has written: the records of technical topics, by partition and offset.

The format is described there: ``history.json``, and for each partition gzipped lines of JSON.
"""

import gzip
from base64 import b64decode
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote

import msgspec

from tidings_envelope.times import clear_micros
from tidings_translator.base.errors import GenerationError
from tidings_translator.base.records import Headers, Partition

_MANIFEST = "history.json"
_NULL = msgspec.Raw(b"null")


class _Span(msgspec.Struct, frozen=True):
    first: int
    last: int


class _Topic(msgspec.Struct, frozen=True):
    id: str
    partitions: dict[str, _Span]


class _Manifest(msgspec.Struct, frozen=True):
    source: str
    topics: dict[str, _Topic]


class _Header(msgspec.Struct, frozen=True):
    key: str
    value: bytes | None = None


class _Line(msgspec.Struct, frozen=True):
    offset: int
    key: msgspec.Raw = _NULL
    value: msgspec.Raw = _NULL
    headers: list[_Header] | None = None
    raw_key: str | None = None
    raw_value: str | None = None


class LakeRecord(NamedTuple):
    """A record, as `records.FetchedRecord`."""

    offset: int
    key: bytes | None
    value: bytes | None
    headers: Headers


_decode = msgspec.json.Decoder(_Line).decode


class LakePartition:
    """Reads one partition by offset.

    Args:
        files: in order.
        start: the first offset that is wanted.
        end: one past the last one.
        times: see `Lake`.
    """

    def __init__(
        self, files: Sequence[Path], start: int, end: int, times: AbstractSet[str] = frozenset()
    ) -> None:
        self.end = end
        self._times = times
        self.position = start
        self._start = start
        self._records = self._read(files)
        self.exhausted = False

    def next(self, count: int) -> list[LakeRecord]:
        """The next records, at most so many; none at the end.

        Raises:
            GenerationError: a file is damaged.
        """
        found: list[LakeRecord] = []
        for record in self._records:
            found.append(record)
            if len(found) == count:
                self.position = record.offset + 1
                return found
        self.exhausted = True
        self.position = max(self.position, self.end)
        return found

    def _read(self, files: Sequence[Path]) -> Iterator[LakeRecord]:
        last = -1
        for path in files:
            try:
                with gzip.open(path, "rb") as lines:
                    for line in lines:
                        record = _record(line, self._times)
                        if record.offset <= last:
                            raise GenerationError(
                                f"{path}: the records are not in the order of their offsets"
                            )
                        last = record.offset
                        if last >= self._start:
                            yield record
            except (OSError, EOFError, msgspec.DecodeError) as error:
                raise GenerationError(
                    f"{path} cannot be read: {type(error).__name__}",
                    hint="write the history again: tidings-lakehouse history DIRECTORY",
                ) from error


def _record(line: bytes, times: AbstractSet[str]) -> LakeRecord:
    found = _decode(line)
    headers = [(one.key, one.value or b"") for one in found.headers or ()]
    if found.raw_value is not None or found.raw_key is not None:
        return LakeRecord(found.offset, _bytes(found.raw_key), _bytes(found.raw_value), headers)
    value = _json(found.value)
    return LakeRecord(
        found.offset, _json(found.key), _beyond_doubt(value, times) if value and times else value, headers
    )


def _beyond_doubt(value: bytes, times: AbstractSet[str]) -> bytes:
    """A change event whose moments nobody takes for milliseconds: those that could be become text, as `EnvelopeDecoder` has them
    where a schema tells their unit."""
    event = msgspec.json.decode(value)
    is_changed = False
    for row in (event.get("before"), event.get("after")):
        for name in times & row.keys() if row else ():
            clear = clear_micros(row[name])
            is_changed |= clear is not row[name]
            row[name] = clear
    return msgspec.json.encode(event) if is_changed else value


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else b64decode(text)


def _json(raw: msgspec.Raw) -> bytes | None:
    value = bytes(raw)
    return None if value == b"null" else value


class Lake:
    """A directory that ``tidings-lakehouse history`` has written.

    Args:
        source: the topic prefix.
        times: columns that are declared as moments, whose numbers are microseconds here.

    Raises:
        GenerationError: it is not such a directory, or of another source.
    """

    def __init__(self, directory: Path, source: str, times: AbstractSet[str] = frozenset()) -> None:
        self._directory = directory
        self._times = times
        try:
            manifest = msgspec.json.decode((directory / _MANIFEST).read_bytes(), type=_Manifest)
        except (OSError, msgspec.DecodeError) as error:
            raise GenerationError(
                f"{directory} is not what the lakehouse has written: {_MANIFEST} cannot be read",
                hint="have it written with `tidings-lakehouse history DIRECTORY`",
            ) from error
        if manifest.source != source:
            raise GenerationError(
                f"{directory} has the history of source {manifest.source}, not of {source}",
                hint="set TIDINGS_SOURCE to the source whose history it is",
            )
        self.topic_ids = {topic: one.id for topic, one in manifest.topics.items()}
        self.spans = {
            Partition(topic, int(number)): (span.first, span.last)
            for topic, one in manifest.topics.items()
            for number, span in one.partitions.items()
        }
        self._files: dict[Partition, list[Path]] = {}
        for path in sorted(directory.glob("topic=*/partition=*/*.gz")):
            topic = unquote(path.parts[-3].removeprefix("topic="))
            number = int(path.parts[-2].removeprefix("partition="))
            self._files.setdefault(Partition(topic, number), []).append(path)

    def open(self, partition: Partition, start: int) -> LakePartition:
        """A partition's records from an offset on."""
        end = self.spans[partition][1] + 1
        return LakePartition(self._files.get(partition, []), start, end, self._times)

    def check(
        self,
        read: AbstractSet[str],
        transactions: str,
        *,
        firsts: Mapping[Partition, int],
        topic_ids: Mapping[str, str],
    ) -> None:
        """Whether the log begins with the topics, and the topics still have what comes behind it.

        Args:
            read: the topics that the generation reads.
            transactions: the transaction topic.
            firsts: the first offset that Kafka has of each partition of these topics.
            topic_ids: of the same topics.

        Raises:
            GenerationError: history would have a gap.
        """
        if Partition(transactions, 0) not in self.spans:
            raise GenerationError(
                f"the lakehouse has no log of {transactions}",
                hint="a lakehouse that has begun to log it only after Kafka had deleted its beginning cannot be used",
            )
        for topic in self.topic_ids.keys() & read:
            if topic_ids.get(topic) != self.topic_ids[topic]:
                raise GenerationError(
                    f"the topic {topic} is not the one that the lakehouse has logged: it was deleted",
                    hint="take a new snapshot under another topic.prefix",
                )
        for partition, (begins, _) in sorted(self.spans.items()):
            if partition.topic in read and begins > 0:
                whole = not any(firsts.values())
                raise GenerationError(
                    f"history is not whole: the log of {partition} begins at offset {begins}",
                    hint="the topics hold all of it: start without --from-lake"
                    if whole
                    else "the lakehouse was started after Kafka had deleted the beginning",
                )
        for partition, first in sorted(firsts.items()):
            last = self.spans.get(partition, (0, -1))[1]
            if first > last + 1:
                raise GenerationError(
                    f"history is not whole: {partition} is logged up to offset {last}, and Kafka's begins at {first}",
                    hint="let the lakehouse catch up, and write its history again",
                )
