-- What differs from ../sqlite/schema.sql, which says what each column is.

-- By the server's clock, because those of the instances differ.
create function now_ms() returns bigint language sql volatile
  return cast(extract(epoch from clock_timestamp()) * 1000 as bigint);
alter table boots alter seen_at set default now_ms();

insert into state values ('lane_key', to_json(gen_random_uuid())), ('first', '0'), ('schema', '1');

-- So that the same SQL runs on both.
create function instr(whole text, part text) returns int language sql immutable return strpos(whole, part);
create function instr(whole bytea, part bytea) returns int language sql immutable return position(part in whole);
create function json_each(list text) returns table (value text) language sql immutable
  begin atomic select json_array_elements_text(cast(list as json)); end;
create function strftime(format text, seconds bigint, kind text) returns text language sql immutable
  return to_char(to_timestamp(seconds) at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"');
