"""For the tests of authors: rehearse a domain in memory, and replay recorded transactions."""

from tidings_domain.testing.recording import RecordingError
from tidings_domain.testing.rehearsal import START_US, Outcome, Rehearsal, Statement, delete, insert, update

__all__ = ["START_US", "Outcome", "RecordingError", "Rehearsal", "Statement", "delete", "insert", "update"]
