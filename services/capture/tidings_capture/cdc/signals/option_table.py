"""The options of signals, incremental snapshots and notifications."""

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from tidings_capture.cdc.signals.file import DEFAULT_FILE, signal_file_problem
from tidings_capture.cdc.signals.options import table_name
from tidings_connect.config.option import Option, worded
from tidings_connect.config.option_checks import (
    at_least_one_problem,
    not_negative_problem,
    positive_problem,
    refused_by,
)

table_problem: Final = refused_by(table_name)


def chunk_problem(value: str) -> str | None:
    """What is wrong with the size of a chunk."""
    return not_negative_problem(value) or at_least_one_problem(value)  # with none, nothing would be read


def channels_among(known: set[str]) -> Callable[[str], str | None]:
    """What is wrong with a list of channels."""

    def check(value: str) -> str | None:
        wrong = {part.strip().lower() for part in value.split(",")} - known - {""}
        return (
            f"takes {', '.join(sorted(known))}; {', '.join(sorted(wrong))} is not implemented"
            if wrong
            else None
        )

    return check


def missing_partners(config: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """What is wrong with options that mean nothing without another, by option."""
    topic = "notification.sink.topic.name"
    if "sink" in config.get("notification.enabled.channels", "") and not config.get(topic):
        yield (
            topic,
            worded(
                topic, "Notification topic name must be provided when kafka notification channel is enabled"
            ),
        )
    channels = {part.strip().lower() for part in config.get("signal.enabled.channels", "").split(",")}
    if "file" in channels:
        wrong = signal_file_problem(config.get("signal.file", DEFAULT_FILE).strip() or DEFAULT_FILE)
        if wrong is not None:
            yield "signal.file", worded("signal.file", wrong)


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
INCREMENTAL: Final = (
    Option(
        "incremental.snapshot.chunk.size",
        "int",
        "1024",
        check=chunk_problem,
        documentation="How many rows a chunk of an incremental snapshot has.",
    ),
    Option(
        "incremental.snapshot.watermarking.strategy",
        default="insert_insert",
        values=("insert_delete", "insert_insert"),
        documentation="How a chunk's window is closed in the signal table: by a second row, or by deleting the first.",
    ),
    Option(
        "read.only",
        "boolean",
        "false",
        remark="Incremental snapshots write no watermarks.",
        documentation="Whether incremental snapshots write nothing into the database.",
    ),
)
