pragma application_id = 1802072179;  -- marks the file as a store of the kit

-- Times are Unix milliseconds. Cursors are 64-bit integers. A released migration is never edited.

-- The store's id is new with each start and each copy, so that no file is taken for another. It has a database page of
-- its own, so that it can be read without the WAL.
create table store (
  id text not null
) strict;
insert into store values (lower(hex(randomblob(16))));

create table events (
  seq         integer primary key,  -- order of arrival; pruning keeps the newest row, so that no number is used twice
  cursor      integer,              -- position in the service's history; null: none
  conflicting integer not null default 0 check (conflicting in (0, 1)),  -- 1: an earlier event has its cursor, so its key is its id
  id          text,                 -- the webhook's id; null while only replay has shown the event
  type        text not null,
  session_id  text,
  created_at  integer,
  received_at integer not null,
  origin      text not null check (origin in ('webhook', 'replay', 'stream', 'kit')),  -- what brought it first; decides the format of `body`
  copies      integer not null default 0,  -- redeliveries
  secret      integer,              -- the secret that signed its first delivery: position in WEBHOOK_SECRET at that time, from 1
  skew_s      integer,              -- age of that signature on receipt, seconds; negative: from the future
  live        integer not null default 0 check (live in (0, 1)),  -- 1: a live stream brought it as it happened
  flags       text not null default '',    -- oddities, comma-separated
  body        blob,                 -- bytes as received; null once purged
  digest      blob,                 -- of the data, written when the body is purged
  check (cursor is not null or id is not null)
) strict;
create index events_by_receipt on events (received_at);
create unique index events_by_cursor on events (cursor) where cursor is not null and conflicting = 0;
create index events_conflicting on events (cursor) where conflicting = 1;
create index events_placeless on events (seq) where cursor is null or conflicting = 1;  -- events without a cursor of their own

-- The index from ids to events, see ids.ts. It may still name a pruned event.
create table latest_ids (
  n     integer primary key,        -- in order of arrival
  id    text not null,
  event integer not null            -- events.seq
) strict;
create table ids (
  segment integer not null,         -- id_segments.segment
  part    integer not null,         -- what was added to the segment at once
  id      text not null,
  event   integer not null,
  primary key (segment, part, id)
) strict, without rowid;
create table id_segments (
  segment  integer primary key,
  ids      integer not null,        -- ids are added to the last segment until it is full
  added_at integer not null         -- when an id was last added
) strict;
create table id_filters (
  first  integer primary key,       -- first of the eight segments that share the filter
  marks  blob not null              -- a Bloom filter: each of its bytes has one bit for each segment
) strict;

-- Further names of an event, `c:<cursor>` or `i:<id>`, if it came under two ids or two cursors.
create table aliases (
  name text primary key,
  seq  integer not null
) strict, without rowid;
create index aliases_by_event on aliases (seq);

-- Redeliveries: the first seven of an event, and the last one as the eighth.
create table redeliveries (
  event       integer not null,     -- events.seq
  n           integer not null,
  received_at integer not null,
  secret      integer,              -- as in events
  skew_s      integer,
  primary key (event, n)
) strict, without rowid;

-- When each further origin first brought an event. The first origin is in `events`.
create table seen_by_origin (
  event   integer not null,         -- events.seq
  origin  text not null,
  seen_at integer not null,
  primary key (event, origin)
) strict, without rowid;

-- Types that webhooks bring, and how many events of each they have missed since the last delivery of the type.
create table types (
  type         text primary key,
  delivered_at integer,             -- the last delivery of this type; null: never
  missed       integer not null default 0,  -- events since then that only replay or stream brought
  missed_since integer              -- when the first missed event was received
) strict, without rowid;

-- First arrivals by day, type and origin, and their lateness.
create table arrivals (
  day       integer not null,       -- days since 1970, UTC
  type      text not null,
  origin    text not null,
  events    integer not null,
  aged      integer not null,       -- how many of these events have a known age
  late_ms   integer not null,       -- sum of the times from an event to its receipt
  latest_ms integer not null,       -- maximum of these times
  primary key (day, type, origin)
) strict, without rowid;

-- Events that may still turn out to be history (see store/birth.ts).
create table undecided (
  event  integer primary key,       -- events.seq
  cursor integer not null,
  ready  integer not null default 0 check (ready in (0, 1))  -- 1: not history, according to a webhook
) strict;
create index undecided_by_cursor on undecided (cursor);

-- Events that turned out not to be history while a handler waited for its file. It gets their tasks when it is back.
create table owed (
  event   integer not null,         -- events.seq
  handler integer not null,
  primary key (event, handler)
) strict, without rowid;

create table conflicts (
  id          integer primary key,
  seq         integer not null,     -- events.seq of the event that was stored before
  received_at integer not null,
  origin      text not null,
  cursor      integer,
  event_id    text,
  reason      text not null,
  body        blob not null
) strict;

create index conflicts_by_event on conflicts (seq);

create table quarantine (
  id          integer primary key,
  digest      blob not null unique, -- SHA-256 of cursor and body
  received_at integer not null,
  origin      text not null,
  cursor      integer,
  reason      text not null,
  copies      integer not null default 0,
  body        blob not null
) strict;

create table gaps (
  id         integer primary key,
  after      integer not null,      -- the last cursor before the gap
  up_to      integer,               -- the first known cursor above the gap; null: none
  reason     text not null,
  opened_at  integer not null,
  closed_at  integer,
  closed_by  text                   -- the handler that completed the gap event, or a person's reason
) strict;

create table handlers (
  id         integer primary key,
  name       text not null unique,
  loaded     integer not null check (loaded in (0, 1)),  -- 1: the last `run` process loaded it
  file       text,                  -- the file that it was last loaded from
  waits_from integer                -- events.seq: the handler has its tasks up to here; it waits for its file, or catches up
) strict;

-- Steps of `setup` that have run. A step and its row are committed in one transaction.
create table setup_steps (
  handler text not null,            -- the name: steps run before the handler has a row
  step    integer not null,         -- from 1
  digest  text not null,            -- of the step's text, see run/steps.ts
  ran_at  integer not null,
  primary key (handler, step)
) strict, without rowid;

create table lanes (
  id       integer primary key autoincrement,  -- an id is never used twice, because tasks keep it after the lane was removed
  handler  integer not null,
  name     text not null,
  rerun    integer not null default 0,   -- reruns.id: the lane belongs to this rerun; 0: events as they arrive
  unique (name, handler, rerun)
) strict;

-- How far each lane is. A turn writes a row for each task that it settles. These rows are small, so that many of them
-- share a database page, and a turn writes few pages.
create table lane_progress (
  lane     integer primary key,          -- lanes.id
  finished integer not null default -1,  -- the highest finished cursor: a task below it is late
  unproven integer not null default -1,  -- strict tasks up to here are released although the watermark has not passed them
  used_at  integer not null
) strict;

-- Lanes that another process has changed. The run process, which keeps lanes in memory, reads these again. Each change is
-- a row, so that none is lost while an earlier one is being read.
create table dirty_lanes (
  n    integer primary key,
  lane integer not null
) strict;

create table tasks (
  id          integer primary key,  -- event * 4096 + handler: unique without a second index
  event       integer not null,     -- events.seq
  handler     integer not null check (handler < 4096),
  lane        integer,              -- null: no lane
  alone       integer not null check (alone in (0, 1)),  -- 1: waits for no other task: no lane, or stepped aside
  cursor      integer,              -- the event's, for the order within the lane
  state       text not null check (state in ('ready', 'done', 'skipped', 'dead')),  -- a ready task with a claim is running
  strict      integer not null check (strict in (0, 1)),  -- 1: held until the watermark has passed its cursor
  release_at  integer not null,     -- held until then, unless a later task of its lane is released earlier; not for strict tasks
  due_at      integer not null,     -- not claimed before this time: back-off
  hold_until  integer,              -- a failing task holds its lane until then
  attempts    integer not null default 0,
  crashes     integer not null default 0,  -- attempts that crashed their process
  losses      integer not null default 0,  -- attempts that ended because their whole instance was lost
  rerun       integer not null default 0,  -- reruns.id; 0: made when its event arrived
  isolated    integer not null default 0 check (isolated in (0, 1)),  -- 1: its process died, so it runs alone in a process of its own
  late        integer not null default 0 check (late in (0, 1)),
  deferred    integer not null default 0,  -- total milliseconds of RetryAfter
  -- Both times are set from the beginning, because a row that grows may split its database page.
  started_at  integer not null,     -- start of the last attempt; before the first: when the task was made
  changed_at  integer not null,     -- last change of state
  error       text,                 -- why the last attempt failed, or why the task was skipped or is dead
  dead_group  integer               -- of a dead task: dead_groups.id
) strict;
create index tasks_in_lane on tasks (lane, cursor) where state = 'ready' and alone = 0;
create index tasks_alone on tasks (handler, due_at) where state = 'ready' and alone = 1;
create index tasks_strict on tasks (cursor, lane) where state = 'ready' and strict = 1 and alone = 0;
create index tasks_isolated on tasks (due_at) where state = 'ready' and isolated = 1;
create index tasks_rerun on tasks (rerun, attempts) where state = 'ready' and rerun > 0;
create index tasks_waiting on tasks (handler, id) where state = 'ready';
create index tasks_ended on tasks (state, changed_at, id) where state in ('dead', 'skipped');
create index tasks_dead on tasks (dead_group, changed_at, id) where state = 'dead';

-- These triggers refuse a waiting task whose lane has no row, because it would wait for ever.
create trigger lanes_with_tasks before delete on lanes
  when exists (select 1 from tasks where lane = old.id and state = 'ready' and alone = 0)
  begin select raise(abort, 'tasks wait in this lane'); end;
create trigger tasks_enter_lane before insert on tasks
  when new.lane is not null and new.alone = 0 and not exists (select 1 from lanes where id = new.lane)
  begin select raise(abort, 'a task without its lane'); end;
create trigger tasks_move_to_lane before update of lane, alone on tasks
  when new.lane is not null and new.alone = 0 and new.state = 'ready' and not exists (select 1 from lanes where id = new.lane)
  begin select raise(abort, 'a task without its lane'); end;

-- Groups of dead letters: one row for each handler and error pattern, as long as it has a dead task.
create table dead_groups (
  id          integer primary key autoincrement,  -- an id is never used twice, because people name groups by it
  handler     integer not null,
  error_pattern text not null,      -- digest of the pattern, see error-pattern.ts
  dead        integer not null,     -- dead tasks
  first_at    integer not null,
  last_at     integer not null,
  unique (handler, error_pattern)
) strict;
create index dead_groups_by_dead on dead_groups (dead);

-- The last ten attempts of each task that did not end at its first. Attempt 0: a person retried the task.
create table attempts (
  task       integer not null,
  started_at integer not null,
  attempt    integer not null,
  ended_at   integer not null,
  state      text not null,         -- state of the task after the attempt (ready: it is retried); `retried`: attempt 0
  error      text,                  -- cut short
  primary key (task, started_at, attempt)
) strict, without rowid;

-- What handlers noted about their tasks. A note outlives attempts, crashes and reruns, and goes with its event.
create table notes (
  task     integer not null,
  name     text not null,
  value    text not null,           -- JSON, at most 1 KiB
  noted_at integer not null,
  primary key (task, name)
) strict, without rowid;

-- Reruns: a person asked that a handler gets these events again, in cursor order. Events without a cursor of their own
-- come last. An event without a cursor counts as cursor -1.
create table reruns (
  id          integer primary key,
  handler     integer not null,
  type        text,                 -- null: all types of the handler
  since       text not null,        -- as the person typed it
  until       text,
  from_cursor integer not null,
  to_cursor   integer not null,
  from_event  integer not null,     -- events.seq
  to_event    integer not null,
  at_cursor   integer not null,     -- position: tasks are made up to here
  at_event    integer not null,     -- the same, for events without a cursor of their own
  events      integer not null,     -- how many events there were at the request
  seen        integer not null default 0,
  made        integer not null default 0,  -- tasks made
  kept        integer not null default 0,  -- events left alone because a task already waited
  purged      integer not null default 0,  -- events left out because their bodies were purged
  asked_at    integer not null,
  ended_at    integer,              -- when it made its last task
  cancelled   integer not null default 0 check (cancelled in (0, 1))
) strict;

-- Claims: one row for each running task. It is written before the handler runs, so that an attempt counts even if its
-- process dies. Rows are small, so that a claim costs little.
create table claims (
  task       integer primary key,
  boot       integer not null,      -- the process that holds it
  attempt    integer not null,
  late       integer not null check (late in (0, 1)),
  started_at integer not null
) strict;

create table processes (
  instance   integer not null,      -- a file has one: 0
  role       text not null,
  pid        integer not null,
  started    text not null,         -- when the kernel started this pid, which distinguishes a reused pid
  boot       integer not null,
  beat_at    integer not null,
  primary key (instance, role)
) strict, without rowid;

create table alarms (
  name      text primary key,
  since     integer not null,
  detail    text not null,
  told_at   integer,                -- when ALERT_URL last accepted a message about it
  level     integer not null default 0,  -- the level of the alarm at that time
  news      integer not null default 0,  -- number of the newest detail that was sent
  cleared   integer not null default 0 check (cleared in (0, 1))  -- 1: no longer holds; the all-clear is still to be sent
) strict;

create table counters (
  name  text primary key,
  value integer not null
) strict, without rowid;

-- Samples of the counters for the charts: every ten seconds for a day, every minute for eight days.
create table samples (
  at      integer primary key,
  figures text not null             -- JSON
) strict;

-- Single values, see StateKey: watermark, fanned_out (the last event whose tasks were made), runner (the process that keeps
-- the lanes in memory), born (when this store was created), boot, …
create table state (
  name  text primary key,
  value any
) strict, without rowid;
insert into state values ('fanned_out', 0), ('boot', 0), ('born', cast(unixepoch('subsec') * 1000 as integer));
