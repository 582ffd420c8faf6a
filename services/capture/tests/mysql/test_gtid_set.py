"""Sets of MySQL's GTIDs."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidings_capture.mysql.binlog.gtid_set import GtidSet, MySqlGtid, read_gtid

UUIDS = ("24bc7850-2c16-11e6-a073-0242ac110002", "24bc7850-2c16-11e6-a073-0242ac110003")
GTIDS = st.builds(MySqlGtid, st.sampled_from(UUIDS), st.sampled_from(("", "tag")), st.integers(1, 30))


@given(st.sets(GTIDS), st.sets(GTIDS))
def test_a_set_is_one(some: set[MySqlGtid], others: set[MySqlGtid]) -> None:
    one, other = GtidSet(), GtidSet()
    for gtid in some:
        one = one.after(gtid)
    for gtid in sorted(others):
        other = other.after(gtid)
    assert GtidSet.read(str(one)) == one
    assert all(one.holds(gtid) == (gtid in some) for gtid in some | others)
    assert one.contains(other) == (others <= some)
    left = one.without(other)
    assert {gtid for gtid in some | others if left.holds(gtid)} == some - others
    both = one.joined(other)
    assert {gtid for gtid in some | others if both.holds(gtid)} == some | others
    assert both == other.joined(one) == GtidSet.read(str(both))
    first = both.of(lambda server: server == UUIDS[0])
    assert {gtid for gtid in some | others if first.holds(gtid)} == {
        gtid for gtid in some | others if gtid.origin == UUIDS[0]
    }


def test_texts_of_the_server_are_read() -> None:
    text = f"{UUIDS[0].upper()}:1-5:7:Tag:1-2,\n{UUIDS[1]}:3"
    assert str(GtidSet.read(text)) == f"{UUIDS[0]}:1-5:7:tag:1-2,{UUIDS[1]}:3"
    assert read_gtid(f"{UUIDS[0]}:tag:4") == MySqlGtid(UUIDS[0], "tag", 4)


@pytest.mark.parametrize(
    "text", ["0-1-5", UUIDS[0], f"{UUIDS[0]}:0", f"{UUIDS[0]}:5-3", f"{UUIDS[0]}:-", "x:1"]
)
def test_others_are_not(text: str) -> None:
    with pytest.raises(ValueError, match="GTIDs"):
        GtidSet.read(text)
