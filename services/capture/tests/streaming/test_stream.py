"""The stream's position, and what a restart repeats: nothing is lost, the numbering stays.

The tests write pgoutput as a server would, cut it anywhere, go on from the position at the cut, and compare with the
uncut stream.
"""

import struct
from typing import Any

import pytest
from stream_parts import (
    HISTORY,
    LEFT_OUT,
    OID,
    CountingPlan,
    Run,
    RunWithLosses,
    begin,
    commit,
    from_server,
    insert,
    keepalive,
    message,
    relation,
    xlog,
)

from tidings_capture.cdc.encoding.options import ConversionOptions
from tidings_capture.cdc.left_out import HEADER
from tidings_capture.cdc.tables import Column, Table
from tidings_capture.cdc.types.conversion import ConversionError
from tidings_capture.postgres.encoding.plan import compile_plan
from tidings_capture.postgres.offsets.offset import SourceOffset, decode_offset, encode_offset
from tidings_capture.postgres.wire.pgoutput import DecodeError
from tidings_connect.converters.encoding import JsonConverter
from tidings_connect.errors import ConnectError
from tidings_envelope.json_codec import JsonCodec


@pytest.mark.parametrize("size", [1, 2, 3, 100])
@pytest.mark.parametrize("cut", range(len(LEFT_OUT) + 1))
def test_a_restart_anywhere_keeps_the_counts_of_what_is_left_out(cut: int, size: int) -> None:
    first = RunWithLosses().process(LEFT_OUT[:cut], size)
    stored = decode_offset(encode_offset(first.stream.position()))
    second = RunWithLosses(stored).process(from_server(LEFT_OUT, stored.done_lsn), size)
    ends = [(value, headers) for _, value, headers in first.sent + second.sent if b" END " in value]
    assert ends == [
        (b"10 END 210 6", [(HEADER, b'{"filtered":{"public.a":2},"failed":{"public.a":2}}')]),
        (b"11 END 310 3", [(HEADER, b'{"failed":{"public.a":1}}')]),
        (b"12 END 410 1", None),
    ]
    assert len({value for _, value, _ in first.sent + second.sent if value.endswith(b" I")}) == 5
    if size == 1:
        assert first.tolerance.skipped + second.tolerance.skipped == 3


def test_without_markers_nothing_is_counted_for_them() -> None:
    run = RunWithLosses(**{"provide.transaction.metadata": "false"}).process(LEFT_OUT[:6])
    assert run.stream.position().left_out == ()
    assert run.stream.context.event_counts == {"public.a": 3}  # by the plan of this test alone


@pytest.mark.parametrize("size", [1, 2, 5, 100])
@pytest.mark.parametrize("options", [{}, {"skipped.operations": "t,d"}, {"skipped.operations": "none"}])
@pytest.mark.parametrize("cut", range(len(HISTORY) + 1))
def test_a_restart_anywhere_loses_nothing_and_repeats_nothing_that_was_stored(
    cut: int, options: Any, size: int
) -> None:
    whole = Run(**options).process(HISTORY, size)
    first = Run(**options).process(HISTORY[:cut], size)
    stored = decode_offset(encode_offset(first.stream.position()))
    second = Run(stored, **options).process(from_server(HISTORY, stored.done_lsn), size)
    both = first.sent + second.sent
    once = list(dict.fromkeys(both))
    assert once == whole.sent
    repeated = [value for _, value in both[len(first.sent) :] if value in {sent for _, sent in first.sent}]
    # A BEGIN without a row behind it is no position.
    assert all(b" BEGIN " in value for value in repeated)
    assert len(repeated) == len(both) - len(once) == (0 if first.stream.exact else 1)


# A table that changes twice within a transaction, the second time without another row.
CHANGES = [
    begin(10, 200, 100), relation(1), insert(100), insert(110), relation(2), insert(120), insert(130), relation(3), commit(200, 210),
    begin(11, 300, 220), insert(220), relation(4), insert(230), insert(240), commit(300, 310),
]  # fmt: skip


@pytest.mark.parametrize("size", [1, 2, 3, 100])
@pytest.mark.parametrize("cut", range(len(CHANGES) + 1))
def test_a_restart_within_a_transaction_that_changes_a_table_tells_of_each_change(
    cut: int, size: int
) -> None:
    """A server tells of a relation before its first row, so that the same messages come again, from the first on. Only what
    changed between the transaction that is resumed and the one before is not seen again."""
    whole = Run().process(CHANGES, size)
    first = Run().process(CHANGES[:cut], size)
    exact, stored = first.stream.exact, first.stream.position()
    history = from_server(CHANGES, stored.done_lsn)
    if stored.done_lsn >= 210:
        history.insert(1, relation(3))
    second = Run(decode_offset(encode_offset(stored))).process(history)
    both = first.sent + second.sent
    assert sorted(set(both)) == sorted(whole.sent)
    if exact:
        assert sorted(both) == sorted(whole.sent)


@pytest.mark.parametrize("size", [1, 2, 3, 100])
@pytest.mark.parametrize("signals", [{0}, {2}, {5}, {0, 1, 2}, {1, 2, 5}])
def test_a_signal_is_handled_behind_its_row_and_before_the_next_one(signals: set[Any], size: int) -> None:
    """Handled within `process` it would meet a position that does not know the row; handled behind the batch, rows that
    come after a watermark would count as before it."""
    whole = Run().process(HISTORY)
    run, queued, handled = Run(), [], []

    class AsksForSomething(CountingPlan):
        rows = 0

        def change(self, data: Any, start: Any, context: Any) -> Any:
            if not context.repeats:
                if self.rows in signals:
                    queued.append(self.rows)
                    run.stream.end_batch()
                self.rows += 1
            return super().change(data, start, context)

    run.stream._routes.by_oid[OID].plan = AsksForSomething()
    for start in range(0, len(HISTORY), size):
        rest = HISTORY[start : start + size]
        while rest:
            rest = run.stream.process(rest)
            if queued:
                handled.append((queued, len(run.sent), run.stream.position(), run.stream.exact))
                queued = []
    assert run.sent == whole.sent
    assert run.stream.events == len(HISTORY)
    assert run.stream.position() == whole.stream.position()
    rows = [number for number, (topic, value) in enumerate(whole.sent, 1) if value[-2:] in {b" I", b" D"}]
    assert [(row, sent) for (row,), sent, _, _ in handled] == [(row, rows[row]) for row in sorted(signals)]
    for (row,), sent, position, exact in handled:
        assert exact
        stored = decode_offset(encode_offset(position))
        again = Run(stored).process(from_server(HISTORY, stored.done_lsn))
        assert again.sent == whole.sent[sent:], row


def test_begin_is_sent_once_for_a_transaction_that_is_resumed() -> None:
    first = Run().process(HISTORY[:8])
    second = Run(first.stream.position()).process(from_server(HISTORY, first.stream.position().done_lsn))
    assert ("p.transaction", b"11 BEGIN 110") in first.sent
    assert ("p.transaction", b"11 BEGIN 110") not in second.sent
    assert second.sent[0] == ("p.public.a", b"11 3 300 I")


def test_a_message_without_a_transaction_is_not_repeated_by_a_slot_that_is_behind() -> None:
    first = Run().process(HISTORY[: HISTORY.index(message(420, flags=0)) + 1])
    assert first.sent[-1] == ("p.message", b"None 420 420 946684801000000 M")
    second = Run(decode_offset(encode_offset(first.stream.position()))).process(HISTORY)
    assert second.sent[0] == ("p.transaction", b"12 BEGIN 450")


def test_a_slot_behind_the_stored_offset_repeats_nothing() -> None:
    second = Run(SourceOffset(done_lsn=410, lsn=410, commit_lsn=410)).process(HISTORY)
    assert [value for _, value in second.sent] == [
        b"None 420 420 946684801000000 M",
        b"12 BEGIN 450",
        b"12 1 450 I",
        b"12 2 460 M",
        b"12 END 510 2",
    ]


def test_keepalives_move_an_idle_position_but_not_within_a_transaction() -> None:
    run = Run().process([*HISTORY[:5], keepalive(900)])
    run.stream.advance()
    assert run.stream.position().done_lsn == 900
    assert run.stream.position().commit_lsn == 210
    run.process([begin(13, 950, 920), insert(920), keepalive(990, reply=1)])
    run.stream.advance()
    assert run.stream.position().done_lsn == 900
    assert run.stream.reply_requested


def test_keepalives_do_not_move_a_position_past_what_was_left_out_for_a_stop() -> None:
    """What lies behind a snapshot's position is streamed after it: the slot must still have it then."""
    run = Run()
    run.stream.stop_before(300)
    run.process([*HISTORY, keepalive(900, reply=1)])
    run.stream.advance()
    assert run.stream.position().done_lsn <= 300


@pytest.mark.parametrize("cell", [b"x1", b""])
def test_a_cell_that_is_not_of_its_type_names_column_and_lsn(cell: bytes) -> None:
    run = Run()
    run.stream._routes.by_oid[OID].plan = real_plan()
    row = b"I" + struct.pack(">I", OID) + b"N\0\1t" + struct.pack(">I", len(cell)) + cell
    with pytest.raises(ConversionError, match=r"'id'.*, at LSN 0/64"):
        run.process([begin(1, 200, 100), xlog(100, row)])


@pytest.mark.parametrize("size", range(1, len(insert(100))))
def test_a_message_cut_short_anywhere_names_tag_and_offset_and_lsn(size: int) -> None:
    run = Run()
    run.stream._routes.by_oid[OID].plan = real_plan()
    run.process([begin(1, 200, 100)])
    cut = insert(100)[:size]
    with pytest.raises(DecodeError) as caught:
        run.process([cut])
    assert caught.value.tag == ("I" if size > 25 else "w")
    assert 0 <= caught.value.offset <= max(size - 25, 0)
    if size >= 30:
        assert str(caught.value).endswith(", at LSN 0/64")
    assert run.sent == [("p.transaction", b"1 BEGIN 100")]


def real_plan() -> Any:
    """Of a table with one integer."""
    column = Column("id", 23, -1, "int4", not_null=True, key_position=1)
    table = Table("public", "a", OID, (column,))
    converter = JsonConverter(JsonCodec(), schemas_enable=False)
    return compile_plan(table, ConversionOptions("p", "d"), converter, converter, "p.public.a")


def test_relation_that_was_not_announced_is_an_error() -> None:
    with pytest.raises(ConnectError, match="not announced"):
        Run().process([begin(1, 200, 100), insert(100, oid=99)])


def test_a_message_that_nothing_asked_for_is_an_error() -> None:
    prepared = xlog(100, b"b" + struct.pack(">QQqI", 100, 108, 0, 7) + b"gid\0")
    with pytest.raises(ConnectError, match="BeginPrepare"):
        Run().process([prepared])


def test_unknown_message_is_an_error() -> None:
    with pytest.raises(ConnectError, match="unknown message"):
        Run().process([b"z" + bytes(30)])


def test_without_metadata_no_markers_are_sent() -> None:
    run = Run(**{"provide.transaction.metadata": "false"}).process(HISTORY)
    assert {topic for topic, _ in run.sent} == {"p.public.a", "p.message"}


@pytest.mark.parametrize("messages", [[commit(200, 210)], [begin(1, 200, 100)] * 2])
def test_messages_out_of_order_are_an_error(messages: Any) -> None:
    with pytest.raises(ConnectError, match="out of order"):
        Run().process(messages)


@pytest.mark.parametrize("size", [1, 3, 100])
def test_a_stream_ends_before_the_lsn_that_it_is_to_stop_at(size: int) -> None:
    run = Run()
    run.stream.stop_before(300)
    run.process(HISTORY[:5], size)
    assert not run.stream.reached_stop
    run.process(HISTORY[5:9], size)
    assert not run.stream.reached_stop, "within a transaction"
    run.process(HISTORY[9:], size)
    assert run.stream.reached_stop
    assert {value.split()[0] for _, value in run.sent} == {b"10"}
    assert run.stream.position().done_lsn == 210


def test_an_idle_stream_has_reached_its_stop_with_the_servers_position() -> None:
    run = Run()
    run.stream.stop_before(300)
    assert not run.process([keepalive(299)]).stream.reached_stop
    assert run.process([keepalive(300)]).stream.reached_stop


def test_a_transaction_that_is_left_out_does_not_end_the_search_for_the_one_to_resume() -> None:
    first = Run().process(HISTORY[:8])
    stored = first.stream.position()
    second = Run(stored).process(HISTORY)  # of a slot that is behind: transaction 10 comes again, too
    assert second.sent[0] == ("p.public.a", b"11 3 300 I")
