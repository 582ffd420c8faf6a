"""A table of MySQL's types, and rows for it."""

KINDS = """
CREATE TABLE kinds (
 id INT PRIMARY KEY AUTO_INCREMENT, ti TINYINT, tiu TINYINT UNSIGNED, bo BOOLEAN NOT NULL DEFAULT TRUE, siu SMALLINT UNSIGNED,
 miu MEDIUMINT UNSIGNED, iu INT UNSIGNED, bi BIGINT, biu BIGINT UNSIGNED, f FLOAT, d DOUBLE, de DECIMAL(20,5), dl DECIMAL(65,30),
 b1 BIT(1), b12 BIT(12), y YEAR, da DATE, tm TIME(3), dt DATETIME, dt6 DATETIME(6), ts TIMESTAMP NULL, ts3 TIMESTAMP(3) NULL,
 c CHAR(5) COLLATE utf8mb4_ja_0900_as_cs, vc VARCHAR(20) DEFAULT 'its', la VARCHAR(20) CHARACTER SET latin1, vb VARBINARY(20),
 bn BINARY(4), tx TEXT, bl BLOB, e ENUM('a','ä'), s SET('x','y','z'), js JSON, g GEOMETRY, p POINT SRID 4326, v VECTOR(3),
 hidden INT INVISIBLE, virt INT AS (ti + 1) VIRTUAL, stor INT AS (ti + 2) STORED, ex INT DEFAULT (1 + 2), ej JSON DEFAULT (JSON_ARRAY()),
 at TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP, KEY ((CONCAT(vc, 'x')))
)"""
ROWS = (
    "INSERT INTO kinds (at) VALUES ('2026-01-02 03:04:05')",
    (
        "INSERT INTO kinds (ti, tiu, siu, miu, iu, bi, biu, f, d, de, dl, b1, b12, y, da, tm, dt, dt6, ts, ts3, at) VALUES (-128, 255,"
        " 65535, 16777215, 4294967295, -9223372036854775808, 18446744073709551615, 1.5, -2.25e300, -12345.5, -0.5, b'1', b'101', 2155,"
        " '1000-01-01', '-838:59:58.5', '2026-01-02 03:04:05', '9999-12-31 23:59:59.999999', '2026-01-02 03:04:05',"
        " '2026-01-02 03:04:05.678', '2026-01-02 03:04:05')"
    ),
    (
        "INSERT INTO kinds (c, vc, la, vb, bn, tx, bl, e, s, js, g, p, v, hidden, at) VALUES ('あ', 'ä😀', 'é€', x'00ff', 'ab', 'text',"
        " x'0102', 'ä', 'x,z', '{\"b\": [1, 2.5, 1e30, \"ü\", null], \"a\": {}}', ST_GeomFromText('LINESTRING(0 0,1 1)'),"
        " ST_GeomFromText('POINT(10 20)', 4326), STRING_TO_VECTOR('[1,2.5,-3]'), 7, '2026-01-02 03:04:05')"
    ),
)
