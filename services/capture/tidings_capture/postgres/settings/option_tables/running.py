"""Options about errors and queues."""

from typing import Final

from tidings_capture.postgres.settings.option_checks import queue_problem
from tidings_connect.config.option import Option
from tidings_connect.config.option_checks import positive_long_problem, positive_problem

OPTIONS: Final = (
    Option(
        "errors.deadletterqueue.topic.name",
        documentation="Where to keep what errors.tolerance=all leaves out; Kafka Connect has it for sinks only.",
        remark="Keeps what `errors.tolerance=all` leaves out: the row as text, without columns that are left out or masked, or the record as it was before the transforms, with Kafka Connect's `__connect.errors.*` headers. Kafka Connect has this for sinks only.",
    ),
    Option(
        "retriable.restart.connector.wait.ms",
        "long",
        "10000",
        check=positive_long_problem,
        documentation="How long to wait before a task is started again after an error that may pass, in milliseconds.",
        remark="Accepted; `errors.retry.delay.*` decide.",
    ),
    Option(
        "max.batch.size",
        "int",
        "2048",
        check=positive_problem,
        documentation="Batches follow what has arrived: accepted, without effect.",
        remark="Accepted, without effect: batches follow what has arrived.",
    ),
    Option(
        "max.queue.size",
        "int",
        "8192",
        check=queue_problem,
        documentation="The producer's queue is the only one: accepted, without effect.",
        remark="Accepted, without effect: the producer's queue is the only one (`producer.override.buffer.memory`).",
    ),
    Option(
        "poll.interval.ms",
        "long",
        "500",
        check=positive_problem,
        documentation="Nothing is polled: accepted, without effect.",
        remark="Accepted, without effect: nothing is polled.",
    ),
)
