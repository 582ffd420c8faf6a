"""A worker's part in its group, with a membership that a test plays: no server, and statuses in memory."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from types import SimpleNamespace

import pytest

from tidings_connect.config.worker_properties import read_worker_config
from tidings_connect.group import worker_group
from tidings_connect.group.assignment import ASSIGNMENT_KEY, Assignment, applied_key, encode_assignment
from tidings_connect.group.member import GroupView
from tidings_connect.group.worker_group import KafkaGroup
from tidings_connect.storage.memory import MemoryStorage
from tidings_connect.task_id import TaskId
from tidings_service import TidingsError

ME, OTHER = "me:1", "other:1"
ALONE = {ME: "http://me:1"}
BOTH = {**ALONE, OTHER: "http://other:1"}
CONFIG = {"connector.class": "counting.CounterConnector", "counter.file": "f", "counter.topic": "t"}
SESSION = 2.0


class Desk:
    """A worker in its group, and the hand that moves the group."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, settings: dict[str, str]) -> None:
        member = SimpleNamespace(start=lambda: None, close=lambda: None)

        def join(*arguments: object) -> SimpleNamespace:
            self.see, self.throw_out = arguments[-2:]
            return member

        monkeypatch.setattr(worker_group, "GroupMember", join)
        worker = read_worker_config(
            {
                "bootstrap.servers": "nowhere:1",
                "group.id": "g",
                "config.storage.topic": "c",
                "offset.storage.topic": "o",
                "status.storage.topic": "s",
                "session.timeout.ms": str(int(SESSION * 1000)),
                "heartbeat.interval.ms": "500",
                **settings,
            }
        )
        self.ended: list[TidingsError] = []
        self.storage = MemoryStorage(worker, ME, lambda: None)
        self.group = KafkaGroup(worker, ME, "http://me:1", self.storage, lambda: None, self.ended.append)

    def view(self, members: dict[str, str], *, leads: bool = False) -> None:
        """The group is looked at now."""
        self.see(GroupView(leads=leads, members=members, seen_at=time.monotonic()))

    def decide(self, assignment: Assignment) -> None:
        """Another worker leads, and has decided."""
        self.storage.statuses.put_and_wait(ASSIGNMENT_KEY, encode_assignment(assignment))

    async def until(self, condition: Callable[[], object]) -> None:
        async with asyncio.timeout(30):
            while not condition():  # noqa: ASYNC110 - of an object that tells nobody
                await asyncio.sleep(0.01)


@pytest.fixture
async def desk(
    counting: None, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> AsyncIterator[Desk]:
    made = Desk(monkeypatch, getattr(request, "param", {}))
    await made.group.start()
    yield made
    await made.group.stop()


async def test_the_leader_gives_away_what_there_is_and_takes_all_back_when_it_goes_last(desk: Desk) -> None:
    assert not desk.group.holds
    desk.storage.configs.put_connector("a", CONFIG)
    desk.view(ALONE, leads=True)
    await desk.until(lambda: desk.group.owner(TaskId("a")) == ME)
    assert desk.group.holds
    assert desk.group.leads
    assert desk.group.leader_url == "http://me:1"
    desk.storage.configs.put_connector("b", CONFIG)
    await asyncio.sleep(0)
    await desk.group.distribute()
    assert desk.group.owner(TaskId("b")) == ME
    await desk.group.stop()
    await desk.until(lambda: ASSIGNMENT_KEY not in desk.storage.statuses.values)


async def test_a_worker_that_does_not_lead_obeys_and_names_the_leader(desk: Desk) -> None:
    desk.decide(Assignment(1, OTHER, {TaskId("a"): ME, TaskId("b", 1): OTHER}, {}))
    desk.view(BOTH)
    await desk.until(lambda: desk.group.holds)
    assert not desk.group.leads
    assert desk.group.leader_url == "http://other:1"
    assert desk.group.owner(TaskId("a")) == ME
    assert desk.group.further_tasks("b") == [TaskId("b", 1)]
    assert (desk.group.url_of(ME), desk.group.url_of("nobody:1")) == ("http://me:1", None)
    await desk.group.distribute()
    assert desk.group.owner(TaskId("a")) == ME, "nothing was given away by who does not lead"


async def test_what_was_taken_away_is_said_to_have_ended_once(desk: Desk) -> None:
    desk.view(BOTH)
    await desk.until(lambda: desk.group.holds)
    for epoch, asked in ((4, OTHER), (5, ME)):
        desk.decide(Assignment(epoch, OTHER, {}, {TaskId("a", 1): (asked, epoch)}))
        await desk.until(lambda: desk.group.assignment.leaving)
        await asyncio.sleep(0.05)
        assert applied_key(ME) not in desk.storage.statuses.values
        if asked == OTHER:
            await desk.group.applied()
    await desk.group.applied()
    await desk.until(lambda: applied_key(ME) in desk.storage.statuses.values)
    await desk.group.stop()
    await desk.until(lambda: applied_key(ME) not in desk.storage.statuses.values)
    assert ASSIGNMENT_KEY in desk.storage.statuses.values, "the other worker goes on by it"


async def test_among_others_a_worker_that_is_not_seen_lets_go_before_its_session_is_over(desk: Desk) -> None:
    desk.view(BOTH, leads=True)
    await desk.until(lambda: desk.group.leads)
    seen = time.monotonic()
    lease = desk.group.lease
    assert lease is not None
    assert lease <= seen + SESSION
    await desk.until(lambda: not desk.group.holds)
    assert time.monotonic() - seen < SESSION + 1.0
    assert not desk.group.leads
    desk.view(BOTH)
    await desk.until(lambda: desk.group.holds)


async def test_alone_a_worker_goes_on_while_kafka_is_away(desk: Desk) -> None:
    desk.view(ALONE, leads=True)
    await desk.until(lambda: desk.group.leads)
    lease = desk.group.lease
    assert lease is not None
    assert lease > time.monotonic() + SESSION
    await desk.until(lambda: not desk.group.leads)
    assert desk.group.holds, "nobody is there to take over"


async def test_a_worker_whose_place_another_has_ends(desk: Desk) -> None:
    desk.view(ALONE, leads=True)
    await desk.until(lambda: desk.group.leads)
    desk.throw_out(TidingsError("another has this place"))
    await desk.until(lambda: desk.ended)
    assert not desk.group.holds
    desk.view(ALONE, leads=True)
    await asyncio.sleep(0.6)  # more than a tick
    assert not desk.group.holds


@pytest.mark.parametrize("desk", [{"scheduled.rebalance.max.delay.ms": "1000"}], indirect=True)
async def test_the_tasks_of_a_worker_that_left_wait_for_it(desk: Desk) -> None:
    for name in "ab":
        desk.storage.configs.put_connector(name, CONFIG)
    desk.view(BOTH, leads=True)
    await desk.until(lambda: {desk.group.owner(TaskId(name)) for name in "ab"} == {ME, OTHER})
    left = time.monotonic()
    desk.view(ALONE, leads=True)
    await desk.group.distribute()
    assert OTHER in {desk.group.owner(TaskId(name)) for name in "ab"}
    await desk.until(lambda: {desk.group.owner(TaskId(name)) for name in "ab"} == {ME})
    assert time.monotonic() - left >= 1.0
