"""What can be wrong with Kafka, the worker's group, the registry and the lake: each planted by itself."""

from collections.abc import Iterator
from contextlib import closing, contextmanager

from confluent_kafka import Consumer
from doctor_lab import Lab, planted

from tidings_stack.waiting import wait_for

# Kafka, the worker's group, the registry


@planted("unreachable")
def no_kafka(lab: Lab) -> None:
    lab.with_kafka, lab.bootstrap = True, "127.0.0.1:1"


@planted("partitions")
def configurations_in_three_partitions(lab: Lab) -> None:
    lab.topic("-config", 3, cleanup_policy="compact")


@planted("not-compacted")
def offsets_that_are_forgotten(lab: Lab) -> None:
    lab.topic("-offset", cleanup_policy="delete")


@planted("retention")
def rows_that_are_kept_for_an_hour(lab: Lab) -> None:
    lab.topic(".public.a", retention_ms="3600000")


@planted("compacted")
def rows_that_are_compacted(lab: Lab) -> None:
    lab.topic(".public.a", cleanup_policy="compact")


@planted("small-records")
def a_topic_for_small_records(lab: Lab) -> None:
    lab.topic(".public.a", retention_ms="-1", max_message_bytes="1000")


@planted("min-insync")
def a_topic_that_nobody_can_write_to(lab: Lab) -> None:
    lab.topic(".public.a", retention_ms="-1", min_insync_replicas="2")


@planted("worker-unreachable")
def a_worker_that_tells_a_wrong_address(lab: Lab) -> None:
    lab.more.enter_context(in_group(lab, "http://127.0.0.1:1"))


@planted("group-of-others")
def an_application_in_the_group(lab: Lab) -> None:
    lab.more.enter_context(in_group(lab, "an-application"))


@planted("unreachable")
def no_registry(lab: Lab) -> None:
    lab.also += ["--registry", "http://127.0.0.1:1"]


@planted("not-writable")
def a_lake_in_a_file(lab: Lab) -> None:
    (lab.directory / "file").touch()
    lab.also += ["--lakehouse", str(lab.directory / "file")]


@contextmanager
def in_group(lab: Lab, client: str) -> Iterator[None]:
    """A member of the worker's group."""
    lab.topic("-members")
    member = Consumer({"bootstrap.servers": lab.bootstrap, "group.id": lab.name, "client.id": client})
    with closing(member):
        member.subscribe([lab.name + "-members"])

        def joined() -> bool:
            member.poll(0.1)
            return bool(member.assignment())

        wait_for("the member to join", joined, 120)
        yield
