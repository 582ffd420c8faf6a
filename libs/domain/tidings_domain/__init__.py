"""What an author of a domain imports: aggregates, rules, events, and the function that loads a domain.

::

    from tidings_domain import Aggregate, Change, Row, children, reference, rule

`tidings_domain.testing` rehearses a domain in tests. Everything else is for the services and commands of Tidings.
"""

from tidings_domain.language.events import BusinessEvent, BusinessRecord, down_conversion
from tidings_domain.language.model import MICROSECONDS, MILLISECONDS, Aggregate, Row, children, reference
from tidings_domain.language.rules import Change, rule
from tidings_domain.loading.domain import Domain, load_domain

__all__ = [
    "MICROSECONDS",
    "MILLISECONDS",
    "Aggregate",
    "BusinessEvent",
    "BusinessRecord",
    "Change",
    "Domain",
    "Row",
    "children",
    "down_conversion",
    "load_domain",
    "reference",
    "rule",
]
