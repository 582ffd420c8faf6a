"""MariaDB's servers of one replication domain, and the last sequence number that each gave to a commit of its own.

Commits are ordered by their sequence numbers (`tidings_envelope.gtid`), and one that is not beyond the last is repeated: its
connector has crashed, and writes it again. Without ``gtid_strict_mode`` a server also logs commits of lower numbers that are
new: those of a second primary, or of one that was promoted without the last transactions. A server numbers its own commits
upwards, whatever others have logged; so one that is beyond the last of its own server was never told.
"""

from dataclasses import dataclass, field

from tidings_envelope.errors import OrderError
from tidings_envelope.gtid import Gtid


@dataclass(slots=True)
class ServerNumbers:
    """What is known of one domain's servers."""

    last: dict[int, int] = field(default_factory=dict)
    """Server to the sequence of its last commit."""
    since: int | None = None
    """The sequence from which on `last` knows all; None before the first."""

    @property
    def highest(self) -> int:
        """The sequence of the last commit; 0 before the first."""
        return max(self.last.values(), default=0)

    def copy(self) -> "ServerNumbers":
        """Another with the same."""
        return ServerNumbers(dict(self.last), self.since)

    def note(self, gtid: Gtid) -> None:
        """A commit was told of that is beyond all before it."""
        if self.since is None:
            self.since = gtid.sequence
        self.last[gtid.server] = gtid.sequence

    def check_told(self, gtid: Gtid) -> None:
        """Check a commit that is not beyond the last one.

        Raises:
            OrderError: it was not told of before.
        """
        if self.since is None or gtid.sequence < self.since:
            return
        last = self.last.get(gtid.server)
        if last is not None and gtid.sequence <= last:
            return
        known = "none" if last is None else f"{gtid.domain}-{gtid.server}-{last} as the last one"
        raise OrderError(
            f"transaction {gtid} follows sequence number {self.highest}, and is not a repeated one: of its server"
            f" {known} was read. So sequence numbers go back, and commits have no order by them",
            hint="let gtid_strict_mode=ON on the server refuse such, and each primary have a gtid_domain_id of its own; then"
            " capture anew under another topic.prefix",
        )
