pragma application_id = 1802072179;  -- says that this is a store of the kit, and of nobody else

-- Times are Unix milliseconds. Cursors are 64-bit integers. A released migration is never edited.

-- Which store this is: new with each start and each copy, so that no file is taken for another. On a page of its own, so
-- that it can be read without the log.
create table store (
  id text not null
) strict;
insert into store values (lower(hex(randomblob(16))));

create table events (
  seq         integer primary key,  -- order of arrival; pruning keeps the newest row, so that none is given twice
  cursor      integer,              -- position in the service's history, where it has one
  conflicting    integer not null default 0 check (conflicting in (0, 1)),  -- 1: its cursor names an earlier event, so its key is its id
  id          text,                 -- the webhook's id; null while only replay has shown the event
  type        text not null,
  session_id  text,
  created_at  integer,
  received_at integer not null,
  origin      text not null check (origin in ('webhook', 'replay', 'stream', 'kit')),  -- what brought it first, and so what `body` looks like
  copies      integer not null default 0,  -- how often it came again
  secret      integer,              -- which signed its first delivery: the position in WEBHOOK_SECRET then, from 1
  skew_s      integer,              -- how old that signature was on receipt, seconds; negative: from the future
  live        integer not null default 0 check (live in (0, 1)),  -- 1: a live stream brought it first, so it is as old as its receipt
  flags       text not null default '',    -- what was odd about it, comma-separated
  body        blob,                 -- bytes as received; null once purged
  digest      blob,                 -- of its data, written when the body is purged
  check (cursor is not null or id is not null)
) strict;
create index events_by_receipt on events (received_at);
create unique index events_by_cursor on events (cursor) where cursor is not null and conflicting = 0;
create index events_conflicting on events (cursor) where conflicting = 1;
create index events_placeless on events (seq) where cursor is null or conflicting = 1;  -- no place of their own among the cursors

-- Which event has an id, instead of an index: see ids.ts. An event that was pruned may still be named.
create table latest_ids (
  n     integer primary key,        -- in the order in which they came
  id    text not null,
  event integer not null            -- events.seq
) strict;
create table ids (
  segment integer not null,         -- id_segments.segment
  id      text not null,
  event   integer not null,
  primary key (segment, id)
) strict, without rowid;
create table id_segments (
  segment  integer primary key,
  ids      integer not null,        -- the last segment is added to until it is full
  added_at integer not null         -- the last time
) strict;
create table id_filters (
  first  integer primary key,       -- of the eight segments that share it
  marks  blob not null              -- a byte for each place, a bit of it for each segment
) strict;

-- Further names of an event, `c:<cursor>` or `i:<id>`: two webhooks, or one id under two cursors.
create table aliases (
  name text primary key,
  seq  integer not null
) strict, without rowid;
create index aliases_by_event on aliases (seq);

-- Deliveries of what was there before: the first seven of an event, and the last as the eighth.
create table redeliveries (
  event       integer not null,     -- events.seq
  n           integer not null,
  received_at integer not null,
  secret      integer,              -- as in events
  skew_s      integer,
  primary key (event, n)
) strict, without rowid;

-- When a further origin brought an event for the first time; the first of all stands in the event.
create table seen_by_origin (
  event   integer not null,         -- events.seq
  origin  text not null,
  seen_at integer not null,
  primary key (event, origin)
) strict, without rowid;

-- What webhooks bring, and what they lately did not.
create table types (
  type         text primary key,
  delivered_at integer,             -- the last delivery of this type; null: never
  missed       integer not null default 0,  -- since then brought by replay or stream alone, though deliveries could be taken
  missed_since integer              -- receipt of the first of these
) strict, without rowid;

-- What each origin brought first, by day and type, and how late.
create table arrivals (
  day       integer not null,       -- days since 1970, UTC
  type      text not null,
  origin    text not null,
  events    integer not null,
  aged      integer not null,       -- those of them whose age was known
  late_ms   integer not null,       -- from happening to receipt, all these together
  latest_ms integer not null,       -- the worst of them
  primary key (day, type, origin)
) strict, without rowid;

-- Fanned out before anybody could know whether they are history.
create table undecided (
  event  integer primary key,       -- events.seq
  cursor integer not null,
  ready  integer not null default 0 check (ready in (0, 1))  -- 1: it is none, a webhook says
) strict;
create index undecided_by_cursor on undecided (cursor);

create table conflicts (
  id          integer primary key,
  seq         integer not null,     -- the event that was there before
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
  digest      blob not null unique, -- SHA-256 of cursor and body: the same bytes are kept once a place
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
  up_to      integer,               -- the first cursor known behind it; null while none is
  reason     text not null,
  opened_at  integer not null,
  closed_at  integer,
  closed_by  text                   -- the handler that completed it, or a person's reason
) strict;

create table handlers (
  id         integer primary key,
  name       text not null unique,
  loaded     integer not null check (loaded in (0, 1)),  -- 1: the last process that ran handlers had it
  file       text,                  -- where it was loaded from last
  waits_from integer                -- events.seq: its file cannot be loaded, or it catches up; it has its tasks up to here
) strict;

create table lanes (
  id       integer primary key autoincrement,  -- never given twice: tasks remember it after the lane was swept
  handler  integer not null,
  name     text not null,
  rerun    integer not null default 0,   -- reruns.id: its events wait for those of their rerun alone; 0: events as they come
  finished integer not null default -1,  -- highest cursor finished: everything below it is late
  unproven integer not null default -1,  -- strict tasks up to here are released, though the watermark has not passed them
  used_at  integer not null,
  unique (name, handler, rerun)
) strict;

-- Lanes that another process has changed: the one that runs handlers keeps lanes in memory, and reads these again.
create table dirty_lanes (
  lane integer primary key
) strict;

create table tasks (
  id          integer primary key,  -- event * 4096 + handler: one for each, in order of arrival, without a second index
  event       integer not null,     -- events.seq
  handler     integer not null check (handler < 4096),
  lane        integer,              -- null: in no lane
  alone       integer not null check (alone in (0, 1)),  -- 1: waits for no other: in no lane, or stepped aside from it
  cursor      integer,              -- the event's, for the order within the lane
  state       text not null check (state in ('ready', 'done', 'skipped', 'dead')),  -- a ready one with a claim is running
  strict      integer not null check (strict in (0, 1)),  -- 1: held until the watermark has passed its cursor
  release_at  integer not null,     -- held until then, unless a later one of its lane is released earlier; not of strict ones
  due_at      integer not null,     -- not before: back-off
  hold_until  integer,              -- while it fails it holds its lane until then
  attempts    integer not null default 0,
  crashes     integer not null default 0,  -- attempts that ended their process
  rerun       integer not null default 0,  -- reruns.id; 0: made when its event came
  isolated     integer not null default 0 check (isolated in (0, 1)),  -- 1: its process died under it; it runs alone
  late        integer not null default 0 check (late in (0, 1)),
  deferred    integer not null default 0,  -- milliseconds that RetryAfter has put it off in all
  -- Both are set from the beginning: a row that grows when it ends would split the page that it was packed into.
  started_at  integer not null,     -- the last attempt; before the first: when the task was made
  changed_at  integer not null,     -- the last change of state
  error       text,                 -- why the last attempt failed, or why it was skipped or is dead
  cause       integer               -- of a dead one: dead_groups.id
) strict;
create index tasks_in_lane on tasks (lane, cursor) where state = 'ready' and alone = 0;
create index tasks_alone on tasks (handler, due_at) where state = 'ready' and alone = 1;
create index tasks_strict on tasks (cursor, lane) where state = 'ready' and strict = 1 and alone = 0;
create index tasks_isolated on tasks (due_at) where state = 'ready' and isolated = 1;
create index tasks_rerun on tasks (rerun, attempts) where state = 'ready' and rerun > 0;
create index tasks_ended on tasks (state, id) where state in ('dead', 'skipped');
create index tasks_dead on tasks (cause, id) where state = 'dead';

-- A waiting task whose lane is gone would wait for ever.
create trigger lanes_with_tasks before delete on lanes
  when exists (select 1 from tasks where lane = old.id and state = 'ready' and alone = 0)
  begin select raise(abort, 'tasks wait in this lane'); end;
create trigger tasks_enter_lane before insert on tasks
  when new.lane is not null and new.alone = 0 and not exists (select 1 from lanes where id = new.lane)
  begin select raise(abort, 'a task without its lane'); end;
create trigger tasks_move_to_lane before update of lane, alone on tasks
  when new.lane is not null and new.alone = 0 and new.state = 'ready' and not exists (select 1 from lanes where id = new.lane)
  begin select raise(abort, 'a task without its lane'); end;

-- Why tasks are dead: one row for each handler and kind of error, as long as a task is dead of it.
create table dead_groups (
  id          integer primary key autoincrement,  -- never given twice: people name groups by it
  handler     integer not null,
  error_pattern text not null,      -- digest of the error without what differs from event to event
  dead        integer not null,     -- how many are
  first_at    integer not null,
  last_at     integer not null,
  unique (handler, error_pattern)
) strict;
create index dead_groups_by_dead on dead_groups (dead);

-- The last ten attempts of tasks that did not end at the first, and when a person retried them: as attempt 0.
create table attempts (
  task       integer not null,
  started_at integer not null,
  attempt    integer not null,
  ended_at   integer not null,
  state      text not null,         -- what the task became: ready is a failure that is tried again; or retried
  error      text,                  -- its beginning
  primary key (task, started_at, attempt)
) strict, without rowid;

-- Events that a handler is given again, because a person asked: in the order of their cursors, then those that have no
-- place of their own there. What has no cursor counts as -1.
create table reruns (
  id          integer primary key,
  handler     integer not null,
  type        text,                 -- null: all that the handler wants
  since       text not null,        -- as it was asked
  until       text,
  from_cursor integer not null,
  to_cursor   integer not null,
  from_event  integer not null,     -- events.seq
  to_event    integer not null,
  at_cursor   integer not null,     -- how far tasks were made
  at_event    integer not null,     -- the same, of events without a place
  events      integer not null,     -- how many there were when it was asked
  seen        integer not null default 0,
  made        integer not null default 0,  -- tasks
  kept        integer not null default 0,  -- events that waited already, and were left as they were
  purged      integer not null default 0,  -- events left out, for their bodies are gone
  asked_at    integer not null,
  ended_at    integer,              -- no more tasks are made
  cancelled   integer not null default 0 check (cancelled in (0, 1))
) strict;

-- The tasks at work. Written before the handler runs, so that an attempt is counted even if its process dies; so small
-- that taking and giving back a claim costs next to nothing.
create table claims (
  task       integer primary key,
  boot       integer not null,      -- the process that holds it
  attempt    integer not null,
  late       integer not null check (late in (0, 1)),
  started_at integer not null
) strict;

create table processes (
  role       text primary key,
  pid        integer not null,
  started    text not null,         -- the kernel's start time of that pid, so that a reused pid is not taken for it
  boot       integer not null,
  beat_at    integer not null
) strict;

create table alarms (
  name      text primary key,
  since     integer not null,
  detail    text not null,
  told_at   integer,                -- when ALERT_URL last took it
  level     integer not null default 0,  -- how grave it was then
  news      integer not null default 0,  -- the newest cause that was told
  cleared   integer not null default 0 check (cleared in (0, 1))  -- 1: holds no more, and the all-clear is still to be told
) strict;

create table counters (
  name  text primary key,
  value integer not null
) strict, without rowid;

-- Counters as they stood, for the page: every ten seconds for a day, every minute for eight.
create table samples (
  at      integer primary key,
  figures text not null             -- JSON
) strict;

-- Single values: watermark, floor, assigned (the last event that tasks were made of), runner (who keeps the lanes in
-- memory), born (when this store was), boot, …
create table state (
  name  text primary key,
  value any
) strict, without rowid;
insert into state values ('assigned', 0), ('boot', 0), ('born', cast(unixepoch('subsec') * 1000 as integer));
