"""``tidings-translator record``: transactions of a real database as a file for authors' tests."""

import argparse
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated

from pydantic import Field

from tidings_domain.aggregate.rows import time_columns
from tidings_domain.errors import TranslatorError
from tidings_domain.loading.domain import Domain, load_domain
from tidings_domain.testing.recording import Recorder, encode_recording
from tidings_envelope.decode import EnvelopeDecoder
from tidings_envelope.errors import EnvelopeError
from tidings_envelope.registry import RegistryClient
from tidings_service import TidingsError, load_settings, print_error
from tidings_service.kafka_settings import KafkaSettings
from tidings_service.registry_settings import OptionalRegistrySettings
from tidings_translator.base.records import Partition
from tidings_translator.kafka.reading import read_partition
from tidings_translator.kafka.topics import Topics


class RecordSettings(KafkaSettings, OptionalRegistrySettings):
    """What the command needs to know."""

    domain: Annotated[str, Field(min_length=1)]
    """The package with aggregates and rules."""
    source: Annotated[str, Field(min_length=1)]
    """The topic prefix of the source."""


def main(arguments: Sequence[str]) -> int:
    """The command; its exit code: 0, 1 when Kafka, the domain or the choice fails, 2 for settings."""
    options = parser().parse_args(arguments)
    try:
        settings = load_settings(RecordSettings)
        if options.file.exists():
            raise TranslatorError(f"{options.file} is there already", hint="choose another file")
        domain = load_domain(settings.domain)
        recorder = Recorder(settings.source, domain, options.mask)
        _read(settings, recorder, domain)
        recording = recorder.cut(last=max(options.last, 1), first=options.first, until=options.until)
        options.file.write_bytes(encode_recording(recording))
    except (TidingsError, EnvelopeError) as error:
        return print_error(error)
    sys.stdout.write(
        f"{options.file}: {len(recording.transactions)} transactions, {recording.transactions[0].txid} to"
        f" {recording.transactions[-1].txid}, on {len(recording.given)} rows\n"
    )
    return 0


def parser() -> argparse.ArgumentParser:
    """The command's options."""
    parser = argparse.ArgumentParser(
        prog="tidings-translator record",
        description="Writes transactions from the technical topics to a file that tests play with Rehearsal.replay. It holds"
        " cell values of the columns that the domain declares. Environment: TIDINGS_KAFKA, TIDINGS_DOMAIN, TIDINGS_SOURCE, and"
        " TIDINGS_REGISTRY where the topics are in Avro.",
    )
    parser.add_argument("file", type=Path, help="where to write; never overwritten")
    parser.add_argument("--last", type=int, default=10, metavar="N", help="the last N transactions (10)")
    parser.add_argument("--from", type=int, dest="first", metavar="TXID", help="begin with this transaction")
    parser.add_argument("--to", type=int, dest="until", metavar="TXID", help="end with this transaction")
    parser.add_argument(
        "--mask",
        action="append",
        default=[],
        metavar="SCHEMA.TABLE.COLUMN",
        help="replace its texts; equal ones stay equal; repeatable",
    )
    return parser


def _read(settings: RecordSettings, recorder: Recorder, domain: Domain) -> None:
    topics = Topics(settings.kafka_access)
    have = topics.partitions()
    transactions = f"{settings.source}.transaction"
    wanted = [transactions, *(f"{settings.source}.{table}" for table in sorted(domain.tables))]
    if transactions not in have:
        raise TranslatorError(
            f"there is no topic {transactions}",
            hint="set TIDINGS_SOURCE to the connector's topic.prefix, and provide.transaction.metadata=true in the connector",
        )
    places = [Partition(topic, number) for topic in wanted for number in range(have.get(topic, 0))]
    with ExitStack() as stack:
        registry, access = None, settings.optional_registry
        if access is not None:
            client = RegistryClient(access.url, **access.client_arguments())
            registry = stack.enter_context(client)
        decoder = EnvelopeDecoder(registry, times=time_columns(domain.aggregates.values()))
        for place, end in topics.ends(places).items():
            for _, value, headers in read_partition(settings.kafka_access, place, end):
                if value is None:
                    continue
                if place.topic == transactions:
                    if (marker := decoder.marker(value, headers)) is not None:
                        recorder.marker(marker)
                elif (envelope := decoder.envelope(value, headers)) is not None:
                    recorder.row(envelope)
