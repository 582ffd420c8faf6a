"""The loop of a sink task: poll, decode, transform, put, flush, commit. What is written, and where to, is a `SinkTask`'s.

An offset is committed when the task has said that everything before it is durable, and the dead letters among it are stored.
So a crash repeats records; it never loses one. A task whose system is busy (`RetriableError`) gets the same batch again: its
partitions rest meanwhile, and it stays in its group.
"""

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Final

from tidings_connect.config.retries import read_retry_options
from tidings_connect.config.sink_options import (
    CONSUMER_OVERRIDE,
    TOPICS_REGEX,
    consumer_overrides,
    sink_group,
    topic_pattern,
    topics_of,
)
from tidings_connect.config.task_options import producer_overrides
from tidings_connect.data.subscription import Consumed, Reach, Subscribe, TopicPartition, last_of_partitions
from tidings_connect.errors import BrokerError, OffsetError
from tidings_connect.kafka.consumer_settings import MOST_RECORDS, consumer_settings
from tidings_connect.task.channel import SIGNAL, Report
from tidings_connect.task.patience import Patience
from tidings_connect.task.sink.commit_time import committed_ms
from tidings_connect.task.sink.kept_records import KeptRecords
from tidings_connect.task.sink.letters import PUT, Letters
from tidings_connect.task.sink.offers import ColumnOffers
from tidings_connect.task.sink.pauses import Pauses
from tidings_connect.task.sink.progress import SinkProgress
from tidings_connect.task.sink.records import Records
from tidings_connect.task.sink.task import (
    LeftOut,
    RetriableError,
    SinkContext,
    SinkRecord,
    SinkTask,
    SlowError,
)
from tidings_connect.task.transport import TaskContext
from tidings_connect.task.worker_link import StopRequested, WorkerLink
from tidings_envelope.fault_points import reached
from tidings_service import get_logger

_POLL_SECONDS: Final = 0.25

_log = get_logger(__name__)


class SinkLoop:
    """One run of a sink task.

    Args:
        open_task: makes the task of a configuration.
    """

    def __init__(
        self, context: TaskContext, open_task: Callable[[Mapping[str, str], SinkContext], SinkTask]
    ) -> None:
        self._context = context
        job, config = context.job, context.job.config
        self._name, self._task_number = job.connector, job.task
        self._state = "starting"
        self._link = WorkerLink(context.supervision, self._report)
        self._interval = job.offset_flush_ms / 1000
        self._pauses = Pauses(read_retry_options(config))
        self._own: set[TopicPartition] = set()
        self._put_to: dict[TopicPartition, int] = {}
        """Of each partition, the offset after the last record that the task has, or that was left out."""
        self._committed: dict[TopicPartition, int] = {}
        self._pending: list[tuple[Consumed, SinkRecord | LeftOut]] = []
        """Read, and not put."""
        self._offered: Sequence[Consumed] = ()
        """Read, and offered as columns just now."""
        self._next_flush = 0.0
        self._read = 0
        self._progress = SinkProgress()
        self._letters = Letters(
            config,
            job.connector,
            job.task,
            lambda topic, replicas: context.transport.letters(topic, replicas, producer_overrides(config)),
            self._link.listen,
        )
        self._records = Records(job, self._letters, Patience(config, self._link, self._progress.repeated))
        self._by_place: dict[tuple[TopicPartition, int], Consumed] | None = {}
        """The records that are put just now; None: made of `_pending` when one is asked for."""
        self._kept = KeptRecords()
        self._task = open_task(
            config,
            SinkContext(
                job.connector,
                job.task,
                self._refused,
                self._letters.flush,
                lambda: self._kept.size_bytes,
                self._consumed,
                self._kept_refused,
                self._reaches,
                self._read_again,
            ),
        )
        self._offers = ColumnOffers(self._task, self._records)
        overrides = consumer_overrides(config)
        pattern = topic_pattern(config) if config.get(TOPICS_REGEX) else None
        self._wanted = Subscribe(
            sink_group(job.connector, config),
            f"connector-consumer-{job.connector}-{job.task}",
            topics_of(config),
            None if pattern is None else pattern.matches,
            consumer_settings(overrides, CONSUMER_OVERRIDE),
            int(overrides.get(MOST_RECORDS, self._task.most_records)),
        )

    def run(self) -> None:
        """Until it is to stop."""
        self._link.report()
        try:
            self._subscription = self._context.transport.subscribe(self._wanted, self)
            try:
                self._work()
            except StopRequested:
                self._link.ending()
                _log.info("stopped", connector=self._name, task=self._task_number)
            except BaseException:
                self._own.clear()  # nothing more is committed
                raise
            finally:
                self._leave()
        finally:
            self._task.stop()
            self._records.close()
            self._link.report()

    def _leave(self) -> None:
        try:
            try:
                self._flush()
            finally:
                self._subscription.close()
                self._own.clear()
        except (BrokerError, RetriableError, StopRequested) as error:
            # The committed offsets stay behind: the next start repeats what was put after them.
            _log.warning("stopped without a last commit", connector=self._name, reason=str(error))

    def _work(self) -> None:
        self._state = "streaming"
        self._next_flush = time.monotonic() + self._interval
        while True:
            for command in self._context.supervision.commands():
                if command.kind == SIGNAL:
                    _log.warning("a sink takes no signals", connector=self._name)
            waits = self._pending or self._pauses.fails
            arrived = self._subscription.poll(
                min(_POLL_SECONDS, self._pauses.seconds) if waits else _POLL_SECONDS
            )
            self._read += len(arrived)
            own = self._owned(arrived)
            own = own[self._put_columns(own) :]
            self._pending += zip(own, self._records.made(own, self._task.reads), strict=True)
            if not self._pauses.seconds:
                if self._pending:
                    self._put()
                else:
                    self._work_without_records()
                self._pauses.pause(self._subscription, self._own.intersection(self._task.paused()))
            if time.monotonic() >= self._next_flush:
                self._flush()
            elif self._task.wants_flush():
                self._flush(wanted=True)
            self._link.listen()

    def _owned(self, arrived: list[Consumed]) -> list[Consumed]:
        """Without what is of partitions that are gone."""
        if self._own.issuperset(last_of_partitions(arrived)):
            return arrived
        return [each for each in arrived if each[:2] in self._own]

    # What the task is given, and how far it is

    def _put(self) -> None:
        batch = [made for _, made in self._pending if isinstance(made, SinkRecord)]
        left_out = [made for _, made in self._pending if isinstance(made, LeftOut)]
        self._by_place = None
        try:
            if left_out:
                self._task.left_out(left_out)
            if batch:
                with self._progress.putting():
                    self._task.put(batch)
        except SlowError as error:
            self._progress.put({})
            self._pauses.slow(self._subscription, self._own)
            _log.info(
                "a sink is slow and goes on", connector=self._name, task=self._task_number, reason=str(error)
            )
            return
        except RetriableError as error:
            self._progress.put_failed()
            self._rest(error)
            return
        finally:
            self._by_place = {}
        reached("sink.put")
        if self._task.keeps_records:
            self._kept.add(
                (made.original, each) for each, made in self._pending if isinstance(made, SinkRecord)
            )
        self._is_put([each for each, _ in self._pending])
        self._records.count(record.original.topic for record in batch)
        if not self._task.durable_at_put:
            self._hold(self._first_commits())
        self._pending = []
        self._pauses.go_on(self._subscription, self._own)

    def _put_columns(self, read: Sequence[Consumed]) -> int:
        """Offer what was just read as columns; how many of the records the task has taken, from the first on."""
        taken = 0
        if self._pending or self._pauses.fails:
            return taken
        try:
            for part in self._offers.parts(read):
                began, self._offered = time.monotonic(), read[taken:]
                if not self._offers.take(part):
                    break
                self._progress.put_took(time.monotonic() - began)
                reached("sink.put")
                if self._task.keeps_records:
                    self._kept.add_read(part)
                self._is_put(part)
                self._records.count(each.topic for each in part)
                if not self._task.durable_at_put:
                    self._hold(self._records.first_commits(part))
                taken += len(part)
        except RetriableError as error:
            self._progress.put_failed()
            self._rest(error)
        finally:
            self._offered = ()
        return taken

    def _is_put(self, read: Sequence[Consumed]) -> None:
        """Records are the task's, or were left out."""
        last = last_of_partitions(read)
        self._put_to |= {at: each.offset + 1 for at, each in last.items()}
        self._progress.put({at: each.timestamp for at, each in last.items() if each.timestamp is not None})

    def _hold(self, first_commits: Mapping[TopicPartition, int]) -> None:
        """What was put just now is not durable yet."""
        for at, committed in first_commits.items():
            self._progress.held(at, self._put_to[at], committed)

    def _work_without_records(self) -> None:
        """Let the task do what is due although nothing was read."""
        try:
            self._task.work()
        except RetriableError as error:
            self._progress.put_failed()
            self._rest(error)
            return
        if self._pauses.fails:
            self._progress.put({})
        self._pauses.go_on(self._subscription, self._own)

    def _rest(self, error: RetriableError) -> None:
        seconds = self._pauses.failed(self._subscription, self._own, error)
        _log.warning(
            "a sink is busy and is asked again",
            connector=self._name,
            task=self._task_number,
            seconds=round(seconds, 3),
            reason=str(error),
        )

    def _flush(self, *, wanted: bool = False) -> None:
        """Have the task make durable what it has, and commit as much as it says.

        Args:
            wanted: whether the task has asked for it, so that it is asked although nothing may have come.
        """
        self._next_flush = time.monotonic() + self._interval
        offsets = {at: offset for at, offset in self._put_to.items() if at in self._own}
        if not wanted and all(self._committed.get(at) == offset for at, offset in offsets.items()):
            return
        try:
            reached("sink.flush")
            durable = self._task.flush(dict(offsets))
        except RetriableError as error:
            self._progress.flush_failed()
            _log.warning("a sink is busy; nothing is committed yet", connector=self._name, reason=str(error))
            return
        reached("sink.flushed")
        self._letters.flush()
        found = {}
        for at, offset in durable.items():
            if at not in offsets:
                continue
            if offset > offsets[at]:
                raise OffsetError(
                    f"the task says that {at.topic}, partition {at.partition} is durable up to {offset}, but it was given"
                    f" records up to {offsets[at]} only"
                )
            if offset > self._committed.get(at, -1):
                found[at] = offset
            self._kept.forget_before(at, offset)
            self._progress.durable(at, offset)
        if self._commit(found):
            self._progress.flushed(committed=bool(found))
        else:
            self._progress.flush_failed()

    def _commit(self, offsets: Mapping[TopicPartition, int]) -> bool:
        """Whether it counts for all of them; a partition of which it does not is committed with the next flush, if it stays."""
        if not offsets:
            return True
        try:
            done = self._subscription.commit(offsets)
        except BrokerError:
            self._progress.flush_failed()
            raise
        self._committed.update({at: offsets[at] for at in done})
        reached("sink.committed")
        return len(done) == len(offsets)

    def _consumed(self, record: SinkRecord) -> Consumed | None:
        """A record that is put just now, as it was read (`SinkContext.consumed`)."""
        if self._by_place is None:
            self._by_place = {(made.original, each.offset): each for each, made in self._pending}
        return self._by_place.get((record.original, record.offset))

    def _refused(self, record: SinkRecord, error: Exception) -> None:
        """A record that the task cannot write (`SinkContext.report`)."""
        consumed = self._consumed(record) or self._kept.get(record)
        if consumed is None:
            consumed = Consumed(*record.original, record.offset, None, None, [], record.timestamp)
        self._kept_refused(consumed, error)

    def _kept_refused(self, consumed: Consumed, error: Exception) -> None:
        """The same of a record that the task has kept (`SinkContext.report_kept`)."""
        self._letters.leave_out(consumed, PUT, type(self._task).__name__, error)

    def _read_again(self, read: Sequence[Consumed]) -> list[SinkRecord]:
        """Records that were put as columns, as records (`SinkContext.read_again`)."""
        made = self._records.made(read, self._task.reads)
        return [each for each in made if isinstance(each, SinkRecord)]

    def _reaches(self, partitions: Collection[TopicPartition]) -> Mapping[TopicPartition, Reach]:
        """How far partitions go (`SinkContext.reaches`)."""
        return self._subscription.reaches(partitions)

    # What the group says (`Assignments`)

    def assigned(self, partitions: Collection[TopicPartition]) -> Mapping[TopicPartition, int]:
        """See `Assignments.assigned`."""
        self._own |= set(partitions)
        self._progress.assigned(partitions)
        begin = self._task.open(partitions) or {}
        self._put_to.update(begin)  # so that the group comes to know it, although nothing may follow
        self._pauses.assigned()
        return begin

    def revoked(self, partitions: Collection[TopicPartition]) -> None:
        """See `Assignments.revoked`."""
        if self._own.intersection(partitions):
            self._flush()
        self._forget(partitions)

    def lost(self, partitions: Collection[TopicPartition]) -> None:
        """See `Assignments.lost`."""
        self._forget(partitions)

    def _forget(self, partitions: Collection[TopicPartition]) -> None:
        gone = self._own.intersection(partitions)
        if gone:
            self._task.close(sorted(gone))
        self._own -= gone
        self._pauses.forget(gone)
        self._pending = [(each, made) for each, made in self._pending if made.original not in gone]
        self._progress.forget(gone)
        for at in gone:
            self._put_to.pop(at, None)
            self._committed.pop(at, None)
            self._kept.forget(at)

    def _first_commits(self) -> dict[TopicPartition, int]:
        """When the first changes of the pending records were committed, by partition; milliseconds since the Unix epoch."""
        found: dict[TopicPartition, int] = {}
        for _, made in self._pending:
            if isinstance(made, SinkRecord) and made.original not in found:
                committed = committed_ms(made)
                if committed is not None:
                    found[made.original] = committed
        return found

    def _report(self) -> Report:
        return Report(
            state=self._state,
            records=dict(self._records.counts),
            connected=self._state == "streaming",
            outstanding=len(self._pending) + len(self._offered),
            record_errors=self._letters.errors,
            records_skipped=self._letters.skipped,
            dead_letters=self._letters.written,
            records_read=self._read,
            partitions=len(self._own),
            sink=self._progress.report(
                self._subscription.reaches(self._own) if self._own else {},
                [*self._offered, *(record for record, _ in self._pending)],
                self._put_to,
                paused=self._pauses.count(self._own),
                committed_ms=self._first_commits(),
            ),
        )
