"""Encodes what the sequencer's changelog topic holds: the rows that are remembered, and the progress."""

import msgspec

from tidings_domain.routing.memory import Memory
from tidings_translator.sequencer.assembly.progress import PROGRESS_KEY, Progress, decode_progress

_encode = msgspec.msgpack.Encoder().encode


class Changelog:
    """Stores `memory` and `progress` together, and restores them. Both may be changed by their users alone."""

    def __init__(self) -> None:
        self.memory = Memory()
        self.progress = Progress()

    def load(self, key: bytes, value: bytes | None) -> None:
        """Take back one record.

        Raises:
            msgspec.DecodeError: it is not such a record.
        """
        if key == PROGRESS_KEY:
            self.progress = Progress() if value is None else decode_progress(value)
        else:
            self.memory.load(key, value)

    def take_progress(self) -> dict[bytes, bytes | None]:
        """The progress' record alone; everything else that has changed still has to be taken."""
        return {PROGRESS_KEY: _encode(self.progress)}

    def take_changes(
        self, at_most: int | None = None, most_bytes: int | None = None
    ) -> dict[bytes, bytes | None]:
        """Records for what has changed and was not taken yet, the progress always included.

        `at_most` and `most_bytes` leave what is beyond so many, and so much, to the next call.
        """
        return self.take_progress() | self.memory.take_changes(at_most, most_bytes)
