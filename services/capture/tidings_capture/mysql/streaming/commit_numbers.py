"""The numbers of commits, which stand in the headers of rows and markers: see `tidings_envelope.commit_number`.

Every transaction of the log counts, whether or not its tables are captured, so that a filter changes no number.
"""

from tidings_capture.mysql.binlog.events import GtidEvent
from tidings_capture.mysql.encoding.records import Numbers, Place
from tidings_capture.mysql.errors import UnsupportedError
from tidings_capture.mysql.offset import Offset
from tidings_capture.mysql.settings.config import MariaDbConfig
from tidings_envelope.commit_number import MOST, last_number, number_after


class CommitNumbers:
    """Of one stream.

    Args:
        start: where it begins.
        place: of the stream's changes; it says a number only with transaction metadata.
    """

    def __init__(self, config: MariaDbConfig, start: Offset, place: Place) -> None:
        self._counts = config.flavour.numbers_commits
        self._shows = self._counts and config.transactions
        self._place = place
        self._by_file = not start.gtids.has_ids
        self._last = self._present = self.stored = start.commit
        """The last of the complete transactions; the present one's; and what the offset has to say of them."""
        self._show(start.commit + 1)

    def begin(self, begun: GtidEvent, seconds: int) -> None:
        """A transaction begins.

        Args:
            seconds: when its first event was written, since the Unix epoch.

        Raises:
            UnsupportedError: there are no more numbers.
        """
        if not self._counts:
            return
        self._present = number_after(self._last, begun.micros or seconds * 1_000_000)
        if self._present > MOST:
            raise UnsupportedError(
                f"{begun.gtid} was committed at a time behind the year 2112, or follows one that was: its number has no place",
                hint="set the server's clock, and take a new snapshot under another topic.prefix",
            )
        if self._by_file:  # such a stream may begin behind what says when the transaction was committed
            self.stored = self._present - 1
        self._show(self._present)

    def end(self, numbers: Numbers | None) -> None:
        """It ends."""
        if self._counts:
            self._last = self.stored = last_number(self._present, 0 if numbers is None else numbers.total)
            self._show(self._last + 1)

    def _show(self, number: int) -> None:
        """What rows say that are written now; between two transactions those of an incremental snapshot."""
        if self._shows:
            self._place.commit = number
