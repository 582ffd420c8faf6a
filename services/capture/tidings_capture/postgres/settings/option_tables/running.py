"""Options about errors and queues."""

from typing import Final

from tidings_capture.cdc.option_table import POLL_INTERVAL, QUEUE_SIZE, RESTART_WAIT
from tidings_connect.config.option import Option
from tidings_connect.config.option_checks import positive_problem

OPTIONS: Final = (
    Option(
        "errors.deadletterqueue.topic.name",
        documentation="Where to keep what errors.tolerance=all leaves out; Kafka Connect has it for sinks only.",
        remark="Keeps what `errors.tolerance=all` leaves out: the row as text, without columns that are left out or masked, or the record as it was before the transforms, with Kafka Connect's `__connect.errors.*` headers. Kafka Connect has this for sinks only.",
    ),
    RESTART_WAIT,
    Option(
        "max.batch.size",
        "int",
        "2048",
        check=positive_problem,
        documentation="Batches follow what has arrived: accepted, without effect.",
        remark="Accepted, without effect: batches follow what has arrived.",
    ),
    QUEUE_SIZE,
    POLL_INTERVAL,
)
