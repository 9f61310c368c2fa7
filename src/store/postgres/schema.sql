-- What differs from ../sqlite/schema.sql, which says what each column is.

alter table boots drop constraint boots_role_key;
-- The kit that the process belongs to, and the handlers that it has loaded: JSON, number and fault.
alter table boots add column instance text not null, add column handlers text not null default '[]',
  add unique (instance, role);

insert into state values ('lane_key', to_json(gen_random_uuid())), ('first', '0'), ('schema', '1');

-- So that the same SQL runs on both.
create function instr(whole text, part text) returns int language sql immutable return strpos(whole, part);
create function instr(whole bytea, part bytea) returns int language sql immutable return position(part in whole);
create function strftime(format text, seconds bigint, kind text) returns text language sql immutable
  return to_char(to_timestamp(seconds) at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"');
create function max(a bigint, b bigint) returns bigint language sql immutable return greatest(a, b);
create function min(a bigint, b bigint) returns bigint language sql immutable return least(a, b);
