"""``tidings-translator readers``: who still reads which version of an event."""

import argparse
import json
import sys
from collections.abc import Sequence
from typing import Annotated

from pydantic import Field

from tidings_domain.loading.domain import load_domain
from tidings_service import TidingsError, load_settings, print_error
from tidings_service.kafka_settings import KafkaSettings
from tidings_translator.kafka.topics import Topics
from tidings_translator.readers.groups import Readers
from tidings_translator.readers.versions import Reader, live_versions, table


class ReadersSettings(KafkaSettings):
    """What the command needs to know."""

    domain: Annotated[str, Field(min_length=1)]
    """The package with aggregates and rules."""


def main(arguments: Sequence[str]) -> int:
    """The command; its exit code: 0, 1 when Kafka or the domain fails, 2 for settings."""
    options = parser().parse_args(arguments)
    try:
        settings = load_settings(ReadersSettings)
        versions = live_versions(load_domain(settings.domain))
        have = Topics(settings.kafka_access).partitions()
        kafka = Readers(settings.kafka_access)
        found = kafka.of(
            {version.topic: have[version.topic] for version in versions if version.topic in have}
        )
        readers = [(reader, kafka.read_until_ms(reader)) for reader in found]
    except TidingsError as error:
        return print_error(error)
    if options.json:
        for reader, until in readers:
            sys.stdout.write(_json(reader, until) + "\n")
    else:
        sys.stdout.write(table(versions, readers))
    return 0


def parser() -> argparse.ArgumentParser:
    """The command's options."""
    parser = argparse.ArgumentParser(
        prog="tidings-translator readers",
        description="Consumer groups of every business topic and version: how many members they have, how far behind they"
        " are, and up to which moment they have read. Environment: TIDINGS_KAFKA, TIDINGS_DOMAIN.",
    )
    parser.add_argument("--json", action="store_true", help="one JSON object per group and topic")
    return parser


def _json(reader: Reader, until_ms: int | None) -> str:
    values = {
        "topic": reader.topic,
        "group": reader.group,
        "state": reader.state,
        "members": reader.members,
        "behind": reader.behind,
        "read_until_ms": until_ms,
    }
    return json.dumps(values)
