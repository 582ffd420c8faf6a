"""The mark of rows that were told again because a copy of them was wrong: a header of records that capture writes when a signal
`repair-rows` names their keys. Debezium writes none.
"""

from typing import Final

HEADER: Final = "tidings.repair"
"""The id of the signal, as text."""
SIGNAL: Final = "repair-rows"
"""The type of the signal."""
MOST_KEYS: Final = 1000
"""In one signal: what is left of it stands in the connector's offset."""
