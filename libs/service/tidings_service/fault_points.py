"""Moved to `tidings_envelope.fault_points`, below every service."""

from tidings_envelope.fault_points import reached

__all__ = ["reached"]
