"""Makes dead letters of what a shard cannot translate, and the records that close them."""

from collections.abc import Iterable

from tidings_domain.errors import ChangeSetError
from tidings_domain.evaluation.evaluate import RuleFailure
from tidings_translator.base.records import Partition
from tidings_translator.dead_letters.letters import Closed, Origin, dead_letter, resolution
from tidings_translator.translation.held import Failed, Waiting
from tidings_translator.translation.publishing import BatchResult


class Letters:
    """Writes dead letters about the records of one partition.

    Args:
        topic: of the dead letters.
        partition: of the change sets.
    """

    def __init__(self, topic: str, partition: Partition) -> None:
        self._topic = topic
        self._partition = partition

    def close(self, key: bytes, offset: int, what: Failed, outcome: str, result: BatchResult) -> None:
        """Say what became of a letter: ``replayed`` or ``discarded``."""
        result.closed.append(Closed(outcome, f"{self._partition}@{offset}", what[0]))
        origin = Origin(self._partition.topic, self._partition.partition, offset, *what)
        result.outputs.append(resolution(self._topic, key, origin, outcome))

    def undecodable(
        self, offset: int, key: bytes, value: bytes, error: ChangeSetError, result: BatchResult
    ) -> None:
        """A record that is not a change set, or one of another version."""
        result.add_letter(
            dead_letter(
                self._topic,
                stage="decode",
                error="ChangeSetError",
                reason=str(error),
                partition=self._partition,
                offset=offset,
                key=key,
                value=value,
            )
        )

    def write(
        self,
        key: bytes,
        change: Waiting,
        failures: Iterable[RuleFailure],
        result: BatchResult,
        *,
        policy: str = "skip",
        state: bytes | None = None,
    ) -> None:
        """A letter for each failure of a change set; `policy` says what becomes of the aggregate, `state` is the one that the
        rules saw."""
        for failure in failures:
            result.add_letter(
                dead_letter(
                    self._topic,
                    stage=failure.stage,
                    error=failure.error,
                    reason=failure.reason,
                    partition=self._partition,
                    offset=change.offset,
                    key=key,
                    value=change.value,
                    state=state if failure.rule is not None else None,
                    policy=policy,
                    rule=failure.rule,
                    event_id=failure.event_id,
                    aggregate=failure.aggregate,
                    id=failure.id,
                    txid=failure.txid,
                    commit_lsn=failure.commit_lsn,
                    shadow="yes" if change.shadow else None,
                )
            )
