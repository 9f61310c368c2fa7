// Draws the page of `npm run dev` from /api/state, whenever the server says that something has changed. The address
// says what is open: #<key> an event, #send or #send/<type> the form, #edit/<key> the form with that event's data, and
// nothing the newest event. All text is set as text, because strangers wrote it.

const byId = (id) => document.getElementById(id);
const SIGNS = { done: '●', dead: '✕', failed: '✕', skipped: '–', ready: '○', held: '○', running: '◐' };
const CONTRADICTED =
  'A later delivery had this id or cursor and other data. It counts as a duplicate and is recorded; these data stay.';
const WAITS = 'It waits for an earlier event of its lane that failed, or for its time.';
let state;
const results = new Map();
/** What the open part was drawn from. It is drawn again only if that changes, so that no input is lost. */
let drawn = '';

/** An element. Fields that begin with `on` are listeners; null and undefined leave a field out. */
function el(name, fields = {}, ...children) {
  const made = document.createElement(name);
  for (const [field, value] of Object.entries(fields)) {
    if (value === null || value === undefined || value === false) continue;
    if (field.startsWith('on')) made.addEventListener(field.slice(2), value);
    else made.setAttribute(field, value === true ? '' : value);
  }
  made.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return made;
}

async function ask(name, body = {}) {
  const response = await fetch(`/api/${name}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(body),
  });
  const answer = await response.json();
  if (!response.ok) throw new Error(answer.error);
  return answer;
}

/** A button that says why it failed, beside it. */
function button(words, act, fields = {}) {
  const said = el('span', { class: 'error', role: 'alert' });
  const made = el('button', { type: 'button', ...fields }, words);
  made.addEventListener('click', async () => {
    said.textContent = '';
    made.disabled = true;
    try {
      await act();
    } catch (error) {
      said.textContent = error.message;
    }
    made.disabled = false;
  });
  return [made, said];
}

const clock = (iso) => (iso ? el('time', { datetime: iso }, iso.slice(11, 19)) : el('time', {}, 'unknown'));
const stateOf = ({ state: own, attempts }) => (own === 'ready' && attempts > 0 ? 'failed' : own);
const wordsOf = (task) => (stateOf(task) === 'failed' ? `failed ${task.attempts}×, waits for a retry` : task.state);

function dots(tasks) {
  return tasks.map((task) => {
    const words = `${task.handler}: ${wordsOf(task)}`;
    return el(
      'span',
      { class: `dot ${stateOf(task)}`, title: words, role: 'img', 'aria-label': words },
      SIGNS[stateOf(task)],
    );
  });
}

function marksOf({ copies, origin, tasks }) {
  const came = copies > 0 ? `came ${copies + 1}×` : '';
  const marks = [came, origin === 'replay' && 'recovered', tasks.some(({ late }) => late) && 'late'].filter(Boolean);
  return marks.length > 0 ? el('small', {}, ` ${marks.join(', ')}`) : null;
}

function drawRows() {
  const { key } = place();
  const open = key ?? state.rows[0]?.key;
  const rows = state.rows.map((row) =>
    el(
      'li',
      {},
      el(
        'a',
        { href: `#${encodeURIComponent(row.key)}`, 'aria-current': row.key === open ? 'true' : null },
        clock(row.at),
        el('span', {}, row.type, marksOf(row)),
        el('span', { class: 'dots' }, dots(row.tasks)),
        el('span', { class: 'what' }, `${row.conversation} `, el('bdi', {}, row.text)),
      ),
    ),
  );
  const list = byId('rows');
  const focused = list.contains(document.activeElement) ? document.activeElement.getAttribute('href') : null;
  list.replaceChildren(...rows);
  if (focused) [...list.querySelectorAll('a')].find((one) => one.getAttribute('href') === focused)?.focus();
  byId('none').hidden = rows.length > 0;
}

function drawHead() {
  const { live, kit, traffic, chaos, ops, faults, notice, handlers, handlersDir } = state;
  const account = live ? 'your account: events and people are real' : 'a simulated account';
  const kits = kit === 'up' ? '' : kit === 'down' ? ', the kit has ended' : ', the kit is starting';
  const named = handlers.length > 0 ? `handlers: ${handlers.join(', ')}` : `handlers in ${handlersDir}`;
  byId('source').textContent = `${account}${kits}, ${named}${notice ? `. ${notice}` : ''}`;
  byId('simulated').hidden = live;
  byId('recent').hidden = !live;
  byId('traffic').checked = traffic;
  byId('chaos').checked = chaos;
  byId('ops').href = ops;
  // Drawn again only if they change, because screen readers read an alert aloud each time.
  if (byId('faults').textContent !== faults.join(''))
    byId('faults').replaceChildren(...faults.map((fault) => el('p', {}, fault)));
}

function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

function place() {
  const hash = decoded(location.hash.slice(1));
  if (hash === 'send' || hash.startsWith('send/')) return { form: hash.slice(5) || 'MessageReceived' };
  if (hash.startsWith('edit/')) return { edit: hash.slice(5), key: hash.slice(5) };
  return { key: hash && hash !== 'open' ? hash : undefined };
}

function drawOpen() {
  const at = place();
  document.body.classList.toggle('opened', location.hash !== '');
  const from = at.form ? `form ${at.form}` : JSON.stringify([at.edit ?? '', state.open]);
  if (from === drawn || (at.edit && drawn.startsWith(`["${at.edit}"`))) return;
  drawn = from;
  const back = el('p', { class: 'back' }, el('a', { href: '#' }, 'All events'));
  const open = byId('open');
  const unfolded = open.querySelector('details')?.open;
  const focused = open.contains(document.activeElement) ? document.activeElement.textContent : '';
  open.replaceChildren(back, ...(at.form ? sendForm(at.form) : at.edit ? editForm() : detail()));
  if (unfolded) open.querySelector('details')?.setAttribute('open', '');
  if (focused) [...open.querySelectorAll('a, button, summary')].find((one) => one.textContent === focused)?.focus();
}

function detail() {
  const { open } = state;
  if (!open)
    return [
      el(
        'p',
        { class: 'soft' },
        state.rows.length > 0 ? 'This event is not in the store.' : 'Send an event, or switch traffic on.',
      ),
    ];
  const facts = { key: open.key, id: open.id, cursor: open.cursor, session: open.sessionId, 'brought by': open.origin };
  const times = {
    happened: open.createdAt,
    received: open.receivedAt,
    'came again': open.copies ? `${open.copies}×` : null,
  };
  return [
    el('h2', {}, open.type),
    ...(open.contradicted ? [el('p', { class: 'error' }, CONTRADICTED)] : []),
    el(
      'div',
      { class: 'actions' },
      button('Resend', () => ask('resend', { key: open.key })),
      el('a', { class: 'button', href: `#edit/${encodeURIComponent(open.key)}` }, 'Edit and resend'),
    ),
    ...(open.tasks.length > 0
      ? open.tasks.map(taskCard)
      : [
          el(
            'p',
            { class: 'card' },
            'No handler has a task of it: none is there for its type, or it has only just come.',
          ),
        ]),
    el('h3', {}, 'Data'),
    el('pre', { tabindex: '0' }, open.data ? JSON.stringify(open.data, null, 2) : 'The body was purged.'),
    el(
      'dl',
      {},
      Object.entries({ ...facts, ...times }).flatMap(([name, value]) =>
        value ? [el('dt', {}, name), el('dd', {}, el('code', {}, value))] : [],
      ),
    ),
    el(
      'details',
      {},
      el('summary', {}, 'Timeline'),
      el(
        'ul',
        { class: 'log' },
        open.timeline.map((moment) =>
          el('li', {}, clock(moment.at), ` ${moment.what} `, el('span', { class: 'soft' }, moment.detail)),
        ),
      ),
    ),
  ];
}

/** Where the result of a saved test stands. It stays when the event is drawn again. */
function resultOf(name) {
  const result = results.get(name) ?? el('div', { role: 'status' });
  results.set(name, result);
  return result;
}

function taskCard(task) {
  const failed = ['failed', 'dead'].includes(stateOf(task));
  const result = resultOf(`${state.open.key} ${task.handler}`);
  const save = async () => {
    result.replaceChildren(el('p', {}, 'The test runs …'));
    try {
      const { file, passed, output } = await ask('test', { key: state.open.key, handler: task.handler });
      result.replaceChildren(
        el(
          'p',
          {},
          el('b', { class: passed ? 'done' : 'error' }, passed ? 'The test passes: ' : 'The test fails: '),
          el('code', {}, file),
        ),
        el('pre', { tabindex: '0' }, output),
      );
    } catch (error) {
      result.replaceChildren(el('p', { class: 'error' }, error.message));
    }
  };
  return el(
    'div',
    { class: `card ${stateOf(task)}` },
    el(
      'h3',
      {},
      el('span', { class: stateOf(task), 'aria-hidden': 'true' }, `${SIGNS[stateOf(task)]} `),
      `${task.handler}: ${wordsOf(task)}`,
      task.ms === null ? null : el('small', {}, ` ${task.ms} ms`),
      task.late ? el('small', {}, ' late') : null,
    ),
    task.error ? el('p', { class: failed ? 'error' : 'soft' }, task.error) : null,
    ['held', 'ready'].includes(stateOf(task)) ? el('p', { class: 'soft' }, WAITS) : null,
    task.place && failed ? el('p', {}, 'at ', el('code', {}, task.place)) : null,
    el('ul', { class: 'log' }, task.lines.map(logLine)),
    el(
      'div',
      { class: 'actions' },
      failed ? button('Run again', () => ask('again', { task: task.task })) : null,
      el(
        'button',
        { type: 'button', onclick: save, title: state.live ? 'It will hold what a real person wrote.' : null },
        'Save as test',
      ),
    ),
    result,
  );
}

function logLine({ at, verdict, text, ms }) {
  if (verdict === null) return el('li', {}, clock(at), ' ', el('code', {}, text));
  return el(
    'li',
    {},
    clock(at),
    ` ${verdict}`,
    ms === null ? null : ` after ${ms} ms`,
    text ? [' ', el('span', { class: 'soft' }, text)] : null,
  );
}

function sendForm(type) {
  const known = state.examples.find((one) => one.type === type);
  const data = known?.data ?? {};
  const choose = el(
    'select',
    { 'aria-label': 'Type', onchange: ({ target }) => (location.hash = `send/${target.value}`) },
    state.examples.map((one) => el('option', { value: one.type, selected: one.type === type }, one.type)),
  );
  return [el('h2', {}, 'Send an event'), el('p', {}, choose), ...dataForm(type, data, [])];
}

function editForm() {
  const { open } = state;
  if (!open) return [el('p', { class: 'error' }, 'This event is not in the store.')];
  const as = (value, words, checked) =>
    el('label', {}, el('input', { type: 'radio', name: 'as', value, checked }), ` ${words}`);
  const choice = el(
    'p',
    { role: 'radiogroup', 'aria-label': 'Identity' },
    as('new', 'a new event', true),
    el('br'),
    as('same', 'the same id and cursor: see that it is a duplicate', false),
  );
  return [el('h2', {}, `Edit and resend: ${open.type}`), ...dataForm(open.type, open.data ?? {}, [choice], open.key)];
}

/** A form of fields, or JSON. Errors stand at their fields. */
function dataForm(type, data, more, key) {
  let asJson = Object.values(data).some((value) => typeof value === 'object' && value !== null);
  let current = data;
  const holder = el('div');
  const said = el('p', { class: 'error', role: 'alert' });
  const draw = () => holder.replaceChildren(...(asJson ? jsonInput(current) : fieldInputs(current)));
  const toggle = el('button', { type: 'button' }, '');
  const name = () => (toggle.textContent = asJson ? 'As a form' : 'As JSON');
  toggle.addEventListener('click', () => {
    try {
      current = readForm(holder, current, asJson);
      asJson = !asJson;
      draw();
      name();
    } catch (error) {
      said.textContent = error.message;
    }
  });
  const form = el(
    'form',
    {
      onsubmit: async (event) => {
        event.preventDefault();
        said.textContent = '';
        for (const one of holder.querySelectorAll('.fault')) one.remove();
        try {
          current = readForm(holder, current, asJson);
          const same = form.elements.as?.value === 'same' ? { as: key } : {};
          const anyway = event.submitter?.name === 'anyway';
          const { errors, key: sent } = await ask('send', { type, data: current, anyway, ...same });
          if (errors) showErrors(holder, said, errors);
          else location.hash = encodeURIComponent(sent);
        } catch (error) {
          said.textContent = error.message;
        }
      },
    },
    holder,
    ...more,
    el('div', { class: 'actions' }, el('button', { class: 'main' }, 'Send'), toggle),
    said,
  );
  draw();
  name();
  return [form];
}

function jsonInput(data) {
  return [
    el('textarea', { name: 'json', 'aria-label': 'Data as JSON', spellcheck: 'false' }, JSON.stringify(data, null, 2)),
  ];
}

function fieldInputs(data) {
  const fields = Object.entries(data).map(([field, value]) => {
    const plain = typeof value === 'object' ? JSON.stringify(value) : String(value);
    const input =
      typeof value === 'boolean'
        ? el('input', { type: 'checkbox', name: field, checked: value })
        : el('input', { name: field, value: plain, autocomplete: 'off' });
    return el('label', {}, el('code', {}, field), input);
  });
  return [
    el(
      'div',
      { class: 'fields' },
      fields.length > 0 ? fields : el('p', { class: 'soft' }, 'This type has no example: write JSON.'),
    ),
  ];
}

/** The data of the form. A field keeps the kind that its value had. */
function readForm(holder, before, asJson) {
  if (asJson) {
    try {
      return JSON.parse(holder.querySelector('textarea').value);
    } catch (error) {
      throw new Error(`This is no JSON: ${error.message}`, { cause: error });
    }
  }
  const read = {};
  for (const input of holder.querySelectorAll('input')) {
    const was = before[input.name];
    if (input.type === 'checkbox') read[input.name] = input.checked;
    else if (typeof was === 'string') read[input.name] = input.value;
    else if (typeof was === 'number' && input.value.trim() !== '' && !Number.isNaN(Number(input.value)))
      read[input.name] = Number(input.value);
    else read[input.name] = jsonOr(input.value);
  }
  return read;
}

function jsonOr(text) {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

function showErrors(holder, said, errors) {
  for (const { field, message } of errors) {
    const input = [...holder.querySelectorAll('input')].find((one) => one.name === field.split('.')[0]);
    if (input) input.parentElement.after(el('p', { class: 'error fault' }, `${field}: ${message}`));
    else said.append(el('span', {}, `${field ? `${field}: ` : ''}${message}`), el('br'));
  }
  said.append(el('button', { name: 'anyway' }, 'Send it anyway'));
  holder.querySelector('.fault')?.previousElementSibling?.querySelector('input')?.focus();
}

let fetching = false;
let again = false;

async function refresh() {
  if (fetching) return (again = true);
  fetching = true;
  const { key } = place();
  try {
    state = await (await fetch(`/api/state?key=${encodeURIComponent(key ?? state?.rows[0]?.key ?? '')}`)).json();
    // The newest event is open. If another has come meanwhile, it is asked for.
    if (key === undefined && state.rows.length > 0 && state.open?.key !== state.rows[0].key) again = true;
    drawHead();
    drawRows();
    if (!again) drawOpen();
  } catch {
    byId('source').textContent = 'npm run dev has ended: start it again';
  }
  fetching = false;
  if (again) {
    again = false;
    void refresh();
  }
}

for (const name of ['traffic', 'chaos'])
  byId(name).addEventListener('change', ({ target }) => void ask('turn', { [name]: target.checked }));
byId('recent').replaceWith(...button('Fetch the last 15 minutes', () => ask('recent'), { id: 'recent', hidden: true }));
byId('clear').addEventListener('click', () => {
  if (confirm(`Remove all events of this store? Your handlers' tables go with it.`))
    void ask('clear').then(() => (location.hash = ''));
});
addEventListener('hashchange', () => {
  drawn = '';
  void refresh().then(() => document.body.classList.contains('opened') && byId('open').focus({ preventScroll: true }));
});
document.addEventListener('keydown', (event) => {
  const link = document.activeElement;
  if (!['ArrowDown', 'ArrowUp'].includes(event.key) || !byId('rows').contains(link)) return;
  const links = [...byId('rows').querySelectorAll('a')];
  links[links.indexOf(link) + (event.key === 'ArrowDown' ? 1 : -1)]?.focus();
  event.preventDefault();
});
const changes = new EventSource('/api/changes');
changes.addEventListener('message', () => void refresh());
changes.addEventListener('error', () => (byId('source').textContent = 'npm run dev has ended, or starts again'));
