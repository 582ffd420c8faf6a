"""Records that nobody can use: each becomes a dead letter with its position, and the stages go on without a restart."""

import json
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest
from assembling import MARKERS, Topics, end_of
from bikes import domain as bikes_domain
from bikes.history import Change, History
from bikes.processes import StageProcess, wait_for
from bikes.running import count, expected, in_order, published
from bikes.topics import Record, TechnicalTopics, read_committed, records_of
from hypothesis import given
from hypothesis import strategies as st

from tidings_domain import load_domain
from tidings_domain.changes import ChangeSet, decode_change_set, encode_change_set
from tidings_domain.errors import ChangeSetError, SequenceError
from tidings_domain.evaluation.evaluate import Evaluator
from tidings_domain.evaluation.tracing import Traces
from tidings_domain.routing.record_sizes import MAX_RECORD_BYTES
from tidings_domain.routing.router import Router
from tidings_domain.routing.transactions import CompleteTransaction, SnapshotRow
from tidings_envelope.decode import EnvelopeDecoder
from tidings_envelope.errors import RegistryError
from tidings_translator.base.records import Output, Partition
from tidings_translator.dead_letters.commands import command_of
from tidings_translator.dead_letters.letters import dead_letter, open_letters, read_letter, resolution
from tidings_translator.sequencer.changelog import Changelog
from tidings_translator.sequencer.intake import Intake
from tidings_translator.sequencer.session import Session

DOMAIN = load_domain(bikes_domain.__name__.partition(".")[0])
DEEP = b"[" * 3_000 + b"]" * 3_000
HUGE = 123456789012345678901234567890


def order(number: int, op: str = "c", status: str = "placed") -> Change:
    return Change("public.orders", op, None, {"id": number, "customer_id": 1, "status": status})


class Feed:
    """A sequencer's intake, assembler and router without Kafka."""

    def __init__(
        self,
        decoder: EnvelopeDecoder | None = None,
        most: int = 100,
        changelog: Changelog | None = None,
    ) -> None:
        self.changelog = changelog or Changelog()
        progress = self.changelog.progress
        self.router = Router(DOMAIN, self.changelog.memory, progress)
        self.assembler = Topics(1).assembler(progress, grace_seconds=0)
        self.letters: list[Output] = []
        self.session = cast(
            "Session",
            SimpleNamespace(
                assembler=self.assembler,
                router=self.router,
                traces=Traces(None),
                unreadable_in_a_row={},
                progress=progress,
            ),
        )
        self.intake = Intake(decoder or EnvelopeDecoder(), "letters", most)
        self.next: dict[Partition, int] = {}

    def take(self, records: list[Record], headers: list[tuple[str, bytes | None]] | None = None) -> None:
        for topic, key, value in records:
            partition = Partition(topic, 0)
            if partition not in self.assembler._places:
                continue
            offset = self.next.get(partition, 0)
            self.next[partition] = offset + 1
            record = SimpleNamespace(offset=offset, key=key, value=value, headers=headers or [])
            take = self.intake.take_markers if partition == MARKERS else self.intake.take_rows
            take(self.session, partition, cast("Any", [record]), self.letters)

    def out(self) -> list[ChangeSet]:
        """The change sets of what has come out, as they are read behind the topic."""
        if self.assembler.wants_ends:
            self.assembler.set_ends({p: self.next.get(p, 0) for p in self.assembler._places})
        sets: list[ChangeSet] = []
        for one in self.assembler.take(1e9):
            if isinstance(one, CompleteTransaction):
                sets += self.router.change_sets(one)
            elif isinstance(one, SnapshotRow):
                sets += self.router.snapshot_row(one)
            else:
                self.router.learn((row.envelope for row in one.rows), may_be_old=one.may_be_old)
        for value in self.changelog.take_changes().values():
            assert value is None or msgspec.msgpack.decode(value) is not None
        return [decode_change_set(encode_change_set(one)) for one in sets]

    def places(self) -> list[tuple[str, int]]:
        found = [dict(letter.headers or ()) for letter in self.letters]
        return [(one["tidings_topic"].decode(), int(one["tidings_offset"])) for one in found]


def test_another_replication_domain_is_refused_also_behind_a_restart() -> None:
    """Its numbers would be taken for those of commits that came out before, and nothing would be told of them."""

    feed = Feed()
    feed.take([end_of("0-1-50")])
    stored = feed.changelog.take_progress()
    restarted = Feed()
    for key, value in stored.items():
        restarted.changelog.load(key, value)
    restarted.session.progress = restarted.changelog.progress
    restarted.take([end_of("7-1-51")])
    restarted.take([end_of("0-1-52")])
    (letter,) = restarted.letters
    assert b"replication domain 7" in dict(letter.headers or ())["tidings_reason"]


def test_transactions_of_a_domain_that_does_not_count_are_no_letters() -> None:
    """Their markers have no event, and may come before all others (`gtid.source.excludes`)."""
    feed = Feed(most=3)
    for number in range(10):
        feed.take([end_of(f"91-1-{1000 - number}", events=0)])
    feed.take([end_of("0-1-50"), end_of("91-1-7", events=0), end_of("0-1-51")])
    assert feed.letters == []
    assert feed.session.progress.replication_domain == 0


def changed(record: Record, **fields: Any) -> Record:
    topic, key, value = record
    return topic, key, json.dumps({**json.loads(value or b"{}"), **fields}).encode()


def row_of(number: int) -> Record:
    return records_of("p", History(number).commit([order(number)]))[1]


def customer(op: str, name: str) -> Change:
    return Change("public.customers", op, None, {"id": 1, "name": name})


def names(sets: list[ChangeSet]) -> list[Any]:
    """Of the customer whom the orders of change sets refer to."""
    return [one.references["public.customers"]["1"]["name"] for one in sets]


def test_what_a_transaction_without_its_end_tells_is_older_than_what_follows() -> None:
    """It is known to be lost when a later one has come, whose rows are the newer ones."""
    history, feed = History(1), Feed()
    first, lost, renamed, placed = (
        history.commit(changes)
        for changes in ([order(9)], [customer("c", "former")], [customer("u", "newer")], [order(1)])
    )
    feed.take(records_of("p", first))
    assert len(feed.out()) == 1
    records = [record for one in (lost, renamed, placed) for record in records_of("p", one)]
    end = records.index(records_of("p", lost)[-1])
    records[end] = (MARKERS.topic, None, b"garbage")
    feed.take(records)
    assert names(feed.out()) == ["newer"]


@pytest.mark.parametrize("restarted", [False, True], ids=["at once", "behind a restart"])
def test_rows_of_a_lost_transaction_that_are_written_again_are_not_newer_for_it(restarted: bool) -> None:
    """As an engine does after a crash: the later ones come again, too, but those are known."""
    history, feed = History(1), Feed()
    lost = history.commit([customer("c", "former"), order(9)])
    renamed = history.commit([customer("u", "newer")])
    begin, row, _, lost_end = records_of("p", lost)
    orders = f"p.{order(9).table}"
    feed.take([begin, row, (orders, b"9", b"garbage"), lost_end, *records_of("p", renamed)])
    while feed.session.progress.commit_lsn != renamed.end_lsn:
        assert feed.out() == []
    assert set(feed.session.progress.lost) == {lost.txid}
    if restarted:
        feed = Feed(changelog=feed.changelog)
    feed.take([row, *records_of("p", renamed), *records_of("p", history.commit([order(1)]))])
    assert names(feed.out()) == ["newer"]


def poison_rows() -> dict[str, bytes]:
    """What somebody may put on the topic of a table."""
    _, _, good = row_of(7)
    assert good is not None
    event = json.loads(good)
    source, transaction = event["source"], event["transaction"]

    def but(**fields: Any) -> bytes:
        return json.dumps({**event, **fields}, separators=(",", ":")).encode()

    return {
        "no JSON": b"hello",
        "another magic": b"\x01\x00\x00\x00\x01abc",
        "truncated": good[:-20],
        "a schema that nobody has": b"\x00\x7f\xff\xff\xff\x02",
        "deep": good.replace(b'"placed"', DEEP),
        "a deep schema": b'{"schema":{"fields":[{"field":"a","type":"array","items":' + b'{"items":' * 3_000
        + b"1" + b"}" * 3_000 + b'}]},"payload":' + good + b"}",
        "a schema that is none": b'{"schema":{"fields":[1]},"payload":' + good + b"}",
        "no transaction": but(transaction=None),
        "no key column": but(after={"customer_id": 1, "status": "x"}),
        "no row": but(after=None),
        "no such operation": but(op="z"),
        "a huge ordinal": but(transaction={**transaction, "total_order": 1 << 70}),
        "no txid": but(transaction={**transaction, "id": "9" * 4_000}),
        "no sequence of LSNs": but(source={**source, "sequence": '["x","y"]'}),
        "a time without a calendar": but(source={**source, "ts_ms": 1 << 62}),
        "a huge LSN": but(source={**source, "lsn": 1 << 80}),
        "another type": but(source=[1]),
    }  # fmt: skip


@pytest.mark.parametrize("name", poison_rows())
def test_a_row_that_cannot_be_used_is_a_letter_with_its_position(name: str) -> None:
    feed = Feed(EnvelopeDecoder(cast("Any", NoRegistry())))
    history = History(1)
    first, second = history.commit([order(1)]), history.commit([order(2)])
    feed.take(records_of("p", first))
    feed.take([("p.public.orders", b"{}", poison_rows()[name])])
    feed.take(records_of("p", second))
    assert feed.places() == [("p.public.orders", 1)]
    assert [one.id for one in feed.out()] == ["1", "2"]


class NoRegistry:
    """A registry that has nothing."""

    def schema_by_id(self, schema_id: int) -> Any:
        from tidings_envelope.errors import UnknownSchemaError

        raise UnknownSchemaError(f"no schema {schema_id}")


@pytest.mark.parametrize(
    "value",
    [b"", b"{}", b"\x00\x00\x00\x00\x01", b'{"status":"END","id":"x:y","ts_ms":1}', b'{"status":"END","id":5}',
     b'{"status":"END","id":"1:2","ts_ms":1,"data_collections":[{"data_collection":"public.orders","event_count":-1}]}',
     b'{"status":"END","id":"1:%b","ts_ms":1}' % (b"9" * 5_000), b'{"status":"END","id":' + DEEP + b"}"],
)  # fmt: skip
def test_a_marker_that_cannot_be_used_is_a_letter_with_its_position(value: bytes) -> None:
    feed = Feed(EnvelopeDecoder(cast("Any", NoRegistry())))
    feed.take([(MARKERS.topic, b"x", value)])
    assert feed.places() == [(MARKERS.topic, 0)]
    feed.take(records_of("p", History(1).commit([order(1)])))
    assert [one.id for one in feed.out()] == ["1"]


def test_a_number_beyond_64_bits_reaches_the_rules_as_it_is() -> None:
    """`decimal.format=NUMERIC` writes a numeric so, and msgpack has no such integer."""
    feed = Feed()
    line = {"order_id": 1, "line_no": 1, "price": HUGE}
    feed.take(records_of("p", History(1).commit([order(1), Change("public.order_items", "c", None, line)])))
    [change_set] = feed.out()
    assert str(change_set.rows[1].after["price"]) == str(HUGE)  # type: ignore[index]


def test_an_ordinal_out_of_all_proportion_does_not_take_memory_on_disk(tmp_path: Any) -> None:
    """It is an int64, so it may be true: what is remembered of ordinals is as large as there are rows."""
    from tidings_translator.sequencer.assembly.spill import PlacedRow, SpilledRows

    envelope = EnvelopeDecoder().envelope(row_of(1)[2])
    assert envelope is not None
    ordinals = [1, 2, 1 << 40, 1 << 62]
    spilled = SpilledRows(tmp_path)
    spilled.add({at: PlacedRow(envelope, MARKERS, at) for at in ordinals})
    assert [row.offset for row in spilled.placed()] == ordinals
    assert (1 << 40) in spilled
    assert (1 << 41) not in spilled
    spilled.close()


def test_a_registry_that_is_away_ends_the_work_and_moves_nothing() -> None:
    class Away:
        def schema_by_id(self, schema_id: int) -> Any:
            raise RegistryError("away", retry="timed")

    feed = Feed(EnvelopeDecoder(cast("Any", Away())))
    with pytest.raises(RegistryError):
        feed.take([("p.public.orders", b"{}", b"\x00\x00\x00\x00\x05abc")])
    assert feed.letters == []
    assert feed.assembler.offsets()[Partition("p.public.orders", 0)] == 0


def test_what_is_wrong_with_every_row_of_a_topic_stops_instead() -> None:
    """Good rows of other topics between them say nothing about it."""
    feed = Feed(most=3)
    customer = History(1).commit([Change("public.customers", "c", None, {"id": 1, "name": "x"})])
    row = changed(row_of(1), transaction=None)
    for _ in range(3):
        feed.take([row])
        feed.take(records_of("p", customer))
    with pytest.raises(SequenceError, match=r"p\.public\.orders/0 offset 3") as caught:
        feed.take([row])
    assert "provide.transaction.metadata" in str(caught.value.hint)


ODD = st.recursive(
    st.none() | st.booleans() | st.integers(-(1 << 80), 1 << 80) | st.floats(allow_nan=False) | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)  # fmt: skip
PATHS = st.sampled_from(
    [(), ("op",), ("before",), ("after",), ("after", "id"), ("after", "customer_id"), ("source",), ("source", "table"),
     ("source", "lsn"), ("source", "ts_ms"), ("source", "sequence"), ("source", "snapshot"), ("source", "txId"),
     ("transaction",), ("transaction", "id"), ("transaction", "total_order")]
)  # fmt: skip


def replaced(value: Any, path: tuple[str, ...], by: Any) -> Any:
    if not path:
        return by
    inner = value if isinstance(value, dict) else {}
    return {**inner, path[0]: replaced(inner.get(path[0]), path[1:], by)}


@given(st.lists(st.tuples(PATHS, ODD), min_size=1, max_size=3), st.sampled_from("cud"))
def test_a_transaction_with_an_odd_row_does_not_hurt_the_next(
    changes: list[tuple[tuple[str, ...], Any]], op: str
) -> None:
    """From the topic to what is read behind the change sets' topic; and the rules' stage takes all of it."""
    history = History(1)
    odd, good = history.commit([order(1, op)]), history.commit([order(2)])
    begin, row, *_, end = records_of("p", odd)
    event = json.loads(row[2] or b"")
    for path, by in changes:
        event = replaced(event, path, by)
    feed = Feed()
    feed.take(
        [begin, (row[0], row[1], json.dumps(event).encode()), end], [("x", None), ("traceparent", b"\xff")]
    )
    evaluator = Evaluator(DOMAIN)
    for one in feed.out():
        evaluator.apply(None, one)
    try:
        feed.take(records_of("p", good))
    except SequenceError:
        return  # its position is said to be far ahead: a history that has moved back
    sets = feed.out()
    assert [one.id for one in sets][-1:] in (["2"], []), "the next one, or what it waits for is told"
    assert sets or feed.assembler.waiting.describe() or feed.assembler.progress.snapshot_open or feed.letters


@pytest.mark.parametrize("value", [b"", b"\xc1", b"\x91" * 5_000 + b"\x01", b"\xdf\xff\xff\xff\xff", b"\xdd\xff\xff\xff\xff",
                                   b"\x98\xa1\xff\xa1x", b"\xa5\xff\xff\xff\xff\xff"])  # fmt: skip
def test_bytes_that_are_no_change_set(value: bytes) -> None:
    with pytest.raises(ChangeSetError):
        decode_change_set(value)
    assert command_of(value) is None


def test_a_letter_always_fits_into_a_record() -> None:
    big = b"x" * MAX_RECORD_BYTES
    for key, value in ((b"k", big), (big, b"v"), (big, big)):
        letter = dead_letter("l", stage="rows", error="E", reason="r" * 10**6, partition=MARKERS, offset=1, key=key,
                             value=value, state=b"s", aggregate="Order", id="9" * 10**6).output  # fmt: skip
        size = (
            len(letter.key or b"") + len(letter.value or b"") + sum(len(v) for _, v in letter.headers or ())
        )
        assert size < MAX_RECORD_BYTES - 16_384
        assert dict(letter.headers or ())["tidings_left_out_bytes"]


def test_letters_about_no_record_do_not_take_each_other_s_place() -> None:
    """A change set that fits into no record has no offset."""
    letters = [
        read_letter(number, 0, made.key, made.value, made.headers or ())
        for number, subject in enumerate(("Order/1@A", "Order/2@A", "Order/1@B"))
        for made in [dead_letter("l", stage="transaction", error="TooLarge", reason="r", partition=MARKERS, offset=-1,
                                 key=b"k", value=None, subject=subject).output]
    ]  # fmt: skip
    assert open_letters(letters) == letters
    closed = resolution("l", b"k", letters[1].origin, "discarded")
    assert open_letters([*letters, read_letter(3, 0, b"k", None, closed.headers or ())]) == [
        letters[0],
        letters[2],
    ]


@pytest.mark.stack
@pytest.mark.timeout(900)
def test_every_kind_of_poison_on_a_real_topic(
    kafka_bootstrap: str, unique_name: str, make_stage: Callable[..., StageProcess]
) -> None:
    topics = TechnicalTopics(kafka_bootstrap, unique_name, partitions=1)
    history = History(1)
    customer = Change("public.customers", "c", None, {"id": 1, "name": "Ann"})
    good = [history.commit([customer])]
    table = f"{unique_name}.public.orders"
    written: list[Record] = records_of(unique_name, good[0])
    places: set[tuple[str, str]] = set()
    offset = 0
    for number, value in enumerate(poison_rows().values(), 1):
        written.append((table, b"{}", value))
        places.add((table, str(offset)))
        good.append(history.commit([order(number)]))
        written += records_of(unique_name, good[-1])
        offset += 2
    topics.write(written)
    sequencer = make_stage("sequencer")
    translator = make_stage("translator")
    want = expected(unique_name, good)

    def letters() -> set[tuple[str, str]]:
        found = set()
        for _, message in read_committed(kafka_bootstrap, [f"tidings.{unique_name}.dead-letters"]):
            headers = dict(message.headers())
            found.add((headers["tidings_topic"].decode(), headers["tidings_offset"].decode()))
        return found

    wait_for(
        lambda: len(published(kafka_bootstrap, unique_name)) >= count(want) and letters() >= places,
        "events and dead letters",
        seconds=240,
        every=0.5,
        alive=(sequencer, translator),
    )
    assert in_order(published(kafka_bootstrap, unique_name)) == want
    assert letters() == places
    assert sequencer.terminate() == 0
    assert translator.terminate() == 0
