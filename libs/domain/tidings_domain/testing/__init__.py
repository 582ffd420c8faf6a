"""For the tests of authors: rehearse a domain in memory, and replay recorded transactions."""

from tidings_domain.testing.recording import RecordingError
from tidings_domain.testing.rehearsal import START_US, Rehearsal, Statement, Told, delete, insert, update

__all__ = ["START_US", "RecordingError", "Rehearsal", "Statement", "Told", "delete", "insert", "update"]
