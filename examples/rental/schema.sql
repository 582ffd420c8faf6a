-- A library that lends things: cameras, tents, drills. Nobody's demo: what real schemas are made of.
create schema rental;
set search_path to rental;

create type condition as enum ('new', 'good', 'worn', 'broken');
create type channel as enum ('counter', 'web', 'partner');
create domain email as text check (value like '%@%');
create domain cents as bigint check (value >= 0);

-- A tree of its own table.
create table categories (
    id integer generated always as identity primary key,
    parent_id integer references categories,
    name text not null
);

create table members (
    id uuid primary key default gen_random_uuid(),
    email email not null unique,
    name text not null,
    phones text[] not null default '{}',
    joined_on date not null default current_date,
    -- A member who has gone stays as a row.
    deleted_at timestamptz
);

create table items (
    id bigint generated always as identity primary key,
    category_id integer not null references categories,
    title text not null,
    tags text[] not null default '{}',
    condition condition not null default 'new',
    conditions_seen condition[] not null default '{}',
    contacts email[],
    daily_cents cents not null,
    deposit numeric(10, 2) not null default 0,
    attributes jsonb not null default '{}',
    search tsvector generated always as (to_tsvector('simple', title)) stored,
    weekly_cents bigint generated always as (daily_cents * 6) stored,
    deleted_at timestamptz
);

-- Partitioned by the day it begins; the foreign keys stand on the partitions only.
create table loans (
    id bigint not null,
    begun_on date not null,
    member_id uuid not null,
    channel channel not null,
    due_on date not null,
    returned_at timestamptz,
    total_cents cents not null,
    note varchar(200),
    primary key (begun_on, id)
) partition by range (begun_on);
create table loans_2025 partition of loans for values from ('2025-01-01') to ('2026-01-01');
create table loans_2026 partition of loans for values from ('2026-01-01') to ('2027-01-01');
create table loans_later partition of loans for values from ('2027-01-01') to (maxvalue);
alter table loans_2025 add foreign key (member_id) references members;
alter table loans_2026 add foreign key (member_id) references members;
alter table loans_later add foreign key (member_id) references members;

create table loan_items (
    begun_on date not null,
    loan_id bigint not null,
    item_id bigint not null references items,
    price_cents cents not null,
    primary key (begun_on, loan_id, item_id),
    foreign key (begun_on, loan_id) references loans (begun_on, id)
);

create table payments (
    id bigint generated always as identity,
    paid_on date not null,
    member_id uuid not null,
    amount_cents cents not null,
    primary key (paid_on, id)
) partition by range (paid_on);
create table payments_2025 partition of payments for values from ('2025-01-01') to ('2026-01-01');
create table payments_2026 partition of payments for values from ('2026-01-01') to ('2027-01-01');
-- The older partition was made before the rule.
alter table payments_2026 add foreign key (member_id) references members;

-- No key: its updates would be refused as soon as it is published.
create table visits (at timestamptz not null default now(), gate smallint not null);
-- No key either, but a replica identity.
create table corrections (made_at timestamptz not null, what text not null);
alter table corrections replica identity full;
