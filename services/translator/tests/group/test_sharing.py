"""How members share partitions: evenly, and with as few moves as an even share allows."""

from hypothesis import given
from hypothesis import strategies as st

from tidings_translator.group.sharing import Place, decode_places, encode_places, share_out

PLACES: list[Place] = [("sets", number) for number in range(4)]
members = st.dictionaries(
    st.text("abcd", min_size=1, max_size=3), st.sets(st.sampled_from(PLACES)), min_size=1, max_size=6
)


def test_members_come_and_go() -> None:
    one = share_out(PLACES, {"b": []})
    assert one == {"b": PLACES}
    two = share_out(PLACES, {**one, "a": []})
    assert two == {"b": PLACES[:2], "a": PLACES[2:]}
    three = share_out(PLACES, {**two, "c": []})
    moved = [place for place in PLACES if place in three["c"]]
    assert len(moved) == 1
    assert sorted(map(len, three.values())) == [1, 1, 2]
    assert all(set(three[member]) <= set(two[member]) for member in two)
    without = share_out(PLACES, {"a": three["a"], "c": three["c"]})
    assert set(three["a"]) <= set(without["a"])
    assert set(three["c"]) <= set(without["c"])


@given(st.sets(st.sampled_from(PLACES)), members)
def test_every_partition_has_one_member_shares_are_even_and_nothing_moves_without_need(
    places: set[Place], owned: dict[str, set[Place]]
) -> None:
    shares = share_out(list(places), owned)
    assert shares.keys() == owned.keys()
    assert sorted(place for share in shares.values() for place in share) == sorted(places)
    sizes = [len(share) for share in shares.values()]
    assert max(sizes) - min(sizes) <= 1
    again = share_out(list(places), shares)
    assert {member: set(share) for member, share in again.items()} == {
        member: set(share) for member, share in shares.items()
    }, "an even share stays as it is"


def test_what_a_member_tells() -> None:
    assert decode_places(encode_places({("b", 1), ("a", 0)})) == [("a", 0), ("b", 1)]
    assert decode_places(b"") == decode_places(b"owner") == []
