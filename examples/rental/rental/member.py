"""What rental.members means, and what of it is news. Nobody else gets an email address or a telephone number."""

from collections.abc import Iterator
from datetime import date, datetime
from uuid import UUID

from tidings_domain import Aggregate, Change, rule

from rental.events import MemberJoined, MemberLeft


class Member(Aggregate, root="rental.members", key="id"):
    id: UUID
    joined_on: date
    deleted_at: datetime | None


@rule(Member, emits=MemberJoined)
def member_joined(change: Change[Member]) -> Iterator[MemberJoined]:
    """There is a new row, or one that was deleted softly is back."""
    member = change.after
    if member is None or member.deleted_at is not None:
        return
    if change.created or change.changed(Member.deleted_at):
        yield MemberJoined(member_id=member.id, joined_on=member.joined_on)


@rule(Member, emits=MemberLeft)
def member_left(change: Change[Member]) -> Iterator[MemberLeft]:
    """The row stays, with the time."""
    member = change.after
    if (
        member is not None
        and member.deleted_at is not None
        and not change.created
        and change.changed(Member.deleted_at)
    ):
        yield MemberLeft(member_id=member.id, left_at=member.deleted_at)
