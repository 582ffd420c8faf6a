"""Options about signals and notifications."""

from typing import Final

from tidings_capture.cdc.signal_file import DEFAULT_FILE
from tidings_capture.postgres.settings.option_checks import channels_among, table_problem
from tidings_connect.config.option import Option
from tidings_connect.config.option_checks import positive_problem

OPTIONS: Final = (
    Option(
        "signal.data.collection",
        check=table_problem,
        documentation="The table that signals are written to, schema.table.",
        remark="A table with three columns; captured whatever the lists say, never snapshotted.",
    ),
    Option(
        "signal.enabled.channels",
        "list",
        "source",
        check=channels_among({"source", "kafka", "file"}),
        documentation="Where signals come from: source, kafka, file.",
        remark='`jmx` and `in-process` are refused: see "Signals".',
        form="`source`, `kafka`, `file`",
    ),
    Option(
        "signal.file",
        default=DEFAULT_FILE,
        documentation="Within the worker's tidings.signal.directory.",
        remark="A line is a signal once it ends with a newline. Within the worker's `tidings.signal.directory`; without that property only the default, in the worker's working directory. A regular file of at most 1 MiB.",
    ),
    Option(
        "signal.kafka.topic",
        default_text="`<topic.prefix>-signal`",
        documentation="The topic that signals are read from.",
    ),
    Option("signal.kafka.groupId", default="kafka-signal", documentation="The consumer group that reads it."),
    Option(
        "signal.kafka.bootstrap.servers",
        default_text="the worker's",
        documentation="The brokers that it is read from.",
    ),
    Option(
        "signal.kafka.poll.timeout.ms",
        "int",
        "0",
        documentation="The loop never waits for signals: accepted, without effect.",
        remark="Accepted, without effect: the stream never waits for signals.",
    ),
    Option(
        "signal.poll.interval.ms",
        "long",
        "5000",
        check=positive_problem,
        documentation="How often the channels of signals are looked at, in milliseconds.",
    ),
    Option(
        "notification.enabled.channels",
        "list",
        "",
        check=channels_among({"log", "sink"}),
        documentation="Where notifications go: log, sink.",
        remark="`jmx` is refused: there is no JVM.",
        form="`log`, `sink`",
    ),
    Option(
        "notification.sink.topic.name",
        documentation="The topic of notifications.",
        remark="Required where `notification.enabled.channels` has `sink`.",
    ),
)
