"""Reads what ``tidings-lakehouse replay --generation`` has written.

The format is described there (`tidings_lakehouse.replay.generation`): ``replay.json``, and files of gzipped lines of JSON.
"""

import gzip
import hashlib
from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from pathlib import Path
from typing import NamedTuple

import msgspec

from tidings_domain.loading.domain import Domain
from tidings_domain.loading.fingerprint import fingerprint
from tidings_envelope.errors import DecodeError
from tidings_envelope.position import lsn_from_text
from tidings_translator.base.errors import GenerationError
from tidings_translator.base.records import Headers, Partition
from tidings_translator.sequencer.assembly.progress import Progress

_MANIFEST = "replay.json"
_WRITE_AGAIN = "write it again: tidings-lakehouse replay --domain ... --generation DIRECTORY"


class _Topic(msgspec.Struct, frozen=True):
    id: str
    partitions: dict[str, int]


class _Manifest(msgspec.Struct, frozen=True):
    source: str
    domain: str
    fingerprint: str
    until: str
    letters: int
    began_lsn: int
    snapshot_lsn: int
    finished: list[tuple[int, int]]
    lost: list[tuple[int, int]]
    topics: dict[str, _Topic]
    files: dict[str, int]
    replication_domain: int | None = None
    last_of_server: dict[int, int] = {}
    servers_since: int | None = None


class _Header(msgspec.Struct, frozen=True):
    key: str
    value: bytes = b""


class _Line(msgspec.Struct, frozen=True):
    event: str | None = None
    id: str = ""
    headers: list[_Header] = []
    body: bytes = b""
    aggregate: str | None = None
    state: bytes = b""
    memory_key: bytes | None = None
    memory_value: bytes = b""


class Event(NamedTuple):
    """What the rules have said: a business event, in Avro without the wire format's frame."""

    topic: str
    key: bytes
    headers: Headers
    body: bytes


class State(NamedTuple):
    """An aggregate as it is at the end of the range, by the key of its change sets."""

    key: bytes
    value: bytes


class Remembered(NamedTuple):
    """A record of what the sequencer remembers of rows."""

    key: bytes
    value: bytes


_decode = msgspec.json.Decoder(_Line).decode


class ReplayDirectory:
    """A directory that ``tidings-lakehouse replay --generation`` has written.

    Args:
        source: the topic prefix.
        domain: the generation's rules.

    Raises:
        GenerationError: it is not such a directory, or it is of another source or of other rules.
    """

    def __init__(self, directory: Path, source: str, domain: Domain) -> None:
        self._directory = directory
        try:
            manifest = (directory / _MANIFEST).read_bytes()
            found = msgspec.json.decode(manifest, type=_Manifest)
            self.commit_lsn = lsn_from_text(found.until)
        except (OSError, msgspec.DecodeError, DecodeError) as error:
            raise GenerationError(
                f"{directory} is not what the lakehouse has written: {_MANIFEST} cannot be read",
                hint=_WRITE_AGAIN,
            ) from error
        if found.source != source:
            raise GenerationError(
                f"{directory} has a replay of source {found.source}, not of {source}",
                hint="set TIDINGS_SOURCE to the source whose replay it is",
            )
        if found.domain != domain.name or found.fingerprint != fingerprint(domain):
            raise GenerationError(
                f"{directory} was replayed by other rules than those of {domain.package}",
                hint="have the same files of TIDINGS_DOMAIN here as there, or replay again",
            )
        self._manifest = found
        self.digest = hashlib.sha256(manifest).hexdigest()
        """Of what the manifest says; two replays differ in the names of their files."""
        self.files = sorted(found.files)
        self.letters = found.letters
        """How many change sets have failed in part: their dead letters are not here."""
        self.topic_ids = {topic: one.id for topic, one in found.topics.items()}
        self.needed = {
            Partition(topic, int(number)): offset
            for topic, one in found.topics.items()
            for number, offset in one.partitions.items()
        }
        """From which offset each partition is needed that has records in the range."""

    def progress(self) -> Progress:
        """How far the sequencer would have got."""
        found = self._manifest
        return Progress(
            commit_lsn=self.commit_lsn,
            finished=dict(found.finished),
            began_lsn=found.began_lsn,
            lost=dict(found.lost),
            snapshot_open=False,
            snapshot_lsn=found.snapshot_lsn,
            first_snapshot_lsn=found.snapshot_lsn,
            replication_domain=found.replication_domain,
            last_of_server=dict(found.last_of_server),
            servers_since=found.servers_since,
        )

    def lines(self, file: int, start: int) -> Iterator[Event | State | Remembered]:
        """What a file has, from a line on; both are counted from 0.

        Raises:
            GenerationError: it is damaged, or not there.
        """
        path, count = self._directory / self.files[file], 0
        try:
            with gzip.open(path, "rb") as lines:
                for line in lines:
                    count += 1
                    if count > start:
                        yield _read(_decode(line))
        except (OSError, EOFError, msgspec.DecodeError) as error:
            raise GenerationError(
                f"{path} cannot be read: {type(error).__name__}", hint=_WRITE_AGAIN
            ) from error
        wanted = self._manifest.files[path.name]
        if count != wanted:
            raise GenerationError(
                f"{path} has {count} lines, and was written with {wanted}", hint=_WRITE_AGAIN
            )

    def check(
        self, read: AbstractSet[str], *, firsts: Mapping[Partition, int], topic_ids: Mapping[str, str]
    ) -> None:
        """Whether the topics still have what comes behind the range.

        Args:
            read: the topics that the generation reads.
            firsts: the first offset that Kafka has of each partition of these topics.
            topic_ids: of the same topics.

        Raises:
            GenerationError: history would have a gap.
        """
        for topic in sorted(self.topic_ids.keys() & read):
            if topic_ids.get(topic) != self.topic_ids[topic]:
                raise GenerationError(
                    f"the topic {topic} is not the one that the lakehouse has logged: it was deleted",
                    hint="take a new snapshot under another topic.prefix",
                )
        for partition, first in sorted(firsts.items()):
            if first > self.needed.get(partition, 0):
                raise GenerationError(
                    f"history is not whole: {partition} is needed from offset {self.needed.get(partition, 0)} on, and Kafka's"
                    f" begins at {first}",
                    hint="let the lakehouse catch up, replay again to another directory, and repeat this",
                )


def _read(line: _Line) -> Event | State | Remembered:
    if line.event is not None:
        return Event(line.event, line.id.encode(), [(one.key, one.value) for one in line.headers], line.body)
    if line.aggregate is not None:
        return State(f"{line.aggregate}/{line.id}".encode(), line.state)
    if line.memory_key is not None:
        return Remembered(line.memory_key, line.memory_value)
    raise msgspec.DecodeError("a line is none of the three")
