-- More types, in tables of their own: what extensions bring, geometry, domains, odd arrays, odd defaults, and times for
-- every time.precision.mode. PostGIS's and pgvector's types are stand-ins with a text's input and output, which is what a
-- connector sees of them.
CREATE EXTENSION hstore;
CREATE EXTENSION ltree;
CREATE EXTENSION citext;
CREATE EXTENSION isn;
CREATE TYPE mood AS ENUM ('sad', 'ok', 'happy');
CREATE TYPE pair AS (a integer, b text);
CREATE TYPE floatrange AS RANGE (subtype = float8);
CREATE DOMAIN d_int AS integer;
CREATE DOMAIN d_int_nn AS integer NOT NULL;
CREATE DOMAIN d_num AS numeric(10,2);
CREATE DOMAIN d_numv AS numeric;
CREATE DOMAIN d_vc AS varchar(20);
CREATE DOMAIN d_text AS text;
CREATE DOMAIN d_ts3 AS timestamp(3);
CREATE DOMAIN d_tstz AS timestamptz(2);
CREATE DOMAIN d_date AS date;
CREATE DOMAIN d_bool AS boolean;
CREATE DOMAIN d_intarr AS integer[];
CREATE DOMAIN d_numarr AS numeric(10,2)[];
CREATE DOMAIN d_textarr AS text[];
CREATE DOMAIN d_mood AS mood;
CREATE DOMAIN d_moodarr AS mood[];
CREATE DOMAIN d_bit AS bit(3);
CREATE DOMAIN d_bit1 AS bit(1);
CREATE DOMAIN d_bytea AS bytea;
CREATE DOMAIN d_jsonb AS jsonb;
CREATE DOMAIN d_uuid AS uuid;
CREATE DOMAIN d_hstore AS hstore;
CREATE DOMAIN d_point AS point;
CREATE DOMAIN d_money AS money;
CREATE DOMAIN d_interval AS interval;
CREATE DOMAIN d_citext AS citext;
CREATE DOMAIN d_time AS time(3);
CREATE DOMAIN d_timetz AS timetz;
CREATE DOMAIN d_oid AS oid;
CREATE DOMAIN d_pair AS pair;
CREATE DOMAIN d_dd AS d_num;
CREATE DOMAIN d_ddarr AS d_intarr;
CREATE DOMAIN d_inet AS inet;
CREATE DOMAIN d_xml AS xml;
CREATE DOMAIN d_range AS int4range;
CREATE DOMAIN d_ltree AS ltree;
CREATE DOMAIN d_varbit AS varbit(5);
CREATE TABLE geometric (id bigint PRIMARY KEY, c_money money, c_point point, c_box box, c_lseg lseg, c_path path, c_polygon polygon, c_circle circle, c_line line);
CREATE TABLE geometric_not_null (id bigint PRIMARY KEY, c_money money NOT NULL, c_point point NOT NULL, c_box box NOT NULL, c_lseg lseg NOT NULL, c_path path NOT NULL, c_polygon polygon NOT NULL, c_circle circle NOT NULL, c_line line NOT NULL, c_hstore hstore NOT NULL, c_ltree ltree NOT NULL, c_citext citext NOT NULL, c_isbn isbn NOT NULL, c_bit bit(3) NOT NULL, c_bit1 bit NOT NULL, c_varbit varbit NOT NULL, c_xml xml NOT NULL, c_tsv tsvector NOT NULL);
CREATE TABLE extension_types (id bigint PRIMARY KEY, c_hstore hstore, c_ltree ltree, c_citext citext, c_isbn isbn, c_isbn13 isbn13, c_issn issn, c_ean13 ean13, c_upc upc, c_ismn ismn, c_lquery lquery, c_ltxtquery ltxtquery,
  a_hstore hstore[], a_ltree ltree[], a_citext citext[], a_isbn isbn[], a_ean13 ean13[]);
CREATE TABLE odd_types (id bigint PRIMARY KEY, c_bit bit, c_bit3 bit(3), c_bit20 bit(20), c_varbit varbit, c_varbit1 varbit(1), c_varbit20 varbit(20), c_xml xml, c_tsvector tsvector, c_tsquery tsquery, c_pg_lsn pg_lsn, c_xid xid, c_xid8 xid8, c_cid cid, c_tid tid, c_regclass regclass, c_regtype regtype, c_regproc regproc, c_regprocedure regprocedure, c_regoper regoper, c_regoperator regoperator, c_regrole regrole, c_regnamespace regnamespace, c_regconfig regconfig, c_regdictionary regdictionary, c_regcollation regcollation, c_txid_snapshot txid_snapshot, c_pg_snapshot pg_snapshot, c_jsonpath jsonpath, c_refcursor refcursor, c_aclitem aclitem, c_char "char",
  c_i4m int4multirange, c_i8m int8multirange, c_nm nummultirange, c_tsm tsmultirange, c_tstzm tstzmultirange, c_dm datemultirange, c_fr floatrange, c_fmr floatmultirange, c_pair pair, c_mood mood, c_interval_y interval year, c_interval_ds interval day to second(2));
CREATE TABLE odd_arrays (id bigint PRIMARY KEY, a_bit bit[], a_bit3 bit(3)[], a_varbit varbit[], a_varbit5 varbit(5)[], a_xml xml[], a_tsvector tsvector[], a_tsquery tsquery[], a_pg_lsn pg_lsn[], a_xid xid[], a_regclass regclass[], a_name name[], a_char "char"[], a_money money[], a_point point[], a_box box[], a_circle circle[], a_path path[], a_line line[], a_interval interval[], a_i4m int4multirange[], a_fr floatrange[], a_pair pair[], a_cidr cidr[], a_inet inet[], a_macaddr macaddr[], a_macaddr8 macaddr8[], a_numrange numrange[], a_i8range int8range[], a_tsrange tsrange[], a_tstzrange tstzrange[], a_daterange daterange[], a_refcursor refcursor[], a_jsonpath jsonpath[], a_regtype regtype[], a_txid txid_snapshot[]);
CREATE TABLE domains (id bigint PRIMARY KEY, c_int d_int, c_int_nn d_int_nn, c_num d_num, c_numv d_numv, c_vc d_vc, c_text d_text, c_ts3 d_ts3, c_tstz d_tstz, c_date d_date, c_bool d_bool, c_intarr d_intarr, c_numarr d_numarr, c_textarr d_textarr, c_mood d_mood, c_moodarr d_moodarr, c_bit d_bit, c_bit1 d_bit1, c_bytea d_bytea, c_jsonb d_jsonb, c_uuid d_uuid, c_hstore d_hstore, c_point d_point, c_money d_money, c_interval d_interval, c_citext d_citext, c_time d_time, c_timetz d_timetz, c_oid d_oid, c_pair d_pair, c_dd d_dd, c_ddarr d_ddarr, c_inet d_inet, c_xml d_xml, c_range d_range, c_ltree d_ltree, c_varbit d_varbit,
  a_int d_int[], a_num d_num[], a_vc d_vc[], a_mood d_mood[], a_ts3 d_ts3[], a_bool d_bool[]);
CREATE TABLE dimensions (id bigint PRIMARY KEY, a_int integer[], a_num numeric(10,2)[], a_ts timestamp[], a_tstz timestamptz[], a_bool boolean[], a_bytea bytea[], a_f8 float8[], a_date date[], a_timetz timetz[], a_time time[]);
CREATE TABLE odd_defaults (id bigint PRIMARY KEY, d_money money DEFAULT 1.5, d_point point DEFAULT '(1,2)', d_box box DEFAULT '(1,2),(3,4)', d_hstore hstore DEFAULT 'a=>1', d_ltree ltree DEFAULT 'a.b', d_citext citext DEFAULT 'Ab', d_isbn isbn DEFAULT '0-306-40615-2', d_bit bit DEFAULT B'1', d_bit3 bit(3) DEFAULT B'101', d_varbit varbit(5) DEFAULT B'1101', d_varbit1 varbit(1) DEFAULT B'1', d_xml xml DEFAULT '<a/>', d_tsv tsvector DEFAULT 'a b', d_oid oid DEFAULT 5, d_inet inet DEFAULT '10.0.0.1', d_range int4range DEFAULT '[1,3)', d_pg_lsn pg_lsn DEFAULT '0/1', d_intarr int[] DEFAULT '{1,2}', d_numdom d_num DEFAULT 1.5, d_intdom d_int DEFAULT 3, d_textdom d_text DEFAULT 'x', d_mooddom d_mood DEFAULT 'ok', d_timetz timetz DEFAULT '12:34:56+02', d_interval interval DEFAULT '1 year 2 mons 3 days 04:05:06.789', d_interval_epoch interval NOT NULL DEFAULT justify_days('1 day'), d_pair pair DEFAULT '(1,a)', d_moodarr mood[] DEFAULT '{ok}', d_mood mood DEFAULT 'ok'::mood, d_bitfn bit(3) DEFAULT int4(5)::bit(3), d_ts timestamp DEFAULT 'infinity', d_tstz timestamptz DEFAULT 'infinity', d_date date DEFAULT 'infinity', d_num numeric DEFAULT 'NaN', d_circle circle DEFAULT '<(1,2),3>');
CREATE FUNCTION mk(t text) RETURNS void LANGUAGE plpgsql AS $f$ BEGIN   EXECUTE format('CREATE TYPE %I', t); EXECUTE format('CREATE FUNCTION %I(cstring) RETURNS %I LANGUAGE internal IMMUTABLE STRICT AS ''textin''', t||'_in', t);   EXECUTE format('CREATE FUNCTION %I(%I) RETURNS cstring LANGUAGE internal IMMUTABLE STRICT AS ''textout''', t||'_out', t);   EXECUTE format('CREATE TYPE %I (INPUT = %I, OUTPUT = %I, LIKE = text)', t, t||'_in', t||'_out'); END $f$;
SELECT mk(t) FROM unnest(ARRAY['geometry','geography','vector','halfvec','sparsevec']) t;
CREATE TABLE spatial_and_vectors (id bigint PRIMARY KEY, g geometry, gg geography, v vector, h halfvec, s sparsevec, ag geometry[], agg geography[], av vector[]);
CREATE TABLE spatial_not_null (id bigint PRIMARY KEY, g geometry NOT NULL, gg geography NOT NULL, v vector NOT NULL, h halfvec NOT NULL);
CREATE TABLE times (id bigint PRIMARY KEY, d date, t0 time(0), t3 time(3), t time, tz timetz, tz2 timetz(2), ts0 timestamp(0), ts3 timestamp(3), ts timestamp, tstz3 timestamptz(3), tstz timestamptz, i interval, iy interval year, ids interval day to second(2), ad date[], at time[], at3 time(3)[], atz timetz[], ats timestamp[], ats3 timestamp(3)[], atstz timestamptz[]);
CREATE TABLE times_not_null (id bigint PRIMARY KEY, d date NOT NULL, t time NOT NULL, tz timetz NOT NULL, ts timestamp NOT NULL, ts3 timestamp(3) NOT NULL, tstz timestamptz NOT NULL, i interval NOT NULL);
CREATE TABLE times_default (id bigint PRIMARY KEY, d date DEFAULT '2020-02-29', t time DEFAULT '12:34:56.789', t3 time(3) DEFAULT '12:34:56.789', tz timetz DEFAULT '12:34:56+02', ts timestamp DEFAULT '2020-02-29 12:34:56.123456', ts3 timestamp(3) DEFAULT '2020-02-29 12:34:56.123', tstz timestamptz DEFAULT '2020-02-29 12:34:56.123456+02', i interval DEFAULT '1 year 2 mons 3 days 04:05:06.789', d_i date DEFAULT 'infinity', ts_i timestamp DEFAULT 'infinity', ts3_i timestamp(3) DEFAULT 'infinity', d_n date DEFAULT '-infinity', ts_n timestamp DEFAULT '-infinity', ts3_n timestamp(3) DEFAULT '-infinity', tstz_n timestamptz DEFAULT '-infinity', d_bc date DEFAULT '0044-03-15 BC', ts_bc timestamp DEFAULT '0044-03-15 12:00:00 BC', d_fn date DEFAULT now(), ts_fn timestamp DEFAULT now(), tstz_fn timestamptz DEFAULT now(), t_fn time DEFAULT localtime, i_fn interval DEFAULT age(now()), t24 time DEFAULT '24:00:00');
CREATE TABLE numbers (id bigint PRIMARY KEY, c_numeric numeric, c_numeric_5_2 numeric(5,2), a_numeric numeric[], a_date date[]);
-- What stands for unchanged values of these types.
CREATE TABLE more_toasted (id integer PRIMARY KEY, n integer, t_hstore hstore, t_citext citext, t_ltree ltree, t_xml xml, t_tsvector tsvector, t_varbit varbit,
    t_dom_text d_text, t_dom_hstore d_hstore, t_dom_int d_intarr, t_dom_texts d_textarr, a_hstore hstore[], a_citext citext[], a_mood mood[], a_tsvector tsvector[], t_path path, t_json json);
ALTER TABLE more_toasted ALTER t_hstore SET STORAGE EXTERNAL, ALTER t_citext SET STORAGE EXTERNAL, ALTER t_ltree SET STORAGE EXTERNAL, ALTER t_xml SET STORAGE EXTERNAL, ALTER t_tsvector SET STORAGE EXTERNAL,
    ALTER t_varbit SET STORAGE EXTERNAL, ALTER t_dom_text SET STORAGE EXTERNAL, ALTER t_dom_hstore SET STORAGE EXTERNAL, ALTER t_dom_int SET STORAGE EXTERNAL, ALTER t_dom_texts SET STORAGE EXTERNAL,
    ALTER a_hstore SET STORAGE EXTERNAL, ALTER a_citext SET STORAGE EXTERNAL, ALTER a_mood SET STORAGE EXTERNAL, ALTER a_tsvector SET STORAGE EXTERNAL, ALTER t_path SET STORAGE EXTERNAL;
