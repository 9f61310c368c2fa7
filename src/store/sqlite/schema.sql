-- Times are Unix milliseconds. Cursors are integers here, and text in code.

-- One row for each thing that happened. `seq` is the order of arrival, and never given twice.
create table events (
  seq integer primary key autoincrement,
  cursor integer,
  id text,
  type text not null,
  session text,
  created_at integer,
  received_at integer not null,
  -- 1 webhook, 2 replay, 4 stream, 8 kit: the first one, and all of them
  origin integer not null,
  origins integer not null,
  deliveries integer not null default 1,
  -- null: erased
  body blob
) strict;
create unique index events_by_cursor on events (cursor) where cursor is not null;
create unique index events_by_id on events (id) where id is not null;
create index events_without_cursor on events (seq) where cursor is null;

-- Authentic bytes that are no new, readable event. One row for the same reason and bytes.
create table quarantine (
  id integer primary key autoincrement,
  reason text not null,
  digest blob not null,
  received_at integer not null,
  origin integer not null,
  cursor integer,
  -- the event that it contradicts
  event integer,
  copies integer not null default 1,
  body blob,
  unique (reason, digest)
) strict;

create table handlers (
  id integer primary key check (id between 1 and 4095),
  name text not null unique,
  file text not null,
  state text not null check (state in ('loaded', 'broken', 'missing')),
  fault text,
  -- the `seq` of the last event that it has taken up
  position integer not null,
  paused integer not null default 0 check (paused in (0, 1)),
  waiting integer not null default 0,
  done integer not null default 0,
  skipped integer not null default 0,
  dead integer not null default 0,
  -- attempts that failed
  failed integer not null default 0
) strict;

-- Ended tasks go back to their lanes, page by page.
create table reruns (
  id integer primary key autoincrement,
  handler integer not null,
  only text not null check (only in ('all', 'dead')),
  -- JSON: type, session, error
  filter text not null default '{}',
  after_cursor integer not null,
  after_seq integer not null default 0,
  until_cursor integer not null,
  until_seq integer not null,
  per_minute integer,
  next_at integer not null,
  asked_at integer not null,
  tasks integer not null default 0,
  ended_at integer
) strict;

-- Tasks that run one after another, in cursor order. Free with work: `due_at` is that of its head, the lowest waiting
-- cursor. Claimed: `boot` is set, and tasks up to `claimed_to` run. Empty: neither.
-- `id`: 52 bits of a keyed hash of handler and name, because names hold phone numbers; negative: the lane of one task.
create table lanes (
  id integer primary key,
  handler integer not null,
  due_at integer,
  -- 1: the head was running when its process died
  suspect integer default 0,
  boot integer,
  claim integer,
  claimed_to integer,
  -- the highest cursor that has ended
  done_cursor integer not null default -1
) strict;
create index lanes_due on lanes (handler, suspect, due_at) where due_at is not null;
create index lanes_claimed on lanes (boot) where boot is not null;

-- One handler's work on one event. `state`: 0 waiting (or running, in a claimed lane), 1 done, 2 skipped, 3 dead.
-- `cursor` is -1 if the event has none. `due_at` 9e15: a strict task that waits for the watermark.
create table tasks (
  event integer not null,
  handler integer not null,
  lane integer not null,
  cursor integer not null,
  state integer not null default 0 check (state between 0 and 3),
  due_at integer not null,
  -- the first failure
  failed_at integer,
  attempts integer not null default 0,
  -- weights of deaths: at 12 it is dead
  crashes integer not null default 0,
  -- it stepped aside from its lane; it has ended before, and was asked for again
  late integer not null default 0,
  rerun integer not null default 0,
  error text,
  notes text,
  ended_at integer,
  primary key (event, handler)
) strict, without rowid;
create index tasks_in_lane on tasks (lane, cursor) where state = 0;
create index tasks_held on tasks (handler, cursor) where state = 0 and due_at = 9000000000000000;
create index tasks_failing on tasks (handler, failed_at) where state = 0 and failed_at is not null;
create index tasks_dead on tasks (handler, cursor) where state = 3;

-- Those that failed.
create table attempts (
  event integer not null,
  handler integer not null,
  n integer not null,
  at integer not null,
  error text,
  primary key (event, handler, n)
) strict, without rowid;

create table setup_steps (
  handler text not null,
  step integer not null,
  digest text not null,
  at integer not null,
  primary key (handler, step)
) strict, without rowid;

-- History that the service can no longer show: after the cursor `after`, up to `up_to` (null: unknown yet).
create table gaps (
  id integer primary key autoincrement,
  after integer not null,
  up_to integer,
  reason text not null,
  opened_at integer not null,
  closed_at integer
) strict;

create table alarms (
  name text not null,
  -- the handler, or empty
  about text not null,
  level text not null check (level in ('warning', 'critical')),
  text text not null,
  raised_at integer not null,
  posted_at integer,
  primary key (name, about)
) strict, without rowid;

-- One row a minute, for a week.
create table samples (
  at integer primary key,
  events integer not null,
  duplicates integer not null,
  refused integer not null,
  done integer not null,
  failed integer not null,
  waiting integer not null,
  dead integer not null
) strict;

-- The processes that run handlers: one living row a role.
create table boots (
  id integer primary key autoincrement,
  role text not null unique,
  seen_at integer not null
) strict;

-- Counters and where the first handlers begin as integers; watermark, floor, reports and the key that hides lanes' names as
-- JSON.
create table state (
  name text primary key,
  value any
) strict, without rowid;
insert into state values ('lane_key', '"' || hex(randomblob(16)) || '"'), ('first', 0);

create view recent_events as
  select seq, cast(cursor as text) as cursor, id, type, session, strftime('%FT%TZ', received_at / 1000, 'unixepoch') as received,
    deliveries from events order by seq desc;
create view waiting_tasks as
  select h.name as handler, t.event, cast(t.cursor as text) as cursor, t.attempts,
    case when t.due_at < 9000000000000000 then strftime('%FT%TZ', t.due_at / 1000, 'unixepoch') end as due, t.error
  from tasks t join handlers h on h.id = t.handler where t.state = 0;
create view dead_letters as
  select h.name as handler, t.event, cast(t.cursor as text) as cursor, t.attempts,
    strftime('%FT%TZ', t.ended_at / 1000, 'unixepoch') as ended, t.error
  from tasks t join handlers h on h.id = t.handler where t.state = 3;
