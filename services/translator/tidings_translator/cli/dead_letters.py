"""``tidings-translator dead-letters list | show | replay | discard``: what could not be used, and dealing with it."""

import argparse
import json
import sys
from base64 import b64encode
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Annotated, Any, Literal

import msgspec
from pydantic import Field

from tidings_domain.changes import decode_change_set
from tidings_domain.errors import ChangeSetError, TranslatorError
from tidings_service import TidingsError, load_settings, print_error
from tidings_service.kafka_settings import KafkaSettings
from tidings_translator.base.errors import BrokerError
from tidings_translator.base.naming import NAME, ORIGINAL, prefix
from tidings_translator.base.records import Output
from tidings_translator.dead_letters.commands import LetterCommand, encode_command
from tidings_translator.dead_letters.letter_box import LetterBox
from tidings_translator.dead_letters.letters import Letter, Origin, open_letters, resolution

_PROGRAM = "tidings-translator dead-letters"
_COMMANDS = {
    "list": "those that nobody has dealt with",
    "show": "all that is known of some; the payload only with --payload, for it holds the database's values",
    "replay": "try again, after the domain was mended: the same event ids, in the translator's own transaction",
    "discard": "go on without: a held aggregate's later transactions follow",
}
_DESCRIPTION = """Records and changes that could not be translated, each with its reason and position.

Environment: TIDINGS_KAFKA, TIDINGS_SOURCE; TIDINGS_GENERATION for the letters of another generation."""
_WAIT_SECONDS = 60.0


class LettersSettings(KafkaSettings):
    """What the command needs to know."""

    source: Annotated[str, Field(min_length=1)]
    """The topic prefix of the source."""
    generation: Annotated[str, Field(pattern=f"^{NAME}$")] = ORIGINAL
    """Whose letters."""


def main(arguments: Sequence[str]) -> int:
    """The command; its exit code: 0, 1 when Kafka fails or a letter can't be dealt with so, 2 for settings, 3 when a
    replay has failed again or had no answer."""
    options = parser().parse_args(arguments)
    try:
        settings = load_settings(LettersSettings)
        return _run(options, settings)
    except TidingsError as error:
        return print_error(error)


def parser() -> argparse.ArgumentParser:
    """The command's options."""
    parser = argparse.ArgumentParser(
        prog=_PROGRAM, description=_DESCRIPTION, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="list|show|replay|discard")
    for name, text in _COMMANDS.items():
        command = commands.add_parser(name, help=text)
        if name != "list":
            command.add_argument(
                "number", type=int, nargs="+" if name == "show" else "*", help="as `list` tells"
            )
        if name in {"replay", "discard"}:
            command.add_argument("--all", action="store_true", help="every letter that the filters leave")
            command.add_argument(
                "--timeout",
                type=float,
                default=_WAIT_SECONDS,
                metavar="SECONDS",
                help="wait so long for the translator's answer (default: %(default)g; 0 does not wait)",
            )
        if name != "show":
            command.add_argument("--rule", help="only letters of this rule")
            command.add_argument("--stage", help="only of decode, transaction, rows, rule or publish")
            command.add_argument("--aggregate", help="only of Order, or of Order/17")
        if name == "list":
            command.add_argument("--json", action="store_true", help="one JSON object per letter")
        if name == "show":
            command.add_argument("--payload", action="store_true", help="with the record itself, as JSON")
    return parser


def _run(options: argparse.Namespace, settings: LettersSettings) -> int:
    own = prefix(settings.source, settings.generation)
    box = LetterBox(settings.kafka_access, f"{own}.dead-letters")
    if options.command == "list":
        letters = [one for one in open_letters(box.letters()) if _wanted(options, one)]
        sys.stdout.write("".join(map(_line, letters)) if options.json else _table(letters))
        return 0
    if options.command == "show":
        return _show(box, options.number, payload=options.payload)
    code = _deal(box, options, f"{own}.change-sets")
    _forget(box)
    return code


def _wanted(options: argparse.Namespace, letter: Letter) -> bool:
    known = letter.headers
    return (
        options.rule in (None, known.get("rule"))
        and options.stage in (None, known.get("stage"))
        and options.aggregate in (None, known.get("aggregate"), letter.aggregate)
    )


# --- list and show


def _line(letter: Letter) -> str:
    return json.dumps(letter.known()) + "\n"


def _table(letters: Sequence[Letter]) -> str:
    if not letters:
        return "no dead letters\n"
    lines = []
    for letter in letters:
        known = letter.headers
        what = " ".join(filter(None, (known.get("stage"), letter.aggregate, known.get("rule"))))
        held = "  HELD" if known.get("policy") == "hold" else ""
        lines += [
            f"{letter.number:6}  {_time(letter.at_ms)}  {what}{held}  {_place(letter)}",
            f"        {known.get('reason')}",
        ]
    return "\n".join(lines) + "\n"


def _time(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _place(letter: Letter) -> str:
    origin = letter.origin
    place = f"{origin.topic}/{origin.partition}@{origin.offset}"
    lsn = letter.headers.get("commit_lsn", "")
    return f"{place} commit {int(lsn) >> 32:X}/{int(lsn) & 0xFFFFFFFF:X}" if lsn.isdecimal() else place


def _show(box: LetterBox, numbers: Iterable[int], *, payload: bool) -> int:
    for number in numbers:
        letter = box.one(number)
        if letter is None:
            raise TranslatorError(f"there is no letter {number}", hint=f"{_PROGRAM} list")
        shown = letter.known() | {"at": _time(letter.at_ms)}
        if payload:
            shown["payload"] = _payload(letter)
        sys.stdout.write(json.dumps(shown, indent=2, ensure_ascii=False) + "\n")
    return 0


def _payload(letter: Letter) -> Any:
    """The record: a change set or JSON where it is one, else its bytes in base64."""
    if letter.value is None:
        return None
    try:
        return msgspec.to_builtins(msgspec.structs.asdict(decode_change_set(letter.value)))
    except ChangeSetError:
        pass
    try:
        return json.loads(letter.value)
    except ValueError:
        return {"base64": b64encode(letter.value).decode()}


# --- replay and discard


def _deal(box: LetterBox, options: argparse.Namespace, change_sets: str) -> int:
    chosen = _chosen(box, options)
    if not chosen:
        sys.stdout.write("no dead letters\n")
        return 0
    request = _replay if options.command == "replay" else _discard
    outputs = [request(box, letter, change_sets) for letter in chosen]
    start = box.end()
    box.send(outputs)
    if not options.timeout:
        sys.stdout.write(f"{len(outputs)} requests written\n")
        return 0
    return _answers(box, chosen, start, options.timeout)


def _forget(box: LetterBox) -> None:
    """Delete what stands before the oldest letter that nobody has dealt with: rows are kept no longer than they are needed."""
    end = 0

    def counted() -> Iterator[Letter]:
        nonlocal end
        for letter in box.letters():
            end = letter.number + 1
            yield letter

    oldest = min((letter.number for letter in open_letters(counted())), default=end)
    if not oldest:
        return
    try:
        box.forget(oldest)
    except BrokerError as error:
        sys.stderr.write(f"{error}: letters that were dealt with stay there (it takes the right to DELETE)\n")


def _chosen(box: LetterBox, options: argparse.Namespace) -> list[Letter]:
    """The letters in the order of their records, so that an aggregate's are in commit order."""
    if bool(options.number) == options.all:
        raise TranslatorError("name letters by their numbers, or all of them", hint=f"{_PROGRAM} list; --all")
    opened = {letter.number: letter for letter in open_letters(box.letters())}
    for number in options.number:
        if number not in opened:
            raise TranslatorError(
                f"there is no letter {number}, or it was dealt with, or a later one has replaced it",
                hint=f"{_PROGRAM} list",
            )
    chosen = [
        letter
        for letter in opened.values()
        if (options.all or letter.number in options.number) and _wanted(options, letter)
    ]
    return sorted(chosen, key=lambda letter: letter.origin[:3])


def _replay(box: LetterBox, letter: Letter, change_sets: str) -> Output:
    if letter.origin.topic != change_sets:
        raise TranslatorError(
            f"letter {letter.number} is a record of {letter.origin.topic} which the sequencer could not use; its"
            " transaction's place in the commit order has passed",
            hint="read the rows anew with an incremental snapshot, or, if a later version can use it, start a generation with"
            " that (docs/generations.md); then discard the letter",
        )
    held = letter.headers.get("policy") == "hold"
    if "left_out_bytes" in letter.headers and not held:
        raise TranslatorError(
            f"letter {letter.number} was too large to be kept whole, so it cannot be replayed",
            hint="read the rows anew with an incremental snapshot, then discard the letter",
        )
    full = None if held else box.one(letter.number)
    return _request("replay", letter, full)


def _discard(box: LetterBox, letter: Letter, change_sets: str) -> Output:
    if letter.origin.topic != change_sets:  # nothing waits for it: it is closed here
        return resolution(box.topic, letter.key, letter.origin, "discarded")._replace(partition=0)
    return _request("discard", letter, None)


def _request(do: Literal["replay", "discard"], letter: Letter, full: Letter | None) -> Output:
    origin = letter.origin
    request = LetterCommand(
        do,
        origin.offset,
        origin.rule,
        origin.event_id,
        letter.headers.get("policy") == "hold",
        None if full is None else full.value,
        None if full is None else full.state,
        "shadow" in letter.headers,
    )
    return Output(origin.topic, letter.key, encode_command(request), None, origin.partition)


def _answers(box: LetterBox, letters: Sequence[Letter], start: int, seconds: float) -> int:
    """Wait for what becomes of the letters, and tell it."""
    waiting: dict[Origin, Letter] = {letter.origin: letter for letter in letters}
    code = 0
    tell: Callable[[str], int] = sys.stdout.write
    for answer in box.follow(start, seconds):
        letter = waiting.pop(answer.origin, None)
        if letter is not None:
            if answer.resolution is not None:
                tell(f"{letter.number}: {answer.resolution}\n")
            else:
                code = 3
                tell(f"{letter.number}: failed again, now {answer.number}: {answer.headers.get('reason')}\n")
        if not waiting:
            return code
    for letter in waiting.values():
        tell(
            f"{letter.number}: no answer yet (is the translator at work? has somebody else dealt with it?)\n"
        )
    return 3
