"""What was sent is known after any kill: the entries against a dictionary, with kills between and within checkpoints."""

import random
from typing import Any

import pytest

from tidings_capture.query import sent_rows
from tidings_capture.query.packed import CHECKSUM_BYTES, GONE, UNKNOWN, Key, checksum, pack, unpack
from tidings_capture.query.sent_rows import SentRows

RANGE_ROWS = 4


class Store:
    """The entries as Kafka has them, and a task's view of them."""

    def __init__(self) -> None:
        self.entries: dict[str, dict[str, Any]] = {}
        self.position: dict[str, Any] | None = None
        self.number = 0

    def load(self) -> SentRows:
        return SentRows(self.entries, self.position, RANGE_ROWS, "t")

    def checkpoint(
        self, sent: SentRows, chance: random.Random | None = None, *, untold: bool = False
    ) -> dict[str, Any]:
        """All of it, or (with `chance`) a part of it; the task has yet to be told, where it is `untold`."""
        self.number += 1
        position = {"incrementing": self.number}
        given = sent.entries(position)
        writes: list[Any] = [*given, position]
        if chance is not None:
            chance.shuffle(writes)
            writes = writes[: chance.randrange(len(writes) + 1)]
        for write in writes:
            if write is position:
                self.position = position
            else:
                self.entries[write[0]] = dict(write[1])
        if chance is None and not untold:
            sent.stored(dict(given))
        return dict(given)


def everything(sent: SentRows) -> dict[Key, bytes]:
    found: dict[Key, bytes] = {}
    after: Key | None = None
    while True:
        until = sent.until(after)
        found.update(sent.known(after, until))
        if until is None:
            return found
        after = until


def change(sent: SentRows, model: dict[Key, bytes], chance: random.Random) -> None:
    """Rows are sent, or a range is compared."""
    if chance.random() < 0.6:
        for _ in range(chance.randint(1, 12)):
            key = (chance.randrange(60),)
            value = GONE if chance.random() < 0.3 else chance.randbytes(CHECKSUM_BYTES)
            sent.send(key, value)
            model[key] = value
        return
    after = chance.choice([None, (chance.randrange(60),)])
    while after is not None and sent.until(None) is not None and sent.until(after) != sent.until(None):
        after = None
    if after is None:
        compare_first(sent)


def compare_first(sent: SentRows) -> None:
    """The first range is compared."""
    until = sent.until(None)
    rows = sorted(sent.known(None, until))
    if len(rows) > RANGE_ROWS:
        until = rows[RANGE_ROWS - 1]
    sent.compared(None, until)


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sent_rows, "_SENT_ROWS", 3)
    monkeypatch.setattr(sent_rows, "_SENT_MOST", 20)
    monkeypatch.setattr(sent_rows, "_SENT_ENTRIES", 6)


@pytest.mark.parametrize("seed", range(40))
def test_exactly_what_a_checkpoint_has_is_known_after_it(seed: int) -> None:
    print(f"seed {seed}")
    chance = random.Random(seed)
    store = Store()
    sent, model = store.load(), {}
    saved: dict[Key, bytes] = {}
    for _ in range(120):
        change(sent, model, chance)
        assert everything(sent) == {key: value for key, value in model.items() if value != GONE}
        if chance.random() < 0.5:
            store.checkpoint(sent)
            saved = dict(model)
        elif chance.random() < 0.15:  # a kill
            sent, model = store.load(), dict(saved)
            assert sent.trusted
    assert len(store.entries) < 150, "names are used again"


@pytest.mark.parametrize("seed", range(60))
def test_after_a_kill_within_a_checkpoint_no_key_is_forgotten_and_nothing_is_trusted_wrongly(
    seed: int,
) -> None:
    print(f"seed {seed}")
    chance = random.Random(seed)
    store = Store()
    sent, model = store.load(), {}
    saved: dict[Key, bytes] = {}
    for _ in range(120):
        change(sent, model, chance)
        if chance.random() < 0.4:
            store.checkpoint(sent)
            saved = dict(model)
        elif chance.random() < 0.3:
            newer = dict(model)
            store.checkpoint(sent, chance)
            sent = store.load()
            found = everything(sent)
            if sent.trusted:
                states = [
                    {key: value for key, value in each.items() if value != GONE} for each in (saved, newer)
                ]
                assert found in states
            else:
                assert {*found.values()} <= {UNKNOWN}
                sure = {key for key, value in saved.items() if value != GONE and newer.get(key) != GONE}
                assert sure <= found.keys()
            model = dict(found)
            store.checkpoint(sent)
            saved = dict(model)


@pytest.mark.parametrize("seed", range(40))
def test_what_was_announced_before_it_was_sent_is_known_after_any_kill(seed: int) -> None:
    """At least once: rows are sent behind an announcement, and a kill comes anywhere."""
    print(f"seed {seed}")
    chance = random.Random(seed)
    store = Store()
    sent, topic = store.load(), {}
    untold: list[dict[str, Any]] = []
    for _ in range(80):
        keys = chance.sample([(number,) for number in range(60)], chance.randint(1, 12))
        sent.announce(keys)
        killed = chance.random() < 0.2
        store.checkpoint(sent, chance if killed else None)
        if not killed:
            for key in keys[: chance.randint(0, len(keys))]:
                topic[key] = GONE if chance.random() < 0.3 else chance.randbytes(CHECKSUM_BYTES)
                sent.send(key, topic[key])
                if chance.random() < 0.1:
                    untold.append(store.checkpoint(sent, untold=True))
            killed = chance.random() < 0.2
            if chance.random() < 0.5:
                sent.withdraw()
                while untold:  # an older checkpoint has not what came after it
                    sent.stored(untold.pop(0))
                store.checkpoint(sent, chance if killed else None)
            if not killed and chance.random() < 0.4:
                compare_first(sent)
        if killed:
            sent = store.load()
            untold.clear()
        found = everything(sent)
        wrong = {
            key: (found.get(key), state)
            for key, state in topic.items()
            if found.get(key, GONE) not in {state, UNKNOWN}
        }
        assert not wrong
    assert len(store.entries) < 150, "names are used again"


@pytest.mark.parametrize("keys", [[(1,), (5,), (-3,)], [(1, "a"), (1, "b")], [("ü",), ("",)], []])
def test_packed_rows_come_back(keys: list[Key]) -> None:
    rows = {key: checksum(["a"], [key]) for key in keys}
    assert unpack(pack(rows.items()), "t") == rows


def test_a_new_column_of_nulls_changes_no_checksum() -> None:
    assert checksum(["a", "b"], [1, None]) == checksum(["a"], [1])
    assert checksum(["a"], [1]) != checksum(["b"], [1])
