"""From a change of a row to the records that Debezium would write for it: plans by table, generated code, what a database adds."""
