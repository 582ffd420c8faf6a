"""The documents of records on FerretDB: what its answers to requests are like that fail in part is another thing than elsewhere.

It has no indexes that let documents expire, takes documents of any size, and does not name the index of a duplicate.
"""

import pytest
from mongo_parts import Documents
from test_mongo_rows import (  # noqa: F401 - each is run once more here
    test_a_bad_record_is_a_letter_and_the_others_are_written,
    test_a_late_record_of_another_task_changes_nothing,
    test_a_record_of_another_partition_counts,
    test_a_replay_brings_nothing_back_meanwhile,
    test_a_topic_that_was_created_anew,
    test_business_keys,
    test_envelopes_by_the_handler,
    test_ids_of_the_place_are_the_same_when_a_record_comes_again,
    test_inserts_and_deletes_as_write_models,
    test_the_last_record_of_a_key_counts_however_often_records_come,
    test_updates_put_fields_over_those_of_the_document,
    test_updates_with_their_times,
    test_values_that_were_not_sent_stay_as_they_are,
)


@pytest.fixture
def documents(ferret_documents: Documents) -> Documents:
    return ferret_documents
