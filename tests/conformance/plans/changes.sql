-- The changes to the tables of types.sql; one statement is one transaction unless BEGIN says otherwise.
INSERT INTO every_type (id) VALUES (1);
INSERT INTO every_type VALUES (2, 1, 2, 3, 1.5, 2.5, 12.50, 12.34, 12345, 123456, 1.5, 'text', 'varchar', 'varchar20', 'c', 'ab', NULL, 'x', true,
    '2026-11-20', '12:34:56.123456', '12:34:56', '12:34:56.789', '12:34:56.123456+02', '12:34:56.12-05:30',
    '2026-11-20 12:34:56.123456', '2026-11-20 12:34:56', '2026-11-20 12:34:56.789', '2026-11-20 12:34:56.1',
    '2026-11-20 12:34:56.123456+00', '2026-11-20 12:34:56+02', '2026-11-20 12:34:56.78+00', '2026-11-20 12:34:56.5-08',
    '1 year 2 mons 3 days 04:05:06.789', '76019d1a-ad2e-4b22-96e9-1a6d6543c818', '{"b" :  1, "a": [1, 2]}', '{"b" :  1, "a": [1, 2]}', '\x00ff10', 'ok',
    4294967295, 9.99, 'domain', '10.0.0.1/8', '10.0.0.0/8', '08:00:2b:01:02:03', '08:00:2b:01:02:03:04:05', '[1,5)', '[1,)', '(1.5,2.5]', '[2026-01-01 00:00,2026-02-01 00:00)', '[2026-01-01 00:00+00,2026-02-01 00:00+00)', '[2026-01-01,2026-02-01)', '<a>b</a>');
INSERT INTO every_type (id, c_int2, c_int4, c_int8, c_float4, c_float8, c_numeric, c_numeric_10_2, c_numeric_5_0, c_numeric_38_10)
    VALUES (3, -32768, -2147483648, -9223372036854775808, -3.4028235e38, 1.7976931348623157e308, -0.000000000000000000012345, -99999999.99, -99999, -9999999999999999999999999999.9999999999);
INSERT INTO every_type (id, c_int2, c_int4, c_int8, c_float4, c_float8, c_numeric, c_numeric_10_2, c_numeric_5_0)
    VALUES (4, 32767, 2147483647, 9223372036854775807, 1.5e-38, 5e-324, 123456789012345678901234567890.12345678901234567890, 99999999.99, 99999);
INSERT INTO every_type (id, c_float4, c_float8) VALUES (10, 0, 0), (11, '-0', '-0'), (12, 'NaN', 'NaN'), (13, 'Infinity', 'Infinity'), (14, '-Infinity', '-Infinity'),
    (15, 1e7, 1e7), (16, 9999999, 9999999), (17, 0.001, 0.001), (18, 0.00099999, 0.00099999), (19, 1e-5, 1e-5), (20, 125000000, 123456789012345678),
    (21, 1e9, 1e15), (22, 3.3, 0.1), (23, 16777216, 1234567.875), (24, 1e20, 1.5e300), (25, 1.0e-10, 2e-323), (26, 100, 100), (27, 12345678.9, 12345678.9), (28, 2e-45, 4.9e-324), (29, 1.4e-45, 9007199254740993);
INSERT INTO every_type (id, c_numeric, c_numeric_10_2) VALUES (30, 0, 0), (31, 0.00, 0.00), (32, 100, 100), (33, 1000000.000, 1.00), (34, -1, -1), (35, -128, -1.28), (36, -129, -1.29),
    (37, 127, 1.27), (38, 128, 1.28), (39, 255, 2.55), (40, 256, 2.56), (41, -32768, -327.68), (42, 32768, 327.68), (43, 1e-10, 0.01), (44, 1e40, 0.10), (45, 1.10, 1.10);
INSERT INTO every_type (id, c_text, c_varchar, c_char, c_char_3) VALUES (50, '', '', '', ''), (51, 'quote " backslash \ slash /', 'é ü ß', 'é', 'a'),
    (52, E'tab\tnewline\nreturn\rbell\x07back\bfeed\fescape\x1bdel\x7f', E'\u2028\u2029\ufeff', E'\n', ' a '), (53, '😀 emoji 𝄞 clef', '日本語', '語', '日本'),
    (54, '<script>&amp;''</script>', E'\u0080\u009f', '"', '\'), (55, 'null', 'true', '1', '   '), (56, E'\x01\x1f', E'\uE000\uFFFD', ' ', 'abc');
INSERT INTO every_type (id, c_date, c_timestamp, c_timestamptz, c_timestamp_3, c_timestamptz_3, c_timestamptz_6) VALUES
    (60, '1970-01-01', '1970-01-01 00:00:00', '1970-01-01 00:00:00+00', '1970-01-01 00:00:00', '1970-01-01 00:00:00+00', '1970-01-01 00:00:00+00'),
    (61, '1969-12-31', '1969-12-31 23:59:59.999999', '1969-12-31 23:59:59.999999+00', '1969-12-31 23:59:59.999', '1969-12-31 23:59:59.999+00', '1969-12-31 23:59:59.999+00'),
    (62, '0001-01-01', '0001-01-01 00:00:00', '0001-01-01 00:00:00+00', '0001-01-01 00:00:00', '0001-01-01 00:00:00+00', '0001-01-01 00:00:00+00'),
    (63, '9999-12-31', '9999-12-31 23:59:59.999999', '9999-12-31 23:59:59.999999+00', '9999-12-31 23:59:59.999', '9999-12-31 23:59:59.999+00', '9999-12-31 23:59:59.999+00'),
    (64, '10000-01-01', '10000-01-01 00:00:00.5', '10000-01-01 00:00:00.5+00', '12345-06-07 08:09:10', '12345-06-07 08:09:10+00', '12345-06-07 08:09:10+00'),
    (65, '0044-03-15 BC', '0044-03-15 12:00:00 BC', '0044-03-15 12:00:00+00 BC', '0044-03-15 12:00:00 BC', '0044-03-15 12:00:00+00 BC', '0044-03-15 12:00:00+00 BC'),
    (66, '1582-10-15', '1582-10-04 00:00:00', '1582-10-04 00:00:00+00', '1500-02-28 01:02:03.004', '1500-02-28 01:02:03.004+00', '1500-02-28 01:02:03.004+00'),
    (67, '2000-02-29', '2000-02-29 00:00:00.1', '2000-02-29 00:00:00.1+00', '2000-02-29 00:00:00.12', '2000-02-29 00:00:00.12+00', '2000-02-29 00:00:00.12+00'),
    (68, '2026-01-01', '2026-01-01 12:00:00', '2026-01-01 12:00:00+00', '2026-01-01 12:00:00', '2026-01-01 12:00:00+00', '2026-01-01 12:00:00+00');
INSERT INTO every_type (id, c_timestamp, c_timestamptz) VALUES (70, 'infinity', 'infinity'), (71, '-infinity', '-infinity');
INSERT INTO every_type (id, c_timestamp_3, c_timestamptz_3, c_timestamptz_0, c_date) VALUES (72, 'infinity', 'infinity', '2026-01-01 00:00:00.6+00', 'infinity'), (73, '-infinity', '-infinity', '-infinity', '-infinity');
INSERT INTO every_type (id, c_timestamp, c_timestamptz, c_date) VALUES (74, '294276-12-31 23:59:59.999999', '294276-12-31 23:59:59.999999+00', '5874897-12-31'), (75, '4713-01-01 00:00:00 BC', '4713-01-01 00:00:00+00 BC', '4713-01-01 BC'), (76, '0001-12-31 23:59:59 BC', '0001-12-31 23:59:59.5+00 BC', '0001-12-31 BC'), (77, '1900-01-01 00:00:00', '1890-01-01 00:00:00+00', '1800-01-01');
INSERT INTO every_type (id, c_time, c_time_0, c_time_3, c_timetz) VALUES (80, '00:00:00', '00:00:00', '00:00:00', '00:00:00+00'), (81, '23:59:59.999999', '23:59:59', '23:59:59.999', '23:59:59.999999+00'),
    (82, '24:00:00', '24:00:00', '24:00:00', '24:00:00+00'), (83, '12:00:00.5', '12:00:00.5', '12:00:00.5', '00:30:00+02'), (84, '01:02:03.000001', '01:02:03', '01:02:03.001', '23:30:00-05:45'), (85, '10:20:30', '10:20:30', '10:20:30', '10:20:30+00');
INSERT INTO every_type (id, c_interval) VALUES (90, '0'), (91, '1 mon'), (92, '-1 year -2 mons -3 days -04:05:06.789012'), (93, '1 day -00:00:01'), (94, '00:00:00.000001'), (95, '100 years'), (96, '-00:00:00.5'), (97, '36 hours'), (98, '7 mons 11 days');
INSERT INTO every_type (id, c_bytea, c_json, c_jsonb) VALUES (100, '', 'null', 'null'), (101, '\xfbff', '"x"', '"x"'), (102, '\xdeadbeef00', '[1,  2 ]', '{"a":{"b":"\u00e9\n"}}');
INSERT INTO every_type (id, c_bool, c_mood, c_oid) VALUES (110, false, 'it''s "complicated"', 0), (111, true, 'sad', 2147483648);
INSERT INTO every_array (id) VALUES (1);
INSERT INTO every_array VALUES (2, '{1,2,NULL}', '{1,-2147483648,2147483647}', '{9223372036854775807,NULL}', '{1.5,NULL,3.3}', '{1e10,0.1,NaN}', '{1.50,100,NULL}', '{1.5,NULL,-2.25}',
    '{a,"b c",NULL,"NULL","q\"uote","back\\slash","","{}","x,y"}', '{é,"😀"}', '{v}', '{a,b}', '{ab,"c  "}', '{t,f,NULL}', '{2026-11-20,NULL,1969-12-31}', '{12:34:56.123456,NULL,24:00:00}', '{12:34:56.789}', '{12:34:56+02,NULL}',
    '{"2026-11-20 12:34:56.123456",NULL}', '{"2026-11-20 12:34:56.789"}', '{"2026-11-20 12:34:56.123456+00",NULL}', '{"2026-11-20 12:34:56.78+00"}',
    '{76019d1a-ad2e-4b22-96e9-1a6d6543c818,NULL}', ARRAY['{"a" : 1}', NULL, '"x"']::json[], ARRAY['{"a" : 1}', NULL]::jsonb[], ARRAY['\x00ff'::bytea, NULL, ''::bytea], ARRAY['ok', NULL, 'it''s "complicated"']::mood[], '{1,4294967295,NULL}', '{10.0.0.1,NULL}', '{"[1,5)",NULL}');
INSERT INTO every_array (id, a_int4, a_text, a_numeric, a_mood, a_bytea, a_timestamptz) VALUES (3, '{}', '{}', '{}', '{}', '{}', '{}');
INSERT INTO every_array (id, a_int4, a_text) VALUES (4, '{NULL}', '{NULL}');
INSERT INTO every_array (id, a_float8, a_float4, a_timestamp, a_timestamptz) VALUES (6, '{Infinity,-Infinity,1e-5,1}', '{1e7,Infinity}', '{infinity}', '{infinity,-infinity}');
INSERT INTO every_array (id, a_time, a_time_3, a_timetz, a_timestamp, a_timestamp_3, a_timestamptz, a_timestamptz_3) VALUES (7, '{00:00:00.0004,00:00:00.0005,12:00:00.9995,23:59:59.9999,23:59:59.999499,10:20:30}', '{24:00:00,00:00:00.001}', '{12:34:56.123456+02,23:30:00.5-05:45,24:00:00+00,00:00:00+00,24:00:00+01}',
    '{-infinity,"10000-01-01 00:00:00.5","1969-12-31 23:59:59.999999"}', '{infinity,"2001-03-15 12:00:00"}', '{"10000-01-01 00:00:00.5+00","1969-12-31 23:59:59.999999+00","2026-01-01 00:00:00+00"}', '{-infinity,infinity,"2026-01-01 00:00:00.5+00"}');
INSERT INTO every_array (id, a_date, a_mood, a_oid, a_float8, a_float4, a_bytea, a_char_3) VALUES (8, '{9999-12-31,10000-01-01,0001-01-01}', '{sad,happy}', '{}', '{-0,0,1e300,123456789.123,5e-324}', '{1e-45,3.4028235e38,0.1}', '{"\\\\xdeadbeef"}', '{a,NULL}');
INSERT INTO every_array (id, a_int4, a_text) VALUES (11, '[0:1]={1,2}', '{"a\\\\b","tab	x","nl
y", spaced ,"😀"}');
INSERT INTO every_not_null VALUES (1, 1, 2, 3, 1.5, 2.5, 1.5, 1.5, 't', 'v', 'abc', true, '2026-01-01', '01:02:03', '01:02:03', '01:02:03+00', '2026-01-01 01:02:03', '2026-01-01 01:02:03', '2026-01-01 01:02:03+00', '1 day',
    '76019d1a-ad2e-4b22-96e9-1a6d6543c818', '{}', '{}', '\x01', 'happy', 1, '127.0.0.1', 1, '{1}', '{a}', '{1}', '{ok}', '{"2026-01-01 00:00:00+00"}');
UPDATE every_not_null SET c_int4 = 5 WHERE id = 1;
UPDATE every_not_null SET id = 2 WHERE id = 1;
DELETE FROM every_not_null;
INSERT INTO every_default DEFAULT VALUES;
INSERT INTO every_default (d_int2, d_int8, d_text_quote, d_numeric, d_timestamp, d_mood_null, d_bool_true) VALUES (NULL, NULL, NULL, NULL, NULL, NULL, NULL);
DELETE FROM every_default;
BEGIN;
INSERT INTO composite_key VALUES ('x', 1, 'n'), ('y', 2, NULL);
UPDATE composite_key SET note = 'changed' WHERE a = 1;
UPDATE composite_key SET b = 'z' WHERE a = 2;
DELETE FROM composite_key WHERE a = 1;
COMMIT;
INSERT INTO no_key VALUES (1, 'a'), (1, NULL);
UPDATE no_key SET note = 'b';
DELETE FROM no_key;
INSERT INTO full_identity VALUES (1, 'a', 1.25), (2, NULL, 2);
UPDATE full_identity SET note = 'b' WHERE id = 1;
UPDATE full_identity SET id = 3 WHERE id = 2;
UPDATE full_identity SET note = note WHERE id = 3;
DELETE FROM full_identity;
INSERT INTO index_identity VALUES (1, 'a', 'n');
UPDATE index_identity SET note = 'm';
UPDATE index_identity SET id = 2;
UPDATE index_identity SET code = 'b';
DELETE FROM index_identity;
INSERT INTO typed_key VALUES ('76019d1a-ad2e-4b22-96e9-1a6d6543c818', '2026-01-01', '2026-01-01 00:00:00.5+00', 'ok', 1.5, true, 'n');
UPDATE typed_key SET k_date = '2026-01-02', k_num = 2;
DELETE FROM typed_key;
INSERT INTO toasted SELECT 1, 1, repeat('x', 3000), to_json(repeat('x', 3000)), to_jsonb(repeat('x', 3000)), decode(repeat('ab', 3000), 'hex'), repeat('x', 3000), repeat('9', 9000)::numeric, repeat('x', 3000),
    array_fill('text'::text, ARRAY[1000]), array_fill(1, ARRAY[1000]), array_fill(1::bigint, ARRAY[1000]), array_fill('76019d1a-ad2e-4b22-96e9-1a6d6543c818'::uuid, ARRAY[1000]),
    array_fill('2026-01-01'::date, ARRAY[1000]), array_fill('1'::json, ARRAY[1000]), array_fill('1'::jsonb, ARRAY[1000]), array_fill('\x01'::bytea, ARRAY[1000]), array_fill('v'::varchar, ARRAY[1000]), array_fill(1.5, ARRAY[1000]), array_fill(1.5::float8, ARRAY[1000]);
UPDATE toasted SET n = 2;
UPDATE toasted SET id = 2;
DELETE FROM toasted;
INSERT INTO "Odd-Name 1" VALUES (1, 'ä', 2, 3);
INSERT INTO unknown_types VALUES (1, '(1,2)', 12.34, B'101', 'a b', '{1 day}', '0/1', '{[1,3)}');
TRUNCATE composite_key;
BEGIN;
INSERT INTO composite_key VALUES ('t', 9, 'n');
INSERT INTO no_key VALUES (9, 't');
INSERT INTO full_identity VALUES (9, 't', 1);
INSERT INTO every_array (id) VALUES (9);
INSERT INTO every_type (id) VALUES (9);
INSERT INTO composite_key VALUES ('t', 10, 'n');
COMMIT;
