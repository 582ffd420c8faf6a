"""The optional event trigger that writes DDL into the WAL, where logical decoding meets it in order.

PostgreSQL does not replicate DDL. The trigger puts each statement that changes a table (or a type, schema, index, view
or sequence) into the WAL as a transactional logical message of prefix `MESSAGE_PREFIX`: JSON with command, object,
statement, and the table before and after. What a table was before is remembered in an unlogged table, which logical
decoding never shows. The trigger never makes a statement fail: what it cannot do becomes a warning of the statement's.

Everything is in the schema ``tidings``, except the two event triggers, which have none.
"""

from dataclasses import dataclass
from typing import Final

from tidings_capture.errors import CatalogError, PostgresError
from tidings_capture.postgres import Session
from tidings_service import Retry

MESSAGE_PREFIX: Final = "tidings.ddl"
"""The prefix of the messages; they never show on ``<prefix>.message``."""

_KINDS: Final = ("TABLE", "TYPE", "DOMAIN", "INDEX", "SEQUENCE", "SCHEMA", "VIEW", "MATERIALIZED VIEW")
_ALTERING: Final = ", ".join(
    f"'{tag}'"
    for tag in (
        *(f"{verb} {kind}" for kind in _KINDS for verb in ("CREATE", "ALTER")),
        "CREATE TABLE AS",
        "SELECT INTO",
    )
)
_DROPPING: Final = ", ".join(f"'DROP {kind}'" for kind in _KINDS)
# Commands that carry secrets in their text (user mappings, subscriptions, servers) are left out on purpose.

_REMOVE: Final = """
DROP EVENT TRIGGER IF EXISTS tidings_ddl_command;
DROP EVENT TRIGGER IF EXISTS tidings_ddl_drop;
DROP FUNCTION IF EXISTS tidings.ddl_command();
DROP FUNCTION IF EXISTS tidings.ddl_drop();
DROP FUNCTION IF EXISTS tidings.ddl_describe(oid);
DROP TABLE IF EXISTS tidings.ddl_tables;
"""

_INSTALL: Final = f"""
CREATE SCHEMA IF NOT EXISTS tidings;
DO $$BEGIN
  -- Who owns the schema could put a table of his own in the place of ours, and the trigger runs as its owner.
  IF (SELECT n.nspowner FROM pg_catalog.pg_namespace n WHERE n.nspname = 'tidings') <> current_user::regrole THEN
    RAISE EXCEPTION 'schema tidings belongs to another role' USING ERRCODE = 'insufficient_privilege';
  END IF;
END$$;
CREATE UNLOGGED TABLE tidings.ddl_tables (relation oid PRIMARY KEY, description jsonb NOT NULL);

CREATE FUNCTION tidings.ddl_describe(relation oid) RETURNS jsonb
LANGUAGE sql STABLE SET search_path = pg_catalog AS $$
SELECT jsonb_build_object(
  'schema', n.nspname, 'name', c.relname,
  'columns', (
    SELECT coalesce(jsonb_agg(jsonb_build_object(
        'name', a.attname, 'type', format_type(a.atttypid, a.atttypmod), 'nullable', NOT a.attnotnull,
        'default', pg_get_expr(d.adbin, d.adrelid)) ORDER BY a.attnum), '[]')
      FROM pg_attribute a LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
     WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped),
  'key', (
    SELECT coalesce(jsonb_agg(a.attname ORDER BY k.place), '[]')
      FROM pg_index i CROSS JOIN unnest(i.indkey::int2[]) WITH ORDINALITY AS k(attnum, place)
      JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.attnum
     WHERE i.indrelid = c.oid AND i.indisprimary AND k.place <= i.indnkeyatts))
  FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
 WHERE c.oid = ddl_describe.relation AND c.relkind IN ('r', 'p') AND c.relpersistence <> 't'
$$;

CREATE FUNCTION tidings.ddl_command() RETURNS event_trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  command record;
  former jsonb;
  present jsonb;
  told boolean := false;
BEGIN
  FOR command IN
    SELECT DISTINCT ON (found.relation) found.* FROM (
      SELECT c.*, row_number() OVER () AS place,
             CASE WHEN c.classid = 'pg_class'::regclass THEN coalesce(
                    (SELECT i.indrelid FROM pg_index i WHERE i.indexrelid = c.objid), c.objid)
                  WHEN c.classid = 'pg_constraint'::regclass THEN
                    (SELECT k.conrelid FROM pg_constraint k WHERE k.oid = c.objid) END AS relation
        FROM pg_event_trigger_ddl_commands() c
       WHERE NOT c.in_extension AND c.schema_name IS DISTINCT FROM 'pg_temp') AS found
     ORDER BY found.relation, found.place
  LOOP
    present := tidings.ddl_describe(command.relation);
    CONTINUE WHEN present IS NULL AND (told OR tg_tag IN ('CREATE TABLE', 'ALTER TABLE', 'CREATE TABLE AS'));
    told := true;
    former := NULL;
    IF present IS NOT NULL THEN
      SELECT t.description INTO former FROM tidings.ddl_tables t WHERE t.relation = command.relation;
      INSERT INTO tidings.ddl_tables VALUES (command.relation, present)
        ON CONFLICT (relation) DO UPDATE SET description = excluded.description;
    END IF;
    PERFORM pg_logical_emit_message(true, '{MESSAGE_PREFIX}', jsonb_build_object(
      'command', tg_tag, 'object_type', command.object_type, 'object', command.object_identity,
      'oid', command.relation::bigint, 'schema', coalesce(present->>'schema', command.schema_name),
      'table', present->>'name', 'statement', current_query(), 'before', former, 'after', present)::text);
  END LOOP;
EXCEPTION WHEN OTHERS THEN
  RAISE WARNING 'tidings: this statement is missing in the schema changes: %', SQLERRM;
END
$$;

CREATE FUNCTION tidings.ddl_drop() RETURNS event_trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  dropped record;
  former jsonb;
BEGIN
  FOR dropped IN
    SELECT * FROM pg_event_trigger_dropped_objects() o
     WHERE (o.object_type = 'table' OR o.original) AND NOT o.is_temporary
  LOOP
    former := NULL;
    IF dropped.object_type = 'table' THEN
      DELETE FROM tidings.ddl_tables t WHERE t.relation = dropped.objid RETURNING t.description INTO former;
    END IF;
    PERFORM pg_logical_emit_message(true, '{MESSAGE_PREFIX}', jsonb_build_object(
      'command', tg_tag, 'object_type', dropped.object_type, 'object', dropped.object_identity,
      'oid', CASE WHEN dropped.object_type = 'table' THEN dropped.objid::bigint END, 'schema', dropped.schema_name,
      'table', CASE WHEN dropped.object_type = 'table' THEN dropped.object_name END,
      'statement', current_query(), 'before', former, 'after', NULL)::text);
  END LOOP;
EXCEPTION WHEN OTHERS THEN
  RAISE WARNING 'tidings: this statement is missing in the schema changes: %', SQLERRM;
END
$$;

INSERT INTO tidings.ddl_tables
  SELECT c.oid, tidings.ddl_describe(c.oid) FROM pg_catalog.pg_class c
    JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
   WHERE c.relkind IN ('r', 'p') AND c.relpersistence <> 't' AND n.nspname NOT IN ('tidings', 'information_schema')
     AND n.nspname !~ '^pg_';
CREATE EVENT TRIGGER tidings_ddl_command ON ddl_command_end WHEN TAG IN ({_ALTERING})
  EXECUTE FUNCTION tidings.ddl_command();
CREATE EVENT TRIGGER tidings_ddl_drop ON sql_drop WHEN TAG IN ({_DROPPING})
  EXECUTE FUNCTION tidings.ddl_drop();
"""  # noqa: S608 - of constants of ours

_STATUS: Final = """
SELECT t.evtname, t.evtenabled::text FROM pg_event_trigger t
 WHERE t.evtname IN ('tidings_ddl_command', 'tidings_ddl_drop')
"""
_INSUFFICIENT_PRIVILEGE: Final = "42501"


@dataclass(frozen=True, slots=True)
class TriggerStatus:
    """What is there of the event triggers."""

    installed: bool
    """Both are there."""
    enabled: bool
    """Both fire in ordinary sessions."""


def install_trigger(session: Session) -> None:
    """Install the event triggers, or install them again; in one transaction.

    Raises:
        CatalogError: the role may not create event triggers.
        PostgresError: the server refused for another reason.
    """
    _run(session, f"BEGIN;{_REMOVE}{_INSTALL}COMMIT", "install")


def remove_trigger(session: Session) -> None:
    """Remove everything that `install_trigger` made; nothing happens when nothing is there.

    Raises:
        CatalogError: the role owns neither.
        PostgresError: the server refused for another reason.
    """
    there = session.value("SELECT count(*) FROM pg_namespace WHERE nspname = 'tidings'")
    if not there and not session.rows(_STATUS):
        return
    _run(session, f"BEGIN;{_REMOVE}DROP SCHEMA IF EXISTS tidings RESTRICT;COMMIT", "remove")


def trigger_status(session: Session) -> TriggerStatus:
    """Whether the event triggers are there and fire."""
    found = dict(session.rows(_STATUS))
    return TriggerStatus(len(found) == 2, len(found) == 2 and set(found.values()) <= {"O", "A"})


def _run(session: Session, statements: str, action: str) -> None:
    try:
        session.execute(statements)
    except PostgresError as error:
        session.execute("ROLLBACK")
        if error.sqlstate != _INSUFFICIENT_PRIVILEGE:
            raise
        raise CatalogError(
            f"this role may not {action} the event trigger: {error}",
            hint="event triggers need a superuser (or the provider's substitute, such as rds_superuser); "
            "the connector's own role needs no further right",
            retry=Retry.NEVER,
        ) from error
