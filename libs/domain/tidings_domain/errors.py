"""The errors between rows and business events, each with a stable `code`, what helps (`retry`), and a hint for a person.

Messages name a file, a table, a column, a rule or a commit position; they never hold a cell's value.
"""

from tidings_envelope.base_errors import Retry, TidingsError


class TranslatorError(TidingsError):
    """Something in the translator that Tidings can name."""

    code = "translator"


class ChangeSetError(TranslatorError):
    """A change set's bytes cannot be read."""

    code = "change-set"
    default_retry = Retry.NEVER


class DomainError(TranslatorError):
    """A domain (aggregates, rules, conversions) is defined wrongly; raised while it is loaded."""

    code = "domain"
    default_retry = Retry.NEVER


class ContractError(TranslatorError):
    """An event contract under ``schemas/`` is missing, unreadable or incompatible."""

    code = "contract"
    default_retry = Retry.NEVER


class StateError(TranslatorError):
    """An aggregate's stored state does not fit the aggregate's definition."""

    code = "state"


class EventError(TranslatorError):
    """A business event does not fit its contract."""

    code = "event"
    default_retry = Retry.NEVER


class SequenceError(TranslatorError):
    """The technical topics cannot be put together to transactions; going on would lose something."""

    code = "sequence"


class RowError(SequenceError):
    """One row of a technical topic cannot be used: it goes to the dead letters, and its transaction with it."""

    default_retry = Retry.NEVER
