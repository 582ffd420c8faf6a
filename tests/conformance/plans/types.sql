-- Tables that hold every type that capture converts, and changes that show how. Written once, fed to the real
-- Debezium and to our conversion plans.
CREATE TYPE mood AS ENUM ('sad', 'ok', 'happy', 'it''s "complicated"');
CREATE DOMAIN positive_price AS numeric(10,2) CHECK (VALUE >= 0);
CREATE DOMAIN short_name AS varchar(20);

-- Every type, nullable.
CREATE TABLE every_type (
    id bigint PRIMARY KEY,
    c_int2 smallint, c_int4 integer, c_int8 bigint,
    c_float4 real, c_float8 double precision,
    c_numeric numeric, c_numeric_10_2 numeric(10,2), c_numeric_5_0 numeric(5,0), c_numeric_6 numeric(6), c_numeric_38_10 numeric(38,10),
    c_text text, c_varchar varchar, c_varchar_20 varchar(20), c_char char, c_char_3 char(3), c_name name, c_single "char",
    c_bool boolean,
    c_date date, c_time time, c_time_0 time(0), c_time_3 time(3), c_timetz timetz, c_timetz_2 timetz(2),
    c_timestamp timestamp, c_timestamp_0 timestamp(0), c_timestamp_3 timestamp(3), c_timestamp_6 timestamp(6),
    c_timestamptz timestamptz, c_timestamptz_0 timestamptz(0), c_timestamptz_3 timestamptz(3), c_timestamptz_6 timestamptz(6),
    c_interval interval,
    c_uuid uuid, c_json json, c_jsonb jsonb, c_bytea bytea, c_mood mood,
    c_oid oid, c_domain positive_price, c_domain_text short_name,
    c_inet inet, c_cidr cidr, c_macaddr macaddr, c_macaddr8 macaddr8,
    c_int4range int4range, c_int8range int8range, c_numrange numrange, c_tsrange tsrange, c_tstzrange tstzrange, c_daterange daterange,
    c_xml xml
);
CREATE TABLE every_array (
    id bigint PRIMARY KEY,
    a_int2 smallint[], a_int4 integer[], a_int8 bigint[], a_float4 real[], a_float8 double precision[],
    a_numeric numeric[], a_numeric_10_2 numeric(10,2)[],
    a_text text[], a_varchar varchar[], a_varchar_20 varchar(20)[], a_char char[], a_char_3 char(3)[],
    a_bool boolean[], a_date date[], a_time time[], a_time_3 time(3)[], a_timetz timetz[],
    a_timestamp timestamp[], a_timestamp_3 timestamp(3)[], a_timestamptz timestamptz[], a_timestamptz_3 timestamptz(3)[],
    a_uuid uuid[], a_json json[], a_jsonb jsonb[], a_bytea bytea[], a_mood mood[], a_oid oid[],
    a_inet inet[], a_int4range int4range[]
);
-- Every type, NOT NULL without a default: what a delete's `before` invents.
CREATE TABLE every_not_null (
    id bigint PRIMARY KEY,
    c_int2 smallint NOT NULL, c_int4 integer NOT NULL, c_int8 bigint NOT NULL,
    c_float4 real NOT NULL, c_float8 double precision NOT NULL,
    c_numeric numeric NOT NULL, c_numeric_10_2 numeric(10,2) NOT NULL,
    c_text text NOT NULL, c_varchar_20 varchar(20) NOT NULL, c_char_3 char(3) NOT NULL,
    c_bool boolean NOT NULL, c_date date NOT NULL, c_time time NOT NULL, c_time_3 time(3) NOT NULL, c_timetz timetz NOT NULL,
    c_timestamp timestamp NOT NULL, c_timestamp_3 timestamp(3) NOT NULL, c_timestamptz timestamptz NOT NULL, c_interval interval NOT NULL,
    c_uuid uuid NOT NULL, c_json json NOT NULL, c_jsonb jsonb NOT NULL, c_bytea bytea NOT NULL, c_mood mood NOT NULL, c_oid oid NOT NULL,
    c_inet inet NOT NULL, c_domain positive_price NOT NULL,
    a_int4 integer[] NOT NULL, a_text text[] NOT NULL, a_numeric_10_2 numeric(10,2)[] NOT NULL, a_mood mood[] NOT NULL, a_timestamptz timestamptz[] NOT NULL
);
-- Defaults, as literals and as functions; nullable and not.
CREATE TABLE every_default (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    serial_no serial,
    d_int2 smallint DEFAULT 7, d_int4 integer NOT NULL DEFAULT -42, d_int8 bigint DEFAULT 9223372036854775807,
    d_float4 real DEFAULT 1.5, d_float8 double precision NOT NULL DEFAULT 1e10, d_float8_small double precision DEFAULT 0.00001,
    d_numeric numeric DEFAULT 12.50, d_numeric_10_2 numeric(10,2) NOT NULL DEFAULT 0, d_numeric_neg numeric(10,2) DEFAULT -1.5,
    d_text text NOT NULL DEFAULT 'plain', d_text_quote text DEFAULT 'it''s "so"', d_varchar varchar(20) DEFAULT 'v', d_char_3 char(3) NOT NULL DEFAULT 'EUR', d_char_pad char(5) DEFAULT 'ab',
    d_bool boolean NOT NULL DEFAULT false, d_bool_true boolean DEFAULT true,
    d_date date DEFAULT '2020-02-29', d_date_fn date NOT NULL DEFAULT current_date,
    d_time time DEFAULT '12:34:56.789', d_time_3 time(3) NOT NULL DEFAULT '01:02:03',
    d_timestamp timestamp DEFAULT '2020-02-29 12:34:56.123456', d_timestamp_fn timestamp NOT NULL DEFAULT now(), d_timestamp_3 timestamp(3) DEFAULT '2021-01-01',
    d_timestamptz timestamptz DEFAULT '2020-02-29 12:34:56.123456+02', d_timestamptz_fn timestamptz NOT NULL DEFAULT now(),
    d_uuid uuid DEFAULT '76019d1a-ad2e-4b22-96e9-1a6d6543c818', d_uuid_fn uuid NOT NULL DEFAULT gen_random_uuid(),
    d_json json DEFAULT '{"a": 1}', d_jsonb jsonb NOT NULL DEFAULT '{}', d_bytea bytea DEFAULT '\x0102',
    d_mood mood NOT NULL DEFAULT 'ok', d_mood_null mood DEFAULT 'it''s "complicated"',
    d_interval interval DEFAULT '1 day', d_null text DEFAULT NULL, d_null_int integer DEFAULT NULL::integer,
    d_array integer[] DEFAULT '{1,2}', d_text_array text[] NOT NULL DEFAULT '{}',
    d_domain positive_price DEFAULT 1.00, d_inet inet DEFAULT '127.0.0.1', d_expr integer DEFAULT (1 + 2), d_fn_text text DEFAULT lower('ABC'),
    d_concat text NOT NULL DEFAULT 'a' || 'b', d_generated integer GENERATED ALWAYS AS (1 + 1) STORED
);
CREATE TABLE composite_key (b text NOT NULL, a integer NOT NULL, note text, PRIMARY KEY (a, b));
CREATE TABLE no_key (id integer, note text);
ALTER TABLE no_key REPLICA IDENTITY FULL;
CREATE TABLE full_identity (id integer PRIMARY KEY, note text, amount numeric(8,3) NOT NULL DEFAULT 1);
ALTER TABLE full_identity REPLICA IDENTITY FULL;
CREATE TABLE index_identity (id integer PRIMARY KEY, code text NOT NULL, note text NOT NULL);
CREATE UNIQUE INDEX index_identity_code ON index_identity (code);
ALTER TABLE index_identity REPLICA IDENTITY USING INDEX index_identity_code;
CREATE TABLE typed_key (k_uuid uuid, k_date date, k_ts timestamptz, k_mood mood, k_num numeric(6,2), k_bool boolean, note text,
    PRIMARY KEY (k_uuid, k_date, k_ts, k_mood, k_num, k_bool));
CREATE TABLE toasted (
    id integer PRIMARY KEY, n integer,
    t_text text, t_json json, t_jsonb jsonb, t_bytea bytea, t_varchar varchar, t_numeric numeric, t_text_nn text NOT NULL DEFAULT 'd',
    a_text text[], a_int4 integer[], a_int8 bigint[], a_uuid uuid[], a_date date[], a_json json[], a_jsonb jsonb[], a_bytea bytea[], a_varchar varchar(50)[], a_numeric numeric[], a_float8 float8[]
);
ALTER TABLE toasted ALTER t_text SET STORAGE EXTERNAL, ALTER t_json SET STORAGE EXTERNAL, ALTER t_jsonb SET STORAGE EXTERNAL,
    ALTER t_bytea SET STORAGE EXTERNAL, ALTER t_varchar SET STORAGE EXTERNAL, ALTER t_text_nn SET STORAGE EXTERNAL, ALTER t_numeric SET STORAGE EXTERNAL,
    ALTER a_text SET STORAGE EXTERNAL, ALTER a_int4 SET STORAGE EXTERNAL, ALTER a_int8 SET STORAGE EXTERNAL, ALTER a_uuid SET STORAGE EXTERNAL,
    ALTER a_date SET STORAGE EXTERNAL, ALTER a_json SET STORAGE EXTERNAL, ALTER a_jsonb SET STORAGE EXTERNAL, ALTER a_bytea SET STORAGE EXTERNAL,
    ALTER a_varchar SET STORAGE EXTERNAL, ALTER a_numeric SET STORAGE EXTERNAL, ALTER a_float8 SET STORAGE EXTERNAL;
CREATE TABLE "Odd-Name 1" ("Id col" integer PRIMARY KEY, "täxt" text, "1st" integer, "a.b" integer);
CREATE TABLE unknown_types (id integer PRIMARY KEY, c_point point, c_money money, c_bit bit(3), c_tsvector tsvector, c_interval_array interval[], c_pg_lsn pg_lsn, c_int4multirange int4multirange);
