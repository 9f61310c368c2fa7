-- Times are Unix milliseconds. Cursors are integers here, and text in code.

-- One row for each thing that happened. `seq` is the order of arrival. No `seq` is given twice.
create table events (
  seq integer primary key autoincrement,
  cursor integer,
  id text,
  type text not null,
  session text,
  created_at integer,
  received_at integer not null,
  -- 1 webhook, 2 replay, 4 stream, 8 kit. `origin`: the first one. `origins`: the sum of all
  origin integer not null,
  origins integer not null,
  deliveries integer not null default 1,
  -- null: the event was erased
  body blob
) strict;
create unique index events_by_cursor on events (cursor) where cursor is not null;
create unique index events_by_id on events (id) where id is not null;
create index events_without_cursor on events (seq) where cursor is null;

-- Authentic bytes that are unreadable, or contradict a stored event. The same bytes with the same reason share a row.
create table quarantine (
  id integer primary key autoincrement,
  reason text not null,
  digest blob not null,
  received_at integer not null,
  origin integer not null,
  cursor integer,
  -- `seq` of the event that the bytes contradict
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
  -- the `seq` of the last event that the handler has taken up
  position integer not null,
  paused integer not null default 0 check (paused in (0, 1)),
  waiting integer not null default 0,
  done integer not null default 0,
  skipped integer not null default 0,
  dead integer not null default 0,
  -- attempts that failed
  failed integer not null default 0
) strict;

-- Reruns: ended tasks are put back into their lanes, page by page.
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

-- Tasks of one handler that run one after another, in cursor order. A claimed lane has a `boot`: its tasks up to
-- `claimed_to` run. A free lane with waiting tasks has the `due_at` of its head. An empty lane has neither.
-- `id`: 52 bits of a keyed hash of handler and name, because names hold phone numbers. Negative: a lane made for one task.
create table lanes (
  id integer primary key,
  handler integer not null,
  due_at integer,
  -- 1: the head was running when its process died
  suspect integer default 0,
  boot integer,
  claim integer,
  claimed_to integer,
  -- how far the lane has come: a task with a lower cursor that comes into it later is late
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
  -- when it failed first
  failed_at integer,
  attempts integer not null default 0,
  -- the sum of the weights of its process's deaths. At 12 the task is dead
  crashes integer not null default 0,
  -- `late`: it has given up its lane. `rerun`: a person had it run again, or had it made by a rerun
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

-- Attempts that failed.
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

-- One row per minute, for a week.
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

-- The processes that run handlers: one row per role of an instance. `handlers`: JSON, the ids of the loaded ones.
create table boots (
  id integer primary key autoincrement,
  instance text not null,
  role text not null,
  handlers text not null default '[]',
  -- on PostgreSQL, its last sign of life
  seen_at integer not null default 0,
  unique (instance, role)
) strict;

-- Integers: counters, and `first`, the event after which the first handlers begin. JSON: the watermark, the floor, reports,
-- and `lane_key`, which hides the names of lanes.
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
