"""``topic.creation.*``: which group decides, and what is refused."""

import pytest

from tidings_capture.postgres.server.replica_identities import compile_identities
from tidings_connect.kafka.topic_creation import read_topic_creation, topic_creation_problems

GROUPS = {
    "topic.creation.groups": "log, wide",
    "topic.creation.default.partitions": "2",
    "topic.creation.default.replication.factor": "3",
    "topic.creation.default.cleanup.policy": "compact",
    "topic.creation.log.include": r".*\.log_\d+,other",
    "topic.creation.log.exclude": r".*_9",
    "topic.creation.log.retention.ms": "1000",
    "topic.creation.wide.include": ".*log.*",
    "topic.creation.wide.partitions": "8",
}


def test_the_first_group_that_matches_decides() -> None:
    creation = read_topic_creation(GROUPS)
    assert topic_creation_problems(GROUPS) == {}
    log, wide, rest = (creation.group(topic) for topic in ("s.log_1", "s.log_9", "s.orders"))
    assert (log.partitions, log.replication_factor, log.config) == (2, 3, {"retention.ms": "1000"})
    assert (wide.partitions, wide.replication_factor, wide.config) == (8, 3, {})
    assert (rest.partitions, rest.config) == (2, {"cleanup.policy": "compact"})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("topic.creation.unnamed.partitions", "1"),
        ("topic.creation.log.include", "("),
        ("topic.creation.log.partitions", "many"),
        ("topic.creation.default.include", "x"),
        ("topic.creation.log.include", ""),
    ],
)
def test_what_is_wrong_is_said_by_name(name: str, value: str) -> None:
    problems = topic_creation_problems(GROUPS | {name: value})
    assert list(problems) == [name]
    assert problems[name].startswith(name)


def test_replica_identities_are_read_from_their_text() -> None:
    rules = compile_identities(r"public.a:FULL, public\.b.*:index my_index,c.d:nothing")
    assert [rule.clause() for rule in rules] == ["FULL", 'USING INDEX "my_index"', "NOTHING"]
    assert rules[1].tables[0].fullmatch("public.bcd")
    with pytest.raises(ValueError, match=r"public\.a:SOME"):
        compile_identities("public.a:SOME")
