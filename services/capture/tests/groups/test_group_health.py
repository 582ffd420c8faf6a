"""A member of a group that the coordinator sees otherwise than it sees itself: it joins anew, and not too often."""

from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import Consumer

from tidings_connect.config.worker import GroupTimes
from tidings_connect.group.health import Patience, Sight, difference
from tidings_connect.group.member import GroupMember
from tidings_connect.kafka.topics import TopicAdmin


@pytest.mark.parametrize(
    ("sight", "leads", "words"),
    [
        (Sight(settled=True, is_member=True, has_token=True), True, None),
        (Sight(settled=True, is_member=True, has_token=False), False, None),
        (Sight(settled=False, is_member=True, has_token=True), False, None),
        (Sight(settled=True, is_member=True, has_token=True), False, "has not heard of it"),
        (Sight(settled=True, is_member=True, has_token=False), True, "given the lead to another"),
        (Sight(settled=True, is_member=False, has_token=False), False, "does not have this worker"),
        (Sight(settled=False, is_member=False, has_token=False), True, "does not have this worker"),
    ],
)
def test_what_the_coordinator_and_the_worker_see_differently(
    sight: Any, leads: bool, words: str | None
) -> None:
    found = difference(sight, leads)
    assert found is None if words is None else words in found


def test_patience_doubles_until_the_trouble_ends() -> None:
    patience = Patience(10)
    acted = [now for now in range(100) if patience.is_over(now)]
    assert acted == [10, 30, 70]
    patience.end()
    assert [now for now in range(100, 140) if patience.is_over(now)] == [110, 130]


@pytest.mark.stack
@pytest.mark.filterwarnings("ignore:list_groups")  # the only call that tells a group's protocol
def test_a_member_that_has_not_heard_of_its_lead_joins_anew(
    kafka_bootstrap: str, unique_name: str, wait_until: Callable[..., Any]
) -> None:
    """As after faults in which librdkafka lost the answer: nothing but a new client would ever hear of it."""
    settings, views, fatal = {"bootstrap.servers": kafka_bootstrap}, [], []
    TopicAdmin(settings).ensure_topic(unique_name, partitions=1, replication_factor=1, config={})
    times = GroupTimes(session=6.0, heartbeat=0.5)
    url = f"http://{unique_name}:1"
    member = GroupMember(settings, unique_name, unique_name, url, times, views.append, fatal.append)
    member.start()
    try:
        wait_until("it leads", lambda: views and views[-1].leads and views[-1].seen_at)
        member._leads = False
        wait_until("it to believe that it does not", lambda: not views[-1].leads)
        wait_until("it leads again", lambda: views[-1].leads and views[-1].seen_at)
    finally:
        member.close()
    assert not fatal


@pytest.mark.stack
@pytest.mark.filterwarnings("ignore:list_groups")
def test_a_member_that_was_fenced_by_itself_joins_anew(
    kafka_bootstrap: str, unique_name: str, wait_until: Callable[..., Any]
) -> None:
    """As when the answer to its request to join was lost: the broker took its second request for another member's."""
    settings, views, fatal = {"bootstrap.servers": kafka_bootstrap}, [], []
    TopicAdmin(settings).ensure_topic(unique_name, partitions=1, replication_factor=1, config={})
    times = GroupTimes(session=6.0, heartbeat=0.5)
    member = GroupMember(
        settings, unique_name, unique_name, f"http://{unique_name}:1", times, views.append, fatal.append
    )
    member.start()
    try:
        wait_until("it leads", lambda: views and views[-1].leads and views[-1].seen_at)
        first = member._consumer
        lost = Consumer(member._consumer_settings)
        lost.subscribe([unique_name])
        wait_until("it to join anew", lambda: lost.poll(0.1) is None and member._consumer is not first)
        lost.close()
        wait_until("it leads again", lambda: views[-1].leads and views[-1].seen_at)
    finally:
        member.close()
    assert not fatal


@pytest.mark.stack
@pytest.mark.filterwarnings("ignore:list_groups")
def test_a_member_whose_place_another_has_is_out(
    kafka_bootstrap: str, unique_name: str, wait_until: Callable[..., Any]
) -> None:
    settings, views, fatal, others = {"bootstrap.servers": kafka_bootstrap}, [], [], []
    TopicAdmin(settings).ensure_topic(unique_name, partitions=1, replication_factor=1, config={})
    times = GroupTimes(session=6.0, heartbeat=0.5)
    arguments = (settings, unique_name, unique_name, f"http://{unique_name}:1", times)
    former, other = (GroupMember(*arguments, views.append, errors.append) for errors in (fatal, others))
    former.start()
    try:
        wait_until("it leads", lambda: views and views[-1].leads and views[-1].seen_at)
        other.start()
        wait_until("the former to be told", lambda: fatal)
        assert "another worker has the same address" in fatal[0].hint
        assert not others
    finally:
        former.close()
        other.close()
