"""What happens to a server and to tasks: nothing is lost, and nothing is there twice."""

import threading

import pytest
from graph_parts import Graph

from tidings_connect.task.sink import TopicPartition
from tidings_sinks.errors import BusyError, LostError, TargetError
from tidings_sinks.graph.client import Client
from tidings_sinks.graph.positions import GraphPositions
from tidings_sinks.graph.settings import read_settings
from tidings_stack.neo4j import Neo4jServer

NUMBERS = {"neo4j.cypher.topic.numbers": "CREATE (:Number {number: event.number})"}
_FOUND = "MATCH (n:Number) RETURN n.number ORDER BY n.number"


def numbers(graph: Graph) -> list[int]:
    return [row[0] for row in graph.ask(_FOUND)]


def send(graph: Graph, first: int, last: int) -> None:
    for number in range(first, last + 1):
        graph.send("numbers", None, {"number": number})


@pytest.mark.parametrize("done", [True, False])
def test_a_commit_that_nobody_answers_is_looked_up(
    graph: Graph, monkeypatch: pytest.MonkeyPatch, *, done: bool
) -> None:
    commit, lost = Client.commit, []

    def unanswered(client: Client) -> None:
        if lost or not numbers(graph):
            commit(client)
            return
        lost.append(True)
        if done:
            commit(client)
        client.close()
        raise LostError("Neo4j is away")

    monkeypatch.setattr(Client, "commit", unanswered)
    graph.run(NUMBERS)
    for number in range(4):
        send(graph, number, number)
        graph.worker.wait_for(lambda sent=number: graph.worker.taken > sent, "the record at the task")
    graph.wait()
    assert lost
    assert numbers(graph) == [0, 1, 2, 3]


def test_a_busy_server_is_asked_again(graph: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    commit, busy = Client.commit, [True, True]

    def refused(client: Client) -> None:
        if busy:
            busy.pop()
            client.rollback()
            raise BusyError("Neo4j cannot do it now: Neo.TransientError.Transaction.DeadlockDetected")
        commit(client)

    send(graph, 1, 3)
    graph.run(NUMBERS)
    monkeypatch.setattr(Client, "commit", refused)
    send(graph, 4, 5)
    graph.wait()
    assert numbers(graph) == [1, 2, 3, 4, 5]
    assert not busy


def test_a_task_whose_partition_is_another_s_writes_nothing(graph: Graph) -> None:
    graph.run(NUMBERS)
    send(graph, 1, 1)
    graph.wait()
    graph.ask("MATCH (p:TidingsPosition) SET p.epoch = p.epoch + 1")
    send(graph, 2, 2)
    task = graph.worker._tasks[0].supervision
    graph.worker.wait_for(lambda: task.last.outstanding > 0, "a batch that waits")
    assert numbers(graph) == [1]
    graph.worker.restart()
    graph.wait()
    assert numbers(graph) == [1, 2]


def test_whoever_claims_a_partition_waits_for_the_transaction_that_moves_it(
    neo4j: Neo4jServer, graph: Graph
) -> None:
    settings = read_settings("sink", graph.config | NUMBERS)
    at = TopicPartition("numbers", 0)
    first, second = Client(settings), Client(settings)
    try:
        positions = GraphPositions(first, settings)
        positions.make()
        epoch = positions.claim("g", at).epoch
        first.begin()
        assert positions.move("g", [(at, epoch, 5)]) == 1
        claimed: list[int | None] = []
        claiming = threading.Thread(
            target=lambda: claimed.append(GraphPositions(second, settings).claim("g", at).offset)
        )
        claiming.start()
        claiming.join(0.3)
        assert claiming.is_alive(), "it waits"
        first.commit()
        claiming.join(30)
        assert claimed == [5]
        first.begin()
        assert positions.move("g", [(at, epoch, 6)]) == 0
        first.rollback()
    finally:
        first.close()
        second.close()


@pytest.mark.turns
def test_a_server_that_is_killed_and_comes_back(graph: Graph, neo4j: Neo4jServer) -> None:
    graph.run(NUMBERS)
    send(graph, 1, 20)
    graph.worker.wait_for(lambda: len(numbers(graph)) > 0, "the first numbers")
    neo4j.kill()
    send(graph, 21, 30)
    neo4j.start()
    graph.wait()
    assert numbers(graph) == list(range(1, 31))


def test_a_database_that_is_not_there_ends_the_task(graph: Graph) -> None:
    graph.config |= {"neo4j.database": "no-such-database"}
    graph.run(NUMBERS)
    send(graph, 1, 1)
    with pytest.raises(AssertionError, match="the task failed"):
        graph.wait()
    assert isinstance(graph.worker.error, TargetError)
    assert "Database.DatabaseNotFound" in str(graph.worker.error)
