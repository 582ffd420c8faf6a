"""A partition in memory, with its changelog, whose rules fail as a test wants; replays and discards are asked of it."""

from collections.abc import Iterable
from typing import Any, NamedTuple

from tidings_domain import Domain
from tidings_domain.changes import ChangeSet, encode_change_set
from tidings_domain.evaluation.evaluate import Evaluator
from tidings_domain.language.events import topic_of
from tidings_domain.testing import Rehearsal, Statement, insert, update
from tidings_translator.base.records import Partition
from tidings_translator.dead_letters.commands import LetterCommand, encode_command
from tidings_translator.dead_letters.letters import Letter, open_letters, read_letter
from tidings_translator.translation.policies import Policies
from tidings_translator.translation.publishing import BatchResult, Publisher
from tidings_translator.translation.shard import Shard, ShardContext

HERE, CHANGELOG, LETTERS = Partition("change-sets", 3), Partition("state", 3), "letters"


class Record(NamedTuple):
    offset: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes], ...] = ()


class Run:
    """A shard of the box domain whose rule `packed` refuses a box with the note "poison" or "both" until it is mended;
    `item_added`, whose policy is skip, refuses "both" for ever.

    Rules are called afresh by each `restart`, which restores the shard from its changelog.
    """

    def __init__(
        self, domain: Domain, overrides: str = "", rows: Any = "skip", max_held: int = 100_000
    ) -> None:
        self.domain = domain
        self.tables = Rehearsal(domain)
        self.changelog: dict[bytes, bytes | None] = {}
        self.letters: list[Letter] = []
        self.events: list[tuple[str, str]] = []
        self.ids: list[tuple[bytes, bytes | None]] = []
        """Id and content of each event."""
        self.offset = 0
        frames = {topic_of(event): b"" for event in domain.event_classes()}
        self.context = ShardContext(
            Evaluator(domain),
            Policies(domain, overrides, rows),
            Publisher(frames, {name: f"shadow.{name}" for name in frames}),
            LETTERS,
            max_held,
        )
        self.mode: Any = "live"
        self.restart()

    def restart(self) -> None:
        self.shard = Shard(self.context, HERE, CHANGELOG, 1, 0, self.mode)
        for key, value in self.changelog.items():
            self.shard.load(key, value)
        self.shard.loaded()

    def commit(self, *statements: Statement) -> list[ChangeSet]:
        change_sets = self.tables.change_sets(*statements)
        for one in change_sets:
            self.put(f"{one.aggregate}/{one.id}".encode(), encode_change_set(one))
        return change_sets

    def put(self, key: bytes, value: bytes) -> None:
        made = BatchResult()
        offset, self.offset = self.offset, self.offset + 1
        self.shard.take(Record(offset, key, value), made)
        for (changelog, stored_key), state in made.state.items():
            assert changelog == CHANGELOG
            self.changelog[stored_key] = state
        for output in made.outputs:
            if output.topic == LETTERS:
                headers: Iterable[Any] = output.headers or []
                number = len(self.letters)
                self.letters.append(read_letter(number, 0, output.key, output.value, headers))
            else:
                assert output.key is not None
                self.events.append((output.topic, output.key.decode()))
                self.ids.append((dict(output.headers or []).get("ce_id", b""), output.value))

    def open(self) -> list[Letter]:
        return open_letters(self.letters)

    def deal(self, do: Any, letter: Letter) -> None:
        """As the command does."""
        origin = letter.origin
        held = letter.headers.get("policy") == "hold"
        shadow = "shadow" in letter.headers
        request = LetterCommand(
            do, origin.offset, origin.rule, origin.event_id, held, letter.value, letter.state, shadow
        )
        assert letter.key is not None
        self.put(letter.key, encode_command(request))

    def topics(self) -> list[str]:
        return [topic.removeprefix("depot.") for topic, _ in self.events]


class Poison:
    """Whether the rule refuses; a test mends it."""

    on = True


def box(number: int, **values: Any) -> Statement:
    return insert("public.boxes", id=number, **{"state": "open", "note": None, "owner_id": None} | values)


def pack(number: int, **values: Any) -> Statement:
    return update("public.boxes", id=number, state="packed", **values)


def reopen(number: int) -> Statement:
    return update("public.boxes", id=number, state="open")


def item(number: int, no: int, weight: object = "1") -> Statement:
    return insert("public.items", box_id=number, no=no, weight=weight, label=None)
