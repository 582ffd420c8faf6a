"""Recognises what Debezium and capture write again after a crash, by the progress."""

from tidings_domain.errors import SequenceError
from tidings_envelope.envelope import Source
from tidings_envelope.errors import OrderError
from tidings_envelope.gtid import Gtid
from tidings_envelope.position import lsn_to_text
from tidings_translator.sequencer.assembly.progress import Progress


def is_repeated_row(progress: Progress, txid: int, source: Source) -> bool:
    """Whether a row belongs to a transaction that came out before."""
    position = progress.commit_lsn
    if position is None:
        return False
    lsn, last_commit_lsn = source.lsn, source.last_commit_lsn
    known = progress.finished.get(txid)
    if known is not None and lsn is not None and lsn < known:
        return True
    # Commits are serial: this row's is the first after `last_commit_lsn`, so it is not after `position`.
    return last_commit_lsn is not None and last_commit_lsn < position and (lsn is None or lsn < position)


def check_history(progress: Progress, txid: int, end_lsn: int, gtid: Gtid | None) -> None:
    """Check an END marker whose commit LSN is not above the last one.

    Args:
        gtid: the transaction's, where it is MariaDB's.

    Raises:
        SequenceError: it was not told of before. Either it lies among the transactions that are remembered, and is none of
            them; or its MariaDB server has not yet logged so high a number.
    """
    if gtid is not None:
        try:
            progress.server_numbers.check_told(gtid)
        except OrderError as error:
            raise SequenceError(str(error), hint=error.hint) from None
    finished, position = progress.finished, progress.commit_lsn
    known_from = next(iter(finished.values()), None)
    if known_from is None or position is None or not known_from <= end_lsn <= position:
        return
    if end_lsn in finished.values():
        return
    raise SequenceError(
        f"transaction {txid} ends at {lsn_to_text(end_lsn)}, before {lsn_to_text(position)}, where this source"
        " already was, and it has not been seen: the history has changed",
        hint="has the database been restored or replaced? Give the new one another topic.prefix",
    )
