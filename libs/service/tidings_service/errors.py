"""The errors that every service shares; they are defined below all services, in `tidings_envelope.base_errors`."""

from tidings_envelope.base_errors import Retry, SettingsError, TidingsError, print_error

__all__ = ["Retry", "SettingsError", "TidingsError", "print_error"]
