-- The bike store's tables on MariaDB and MySQL: schema.sql in their words. The names carry no database, and the connection's is used.
--
-- What differs, and what that means:
--   text                    varchar where it is short, as a key needs a length
--   boolean                 bit(1), which change events tell as a boolean; theirs is a tinyint, told as a number
--   timestamptz             timestamp(6): kept in UTC, told with a zone; ends in 2038
--   timestamp               datetime(6), in the zone of the session that writes the default
--   double precision, uuid  double, uuid; MySQL has none, and gets char(36)
--   types of enums          enum columns
--   jsonb                   json: on MariaDB the text as it was written, where jsonb and MySQL keep the content
--   identity                auto_increment: the next number above any that was given, where an identity may collide
--   references              constraints behind the tables; InnoDB makes the indexes for them
-- numeric, date, char, bigint and integer are the same. There are no arrays.

create table customers (
    id          bigint not null auto_increment primary key,
    email       varchar(255) not null unique,
    first_name  varchar(255) not null,
    last_name   varchar(255) not null,
    phone       varchar(255),
    city        varchar(255),
    newsletter  bit(1) not null default b'0',
    created_at  timestamp(6) not null default current_timestamp(6)
) engine = innodb default character set utf8mb4;

create table products (
    id          bigint not null auto_increment primary key,
    sku         uuid not null,
    name        varchar(255) not null,
    category    enum ('bike', 'part', 'clothing', 'accessory') not null,
    price       numeric(10, 2) not null,
    weight_kg   double,
    attributes  json,
    active      bit(1) not null default b'1',
    created_at  timestamp(6) not null default current_timestamp(6)
) engine = innodb default character set utf8mb4;

create table orders (
    id          bigint not null auto_increment primary key,
    customer_id bigint not null,
    status      enum ('placed', 'paid', 'shipped', 'cancelled') not null default 'placed',
    currency    char(3) not null default 'EUR',
    note        text,
    ordered_at  timestamp(6) not null default current_timestamp(6),
    required_on date,
    updated_at  datetime(6) not null default current_timestamp(6)
) engine = innodb default character set utf8mb4;

create table order_items (
    order_id    bigint not null,
    line_no     integer not null,
    product_id  bigint not null,
    quantity    integer not null,
    unit_price  numeric(10, 2) not null,
    discount    numeric(4, 2) not null default 0,   -- a fraction: 0.05 is five per cent
    primary key (order_id, line_no)
) engine = innodb default character set utf8mb4;

create table payments (
    id          bigint not null auto_increment primary key,
    order_id    bigint not null,
    amount      numeric(10, 2) not null,
    method      varchar(255) not null,
    paid_at     timestamp(6) not null default current_timestamp(6)
) engine = innodb default character set utf8mb4;

create table shipments (
    id            bigint not null auto_increment primary key,
    order_id      bigint not null,
    carrier       varchar(255) not null,
    tracking_code uuid not null,
    shipped_at    timestamp(6) not null default current_timestamp(6),
    delivered     bit(1) not null default b'0'
) engine = innodb default character set utf8mb4;

alter table orders      add foreign key (customer_id) references customers (id);
alter table order_items add foreign key (order_id)    references orders (id),
                        add foreign key (product_id)  references products (id);
alter table payments    add foreign key (order_id)    references orders (id);
alter table shipments   add foreign key (order_id)    references orders (id);
