-- Tables that a generator of code can stumble over: names, keys, types, cycles.
create type mood as enum ('so "so"', 'it''s');
create domain price as numeric(8, 3);
create schema other;

create table categories (
    id integer primary key, parent_id integer references categories, "class" text not null, "with space" text,
    "date" date not null, "_hidden" integer, "2nd" integer
);
create table people (
    id uuid primary key, born date, woken timestamp, woken_ms timestamp(3), seen timestamptz not null, alarm time,
    alarm_ms time(0), zoned timetz, waits interval, mood mood not null, moods mood[], price price, plain numeric,
    ratio double precision, flag boolean, bits bit(4), bit1 bit, raw bytea, doc jsonb, tags text[], days date[],
    amounts numeric(6, 2)[], spot point, span int4range, address inet, codes integer[],
    twice integer generated always as (2 * 2) stored
);
create table parcels (
    country char(2), number bigint, sender uuid not null references people, receiver uuid references people,
    category_id integer references categories, primary key (country, number)
);
-- A child by its key, in which the other's columns come in another order than in the constraint.
create table parcel_items (
    country char(2), parcel bigint, no smallint, price numeric(10, 2) not null, import text, category_id integer not null,
    primary key (country, parcel, no), foreign key (parcel, country) references parcels (number, country),
    foreign key (category_id) references categories
);
-- A child because it is deleted with its parcel; named like a field that is there already.
create table parcel_category (id bigint primary key, country char(2) not null, parcel bigint not null,
    foreign key (country, parcel) references parcels on delete cascade, "table" text, self text);
-- Its parent is a child itself.
create table parcel_item_scans (id bigint primary key, country char(2) not null, parcel bigint not null,
    no smallint not null, at timestamptz not null, foreign key (country, parcel, no) references parcel_items on delete cascade);
create table rows (at timestamptz, weight numeric(12, 4), primary key (at, weight));
create table keyless (note text);
create table tree_boxes (path text primary key);
