"""What Aiven's JDBC source connector 6.12 did on PostgreSQL 15, recorded from its statements in the server's log and its topics.

No registry has the connector, so that it cannot run beside this one. Where this one differs by intent, the case says so.
"""

import re
from collections.abc import Callable

import pytest
from query_parts import BOTH, TABLE, await_ids, ids

from tidings_capture.query.options import BOTH as BY_BOTH
from tidings_capture.query.options import BULK, INCREMENTING, TIMESTAMP
from tidings_capture.query.statements import Names, Reached, statement
from tidings_connect.testing.memory_worker import MemoryWorker

STATEMENTS = {
    BULK: "SELECT * FROM S",
    INCREMENTING: 'SELECT * FROM S WHERE S."id" > $1 ORDER BY S."id" ASC',
    TIMESTAMP: 'SELECT * FROM S WHERE S."updated" > $1 AND S."updated" < $2 ORDER BY S."updated" ASC',
    BY_BOTH: 'SELECT * FROM S WHERE S."updated" < $1 AND ((S."updated" = $2 AND S."id" > $3) OR S."updated" > $4)'
    ' ORDER BY S."updated",S."id" ASC',
}


@pytest.mark.parametrize("mode", STATEMENTS)
def test_the_condition_is_that_of_the_reference(mode: str) -> None:
    """Columns are not qualified here: a statement has one table."""
    found = statement(mode, Names("S", "*", '"id"', '"updated"'), Reached(7), "END", "MOMENT")
    text = " ".join(part for part in (found.select, found.rest) if part)
    recorded = re.sub(r"\$\d", "%s", STATEMENTS[mode]).replace("S.", "").replace('","', '", "')
    assert text == recorded
    values = {INCREMENTING: [7], TIMESTAMP: ["MOMENT", "END"], BY_BOTH: ["END", "MOMENT", 7, "MOMENT"]}
    assert list(found.parameters) == values.get(mode, [])


BEGIN = (
    TABLE,
    "INSERT INTO ev (id, updated) VALUES (10, '2026-01-01 00:00:01Z'), (20, '2026-01-01 00:00:02Z')",
)
LATER = {
    "a lower number with a later time": "INSERT INTO ev (id, updated) VALUES (15, '2026-01-01 00:00:03Z')",
    "a greater number with an older time": "INSERT INTO ev (id, updated) VALUES (30, '2026-01-01 00:00:01.5Z')",
    "the time that was read last": "INSERT INTO ev (id, updated) VALUES (30, '2026-01-01 00:00:02Z')",
    "a time that is to come": "INSERT INTO ev (id, updated) VALUES (30, now() + interval '1 hour')",
    "an update": "UPDATE ev SET note = 'new', updated = '2026-01-01 00:00:03Z' WHERE id = 10",
    "a deletion": "DELETE FROM ev WHERE id = 20",
}
READ = {
    INCREMENTING: {
        "a greater number with an older time": 30,
        "the time that was read last": 30,
        "a time that is to come": 30,
    },
    TIMESTAMP: {"a lower number with a later time": 15, "an update": 10},
    BY_BOTH: {"a lower number with a later time": 15, "the time that was read last": 30, "an update": 10},
}
"""By mode: the number of the row that was read again or anew; of what is not here, nothing was read."""


@pytest.mark.parametrize("later", LATER)
@pytest.mark.parametrize("mode", READ)
def test_a_mode_reads_what_the_reference_read(
    worker: MemoryWorker, run: Callable[..., None], begin: Callable[..., None], mode: str, later: str
) -> None:
    run(*BEGIN)
    begin(**{**BOTH, "mode": mode})
    await_ids(worker, [10, 20])
    each_mode_reads = "INSERT INTO ev (id, updated) VALUES (40, '2026-01-01 00:00:09Z')"
    run(LATER[later], each_mode_reads)
    worker.wait_for(lambda: ids(worker)[-1] == 40, "the last row")
    assert sorted(ids(worker)[2:-1]) == ([READ[mode][later]] if later in READ[mode] else [])
