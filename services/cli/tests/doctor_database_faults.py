"""What can be wrong with a database, the way to it, a role, tables, publications and slots: each planted by itself."""

import time
from contextlib import closing

import psycopg
from doctor_lab import KEPT, MOST, Between, Lab, planted
from psycopg import pq
from psycopg.conninfo import make_conninfo

from tidings_capture.postgres.client import Replication, read_url
from tidings_cli.doctor import database as of_database

# The server


@planted("wal-level")
def wal_level_replica(lab: Lab) -> None:
    server = lab.pg_server("16", wal_level="replica", max_slot_wal_keep_size=KEPT)
    lab.more.callback(server.close)
    lab.url = server.url
    lab.options["publication_autocreate_mode"] = "filtered"
    lab.run("CREATE TABLE a (id int PRIMARY KEY)")


@planted("unreachable")
def no_server(lab: Lab) -> None:
    lab.options["database_port"] = "1"


@planted("no-slot-left")
def every_slot_taken(lab: Lab) -> None:
    for number in range(MOST):
        lab.slot(f"{lab.name}_{number}")


@planted("no-sender-left")
def every_sender_taken(lab: Lab) -> None:
    for _ in range(MOST):
        lab.more.enter_context(closing(Replication(read_url(lab.url))))


@planted("unlimited-wal")
def slots_may_fill_the_disk(lab: Lab) -> None:
    lab.setting("max_slot_wal_keep_size", "-1")


@planted("slot-unused")
def a_slot_that_nobody_reads(lab: Lab) -> None:
    lab.slot(lab.name + "_left")
    lab.write_wal(1)
    lab.also += ["--retained", "1kB"]


@planted("slot-lost")
def a_slot_that_has_lost_wal(lab: Lab) -> None:
    lab.slot(lab.name + "_left")
    lab.setting("max_slot_wal_keep_size", "1MB")
    lab.write_wal(6)
    lab.run("CHECKPOINT")
    lab.setting("max_slot_wal_keep_size", KEPT)


@planted("slot-in-danger")
def a_slot_with_little_left(lab: Lab) -> None:
    lab.setting("max_slot_wal_keep_size", "160MB")
    lab.slot(lab.name + "_left")
    lab.write_wal(10)


@planted("no-failover-slot")
def a_standby_and_a_slot_that_stays_behind(lab: Lab) -> None:
    lab.slot(lab.name + "_standby")
    conninfo = make_conninfo(lab.url, replication="true")
    standby = pq.PGconn.connect(conninfo.encode())
    lab.more.callback(standby.finish)
    where = standby.exec_(b"IDENTIFY_SYSTEM").get_value(0, 2)
    assert where is not None
    answer = standby.exec_(b"START_REPLICATION SLOT " + f"{lab.name}_standby PHYSICAL ".encode() + where)
    assert answer.status == pq.ExecStatus.COPY_BOTH


@planted("standby")
def every_reader_of_a_slot_is_a_standby(lab: Lab) -> None:
    lab.setting("synchronous_standby_names", "FIRST 1 (a, *)")


@planted("wal-sender-timeout")
def impatient_senders(lab: Lab) -> None:
    lab.setting("wal_sender_timeout", "5s")


@planted("idle-session-timeout")
def sessions_are_cut(lab: Lab) -> None:
    lab.setting("idle_session_timeout", "1h")


@planted("idle-in-transaction-session-timeout")
def snapshots_are_cut(lab: Lab) -> None:
    lab.setting("idle_in_transaction_session_timeout", "1h")


@planted("idle-slot-timeout")
def slots_are_taken_away(lab: Lab) -> None:
    lab.setting("idle_replication_slot_timeout", "1d")


@planted("old-transaction")
def a_transaction_without_end(lab: Lab) -> None:
    writer = lab.more.enter_context(psycopg.connect(lab.url))
    writer.execute("INSERT INTO a VALUES (1)")
    lab.monkeypatch.setattr(of_database, "_LONG_SECONDS", 0.0)


@planted("drift")
def clocks_that_differ(lab: Lab) -> None:
    ours = time.time
    lab.monkeypatch.setattr(of_database.time, "time", lambda: ours() + 60)


# The way to it


@planted("pooler")
def a_pooler_between(lab: Lab) -> None:
    lab.between(Between(lab.url, "--pools"))


@planted("stream-refused")
def no_replication_through_the_proxy(lab: Lab) -> None:
    lab.between(Between(lab.url, "--no-streams"))


@planted("idle-cut")
def a_proxy_that_ends_what_is_silent(lab: Lab) -> None:
    lab.between(Between(lab.url, "--idle", "4"))
    lab.also += ["--idle", "6"]


# The role


@planted("no-replication")
def a_role_without_replication(lab: Lab) -> None:
    lab.as_role("", "GRANT SELECT ON a TO {role}")


@planted("no-select")
def a_role_that_may_not_read(lab: Lab) -> None:
    lab.as_role("REPLICATION")


@planted("no-publication")
def a_role_that_does_not_own_what_it_publishes(lab: Lab) -> None:
    lab.options |= {"publication_name": "of_nobody", "publication_autocreate_mode": "filtered"}
    lab.as_role(
        "REPLICATION", "GRANT SELECT ON a TO {role}", f"GRANT CREATE ON DATABASE {lab.name} TO {{role}}"
    )


# Tables, publication and slot


@planted("no-publication")
def a_publication_that_is_not_there(lab: Lab) -> None:
    lab.options["publication_name"] = "of_nobody"


@planted("not-published")
def a_publication_that_lacks_a_table(lab: Lab) -> None:
    lab.run("CREATE TABLE b (id int PRIMARY KEY)")


@planted("operations-not-published")
def a_publication_without_deletes(lab: Lab) -> None:
    lab.run("ALTER PUBLICATION sound SET (publish = 'insert, update')")


@planted("partition-root")
def partitions_by_another_name(lab: Lab) -> None:
    lab.run("ALTER PUBLICATION sound SET (publish_via_partition_root = true)")


@planted("null-as-default")
def a_column_whose_nulls_are_not_told(lab: Lab) -> None:
    """The others have no default that records tell of, or no null."""
    lab.with_kafka = True
    lab.run(
        "ALTER TABLE a ADD price numeric DEFAULT -1.5, ADD at timestamptz DEFAULT now(), ADD made date DEFAULT CURRENT_DATE,"
        " ADD required int NOT NULL DEFAULT 1, ADD note text, ADD twice int GENERATED ALWAYS AS (id * 2) STORED"
    )


@planted("no-replica-identity")
def a_keyless_table(lab: Lab) -> None:
    lab.run("CREATE TABLE keyless (id int)", "ALTER PUBLICATION sound ADD TABLE keyless")


@planted("no-replica-identity")
def an_identity_of_nothing(lab: Lab) -> None:
    lab.run("ALTER TABLE a REPLICA IDENTITY NOTHING")


@planted("table-missing")
def a_table_that_is_not_there(lab: Lab) -> None:
    # Without a worker's file a reference is a variable of whoever asks.
    lab.monkeypatch.setenv("OF_THE_CONNECTOR", "public.c")
    lab.options["table_include_list"] = "${env:OF_THE_CONNECTOR}"


@planted("slot-of-another")
def a_slot_of_another_database(lab: Lab) -> None:
    lab.slot(lab.name, make_conninfo(lab.url, dbname="postgres"), plugin="pgoutput")


@planted("option")
def an_option_that_does_not_exist(lab: Lab) -> None:
    lab.options["snapshot_mode"] = "sometimes"


@planted("no-transactions")
def no_markers_of_transactions(lab: Lab) -> None:
    lab.options["provide_transaction_metadata"] = "false"
