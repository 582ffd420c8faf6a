"""The optional event trigger that writes DDL into the WAL, where logical decoding meets it in order.

PostgreSQL does not replicate DDL. The trigger puts each statement that changes a table (or a type, schema, index, view
or sequence) into the WAL as a transactional logical message of prefix `MESSAGE_PREFIX`: JSON with command, object,
statement, and the table before and after; one for each table that changes, be it by inheritance or CASCADE. What a table
was before is remembered in an unlogged table, which logical
decoding never shows. The trigger never makes a statement fail: what it cannot do becomes a warning of the statement's.

Everything is in the schema ``tidings``, except the two event triggers, which have none.
"""

from dataclasses import dataclass
from typing import Final

from tidings_capture.postgres.client import Session
from tidings_capture.postgres.errors import CatalogError, PostgresError
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
_TAKING: Final = (
    "OWNED",
    "EXTENSION",
    "FUNCTION",
    "ROUTINE",
    "AGGREGATE",
    "OPERATOR",
    "COLLATION",
    "LANGUAGE",
)
"""What may take tables, columns or defaults with it by CASCADE, which are told; it itself is not."""
_DROPPING: Final = ", ".join(f"'DROP {kind}'" for kind in (*_KINDS, *_TAKING))
_TOLD_DROPS: Final = ", ".join(f"'{kind.lower()}'" for kind in _KINDS)
_LONGEST: Final = 65_536
"""Characters of a statement that are told."""
_SENSITIVE: Final = (
    r"""passw(or)?d"?([[:space:]]|--[^\n]*\n|/\*.*?\*/)*(=|(e|n|u&)?[''$])"""
    r"|://[^[:space:]/@]*:[^[:space:]/]*@"
)
"""What a text with a password in it matches: ``PASSWORD '...'``, ``password=...``, ``scheme://user:password@``."""
# Commands that carry secrets in their text (user mappings, subscriptions, servers) are left out on purpose; one that
# comes in the same text as a command that is told makes `_SENSITIVE` withhold the text.

_REMOVE: Final = """
DROP EVENT TRIGGER IF EXISTS tidings_ddl_command;
DROP EVENT TRIGGER IF EXISTS tidings_ddl_drop;
DROP FUNCTION IF EXISTS tidings.ddl_command();
DROP FUNCTION IF EXISTS tidings.ddl_drop();
DROP FUNCTION IF EXISTS tidings.ddl_tell(text, text, text, oid, text, text, jsonb, jsonb);
DROP FUNCTION IF EXISTS tidings.ddl_statement();
DROP FUNCTION IF EXISTS tidings.ddl_touched(text, oid, oid, oid);
DROP FUNCTION IF EXISTS tidings.ddl_learn(oid);
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

-- A table as it was and as it is; from now on it was as it is.
CREATE FUNCTION tidings.ddl_learn(relation oid, OUT former jsonb, OUT present jsonb)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  present := tidings.ddl_describe(relation);
  IF present IS NOT NULL THEN
    SELECT t.description INTO former FROM tidings.ddl_tables t WHERE t.relation = ddl_learn.relation;
    INSERT INTO tidings.ddl_tables VALUES (ddl_learn.relation, present)
      ON CONFLICT ON CONSTRAINT ddl_tables_pkey DO UPDATE SET description = excluded.description;
  END IF;
END
$$;

-- Tables that a command may have changed beside its object: heirs and partitions, tables of a schema or with a type.
CREATE FUNCTION tidings.ddl_touched(tag text, class oid, object oid, relation oid) RETURNS SETOF oid
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  WITH RECURSIVE heirs(heir) AS (
    SELECT i.inhrelid FROM pg_inherits i WHERE i.inhparent = relation
     UNION SELECT i.inhrelid FROM pg_inherits i JOIN heirs h ON i.inhparent = h.heir)
  SELECT heir FROM heirs
   UNION
  SELECT c.oid FROM pg_class c
   WHERE tag = 'ALTER SCHEMA' AND class = 'pg_namespace'::regclass AND c.relnamespace = object
   UNION
  SELECT d.objid FROM pg_type y JOIN pg_depend d ON d.refclassid = 'pg_type'::regclass AND d.refobjid IN (y.oid, y.typarray)
   WHERE tag IN ('ALTER TYPE', 'ALTER DOMAIN') AND d.classid = 'pg_class'::regclass
     AND object = CASE WHEN class = 'pg_type'::regclass THEN y.oid WHEN class = 'pg_class'::regclass THEN y.typrelid END
$$;

CREATE FUNCTION tidings.ddl_statement() RETURNS text
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT CASE WHEN s.told ~* '{_SENSITIVE}' THEN NULL ELSE s.told END
    FROM (SELECT CASE WHEN length(q.text) > {_LONGEST} THEN left(q.text, {_LONGEST}) || '…' ELSE q.text END
            FROM (SELECT current_query()) q(text)) s(told)
$$;

CREATE FUNCTION tidings.ddl_tell(tag text, object_type text, object text, relation oid, schema text, name text,
                                 former jsonb, present jsonb) RETURNS void
LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
  SELECT pg_logical_emit_message(true, '{MESSAGE_PREFIX}', jsonb_build_object(
    'command', tag, 'object_type', object_type, 'object', object, 'oid', relation::bigint, 'schema', schema,
    'table', name, 'statement', tidings.ddl_statement(), 'before', former, 'after', present)::text)
$$;

CREATE FUNCTION tidings.ddl_command() RETURNS event_trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  command record;
  touched oid;
  former jsonb;
  present jsonb;
  told boolean := false;
BEGIN
  FOR command IN
    SELECT * FROM (
      SELECT DISTINCT ON (coalesce(found.relation, found.objid)) found.* FROM (
        SELECT c.*, row_number() OVER () AS place,
               CASE WHEN c.classid = 'pg_class'::regclass THEN coalesce(
                      (SELECT i.indrelid FROM pg_index i WHERE i.indexrelid = c.objid), c.objid)
                    WHEN c.classid = 'pg_constraint'::regclass THEN
                      (SELECT k.conrelid FROM pg_constraint k WHERE k.oid = c.objid) END AS relation
          FROM pg_event_trigger_ddl_commands() c
         WHERE NOT c.in_extension AND c.schema_name IS DISTINCT FROM 'pg_temp') AS found
       ORDER BY coalesce(found.relation, found.objid), found.place) AS first
     ORDER BY first.place
  LOOP
    SELECT l.former, l.present INTO former, present FROM tidings.ddl_learn(command.relation) l;
    CONTINUE WHEN present IS NULL AND (told OR tg_tag IN ('CREATE TABLE', 'ALTER TABLE', 'CREATE TABLE AS'))
      AND tg_tag <> 'CREATE SCHEMA';
    told := true;
    PERFORM tidings.ddl_tell(tg_tag, command.object_type, command.object_identity, command.relation,
      coalesce(present->>'schema', command.schema_name), present->>'name', former, present);
    FOR touched IN SELECT t FROM tidings.ddl_touched(tg_tag, command.classid, command.objid, command.relation) t ORDER BY t
    LOOP
      SELECT l.former, l.present INTO former, present FROM tidings.ddl_learn(touched) l;
      CONTINUE WHEN present IS NULL OR present = former;
      PERFORM tidings.ddl_tell(tg_tag, 'table', touched::regclass::text, touched,
        present->>'schema', present->>'name', former, present);
    END LOOP;
  END LOOP;
EXCEPTION WHEN OTHERS THEN
  RAISE WARNING 'tidings: this statement is missing in the schema changes: %', SQLERRM;
END
$$;

CREATE FUNCTION tidings.ddl_drop() RETURNS event_trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  dropped record;
  touched oid;
  former jsonb;
  present jsonb;
BEGIN
  FOR dropped IN SELECT * FROM pg_event_trigger_dropped_objects() o WHERE NOT o.is_temporary
  LOOP
    IF dropped.object_type = 'table' THEN
      DELETE FROM tidings.ddl_tables t WHERE t.relation = dropped.objid RETURNING t.description INTO former;
      PERFORM tidings.ddl_tell(tg_tag, 'table', dropped.object_identity, dropped.objid,
        dropped.schema_name, dropped.object_name, former, NULL);
    ELSIF dropped.original AND dropped.object_type IN ({_TOLD_DROPS}) THEN
      PERFORM tidings.ddl_tell(tg_tag, dropped.object_type, dropped.object_identity, NULL,
        dropped.schema_name, NULL, NULL, NULL);
    ELSIF dropped.object_type IN ('table column', 'default value') THEN  -- of a table that stays, by CASCADE
      touched := to_regclass(format('%I.%I', dropped.address_names[1], dropped.address_names[2]));
      SELECT l.former, l.present INTO former, present FROM tidings.ddl_learn(touched) l;
      CONTINUE WHEN present IS NULL OR present = former;
      PERFORM tidings.ddl_tell(tg_tag, 'table', touched::regclass::text, touched,
        present->>'schema', present->>'name', former, present);
    END IF;
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
