"""An event as it was received: its data and its CloudEvents attributes."""

from dataclasses import dataclass, field
from datetime import datetime
from typing import Generic, TypeVar

T_co = TypeVar("T_co", covariant=True)


@dataclass(frozen=True)
class Received(Generic[T_co]):
    """One event.

    Attributes:
        data: the event itself.
        type: the event and its version, ``shop.order-placed.v2``; equal to the topic.
        id: the event's id, which stays the same through replays; each version of an event has its own.
        subject: the id of the business object that it is about.
        time: when the database transaction committed (UTC).
        sequence: text that sorts as the commits do; the same in every version of the event.
        attributes: all CloudEvents attributes, such as ``traceparent`` or ``deprecated``.
        position: ``topic/partition offset``, for logs.
    """

    data: T_co
    type: str
    id: str
    subject: str
    time: datetime
    sequence: str
    attributes: dict[str, str] = field(repr=False)
    position: str = field(default="")

    @property
    def key(self) -> str:
        """What it is deduplicated by: event, subject and sequence, so that two versions of one event count as one."""
        name = self.type.rpartition(".v")[0]
        return f"{name} {self.sequence} {self.subject}" if self.sequence else self.id

    @property
    def sunset(self) -> str | None:
        """From when this version of the event may be gone; None if nobody has said so."""
        return self.attributes.get("deprecationsunset")
