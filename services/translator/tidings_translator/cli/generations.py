"""``tidings-translator generations``: new rules beside the live ones, and the switch from one to the other."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import msgspec
from pydantic import Field

from tidings_domain.errors import TranslatorError
from tidings_domain.loading.domain import load_domain
from tidings_envelope.errors import EnvelopeError
from tidings_envelope.position import lsn_to_text
from tidings_envelope.registry import RegistryClient
from tidings_service import TidingsError, configure_logging, load_settings, print_error
from tidings_service.kafka_settings import KafkaSettings
from tidings_service.registry_settings import RegistrySettings
from tidings_translator.base.settings import DAY_SECONDS, SequencerSettings, TranslatorSettings
from tidings_translator.generations.compare import Comparer
from tidings_translator.generations.correct import Corrector
from tidings_translator.generations.corrections import summary
from tidings_translator.generations.diff import as_json, report
from tidings_translator.generations.from_lake.filling import start_from_lake
from tidings_translator.generations.from_replay.filling import start_from_replay
from tidings_translator.generations.generations import GenerationOverview, Generations
from tidings_translator.ledger.ledger import Started

_EPILOG = """environment: TIDINGS_KAFKA, TIDINGS_SOURCE; start also TIDINGS_DOMAIN (the new rules), start --from-lake and
--from-replay, diff and correct TIDINGS_REGISTRY.
A generation's processes are a tidings-sequencer and tidings-translators with TIDINGS_GENERATION=NAME and the new rules.
docs/generations.md has the whole story."""


class GenerationsSettings(KafkaSettings):
    """What the commands need to know."""

    source: Annotated[str, Field(min_length=1)]
    """The topic prefix of the source."""
    replication: Annotated[int, Field(ge=1, le=100)] = 1
    """Replication factor of topics that are created."""


class StartSettings(GenerationsSettings):
    """What `start` needs besides."""

    domain: Annotated[str, Field(min_length=1)]
    """The package with the new generation's rules."""
    partitions: Annotated[int, Field(ge=1, le=10_000)] = 4
    """Partitions of change sets, where there is no live generation to take the number from."""
    change_sets_days: Annotated[float, Field(ge=0, le=36_500)] = 30.0
    """How long Kafka keeps change sets; 0 for ever."""


class DiffSettings(GenerationsSettings, RegistrySettings):
    """What `diff` and `correct` need besides."""


def main(arguments: Sequence[str]) -> int:
    """The command; its exit code: 0, 1 when it cannot be done (`promote`: or is not finished), 2 for settings."""
    options = parser().parse_args(arguments)
    try:
        return int(options.run(options))
    except TidingsError as error:
        return print_error(error)


def parser() -> argparse.ArgumentParser:
    """The command's options."""
    parser = argparse.ArgumentParser(
        prog="tidings-translator generations",
        description="Run a new version of the rules over all history beside the live one, compare, and switch over.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    start = commands.add_parser("start", help="make room for a new generation")
    start.set_defaults(run=_start)
    begin = start.add_mutually_exclusive_group()
    begin.add_argument(
        "--from-lake",
        type=Path,
        metavar="DIRECTORY",
        help="begin with what `tidings-lakehouse history DIRECTORY` has written, go on in the topics behind it",
    )
    begin.add_argument(
        "--from-replay",
        type=Path,
        metavar="DIRECTORY",
        help="begin with what `tidings-lakehouse replay --generation DIRECTORY` has written, go on in the topics behind it",
    )
    start.add_argument(
        "--partitions",
        type=int,
        choices=range(1, 10_001),
        metavar="N",
        help="of its change sets and states (default: as many as the live generation has)",
    )
    status = commands.add_parser("status", help="every generation: what it does, and how far it is")
    status.add_argument("--json", action="store_true", help="one JSON object per generation")
    status.set_defaults(run=_status)
    diff = commands.add_parser("diff", help="what a generation says differently from the live one")
    diff.set_defaults(run=_diff)
    diff.add_argument("--topic", help="only this business topic")
    diff.add_argument(
        "--examples",
        type=int,
        default=3,
        help="of each kind and topic; they show values of events (default: 3)",
    )
    diff.add_argument("--json", action="store_true", help="one JSON object per business topic")
    promote = commands.add_parser("promote", help="let a shadow publish instead of the live generation")
    promote.set_defaults(run=_promote)
    promote.add_argument(
        "--max-behind",
        type=int,
        default=10_000,
        help="refuse while either generation has more records to read (default: 10000)",
    )
    promote.add_argument(
        "--timeout", type=float, default=600.0, help="seconds to watch it (default: 600); it goes on without"
    )
    correct = commands.add_parser(
        "correct", help="publish again what was published wrongly before a generation was promoted"
    )
    correct.set_defaults(run=_correct)
    correct.add_argument("--topic", help="only this business topic")
    correct.add_argument(
        "--publish", action="store_true", help="do it; without, it only says what it would do"
    )
    discard = commands.add_parser(
        "discard", help="remove a shadow or retired generation, its topics and groups"
    )
    discard.set_defaults(run=_discard)
    for one in (promote, discard):
        one.add_argument(
            "--despite-letters",
            action="store_true",
            help="although aggregates are held, or dead letters open, which would be left behind",
        )
    start.add_argument(
        "--despite-letters",
        action="store_true",
        help="with --from-replay: although change sets have failed in part in the replay, whose dead letters it will not have",
    )
    for one in (start, diff, promote, correct, discard):
        one.add_argument("name", metavar="NAME", help="the generation")
    return parser


def _generations(settings: GenerationsSettings) -> Generations:
    return Generations(settings.kafka_access, settings.source, replication=settings.replication)


def _registry(settings: DiffSettings) -> RegistryClient:
    access = settings.registry_access
    return RegistryClient(access.url, **access.client_arguments())


def _start(options: argparse.Namespace) -> int:
    if options.from_lake or options.from_replay:
        whole = load_settings(SequencerSettings).model_copy(update={"generation": options.name})
        configure_logging("sequencer", level="WARNING", format=whole.log_format)
        try:
            started = _start_with_the_lake(options, whole)
        except EnvelopeError as error:
            raise TranslatorError(str(error), hint=error.hint or "TIDINGS_REGISTRY") from error
    else:
        settings = load_settings(StartSettings)
        domain = load_domain(settings.domain)
        started = _generations(settings).start(
            options.name,
            domain,
            partitions=settings.partitions,
            exactly=options.partitions,
            kept_seconds=settings.change_sets_days * DAY_SECONDS,
        )
    _say(f"generation '{options.name}' of {started.package} may run: give its processes")
    _say(f"TIDINGS_GENERATION={options.name} TIDINGS_DOMAIN={started.package}")
    return 0


def _start_with_the_lake(options: argparse.Namespace, settings: SequencerSettings) -> Started:
    domain = load_domain(settings.domain)
    if options.from_lake:
        return start_from_lake(settings, domain, options.from_lake, _say, partitions=options.partitions)
    translator = load_settings(TranslatorSettings).model_copy(update={"generation": options.name})
    return start_from_replay(
        settings,
        translator,
        domain,
        options.from_replay,
        _say,
        partitions=options.partitions,
        despite_letters=options.despite_letters,
    )


def _status(options: argparse.Namespace) -> int:
    overviews = _generations(load_settings(GenerationsSettings)).overviews()
    if options.json:
        for overview in overviews:
            _say(msgspec.json.encode(overview).decode())
    else:
        sys.stdout.write(table(overviews))
    return 0


def _diff(options: argparse.Namespace) -> int:
    settings = load_settings(DiffSettings)
    with _registry(settings) as registry:
        comparer = Comparer(settings.kafka_access, settings.source, registry)
        try:
            upto, differences = comparer.compare(options.name, examples=options.examples, topic=options.topic)
        except EnvelopeError as error:
            raise TranslatorError(str(error), hint=error.hint or "TIDINGS_REGISTRY") from error
    if options.json:
        for difference in differences:
            _say(as_json(difference))
    else:
        _say(f"up to commit {lsn_to_text(upto)}, which both generations have behind them\n")
        sys.stdout.write(report(differences))
    return 0


def _promote(options: argparse.Namespace) -> int:
    generations = _generations(load_settings(GenerationsSettings))
    promotion = generations.promote(
        options.name, max_behind=options.max_behind, despite_letters=options.despite_letters
    )
    if generations.watch(promotion, _say, timeout_seconds=options.timeout):
        return 0
    sys.stderr.write(
        f"tidings-translator generations: not finished after {options.timeout:g} s; it goes on by itself\n"
        "hint: run promote again to watch it; are all processes of both generations running?\n"
    )
    return 1


def _correct(options: argparse.Namespace) -> int:
    settings = load_settings(DiffSettings)
    with _registry(settings) as registry:
        corrector = Corrector(settings.kafka_access, settings.source, registry)
        do = corrector.publish if options.publish else corrector.look
        try:
            found = do(options.name, topic=options.topic)
        except EnvelopeError as error:
            raise TranslatorError(str(error), hint=error.hint or "TIDINGS_REGISTRY") from error
    _say("published\n" if options.publish else "what --publish would do\n")
    sys.stdout.write(summary(found))
    return 0


def _discard(options: argparse.Namespace) -> int:
    generations = _generations(load_settings(GenerationsSettings))
    removed = generations.discard(options.name, despite_letters=options.despite_letters)
    for name in removed:
        _say(f"removed {name}")
    return 0


def table(overviews: Sequence[GenerationOverview]) -> str:
    """The generations as text for a terminal."""
    rows = [
        (
            "GENERATION",
            "STATUS",
            "COMMIT LSN",
            "ROWS BEHIND",
            "CHANGE SETS BEHIND",
            "PROCESSES",
            "RULES",
            "CUT",
        )
    ]
    rows += [
        (
            one.name,
            one.status,
            _lsn(one.commit_lsn),
            str(one.behind_rows),
            str(one.behind_change_sets),
            f"{one.processes[0]}+{one.processes[1]}",
            one.package,
            _lsn(one.cut),
        )
        for one in overviews
    ]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = (
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    )
    return "\n".join(lines) + "\n"


def _lsn(lsn: int | None) -> str:
    return "" if lsn is None else lsn_to_text(lsn)


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()
