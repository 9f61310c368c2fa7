// Fetches the page again every few seconds and replaces its <main>, title, icon and counts. Focus, scroll positions,
// open details and field values survive. Hidden pages are not fetched. Without this script, people refresh by hand.
const every = /** @type {HTMLSelectElement} */ (document.getElementById('every'));
const live = document.getElementById('live');
const KEY = 'refresh';
let timer;
let fetching = false;

/** A name that finds the same element in the old and in the new content. */
function nameOf(element, index) {
  const { id, name, value, type } = element;
  if (element.localName === 'summary') return `summary ${nameOf(element.parentElement, index)}`;
  if (element.localName === 'details') return `details ${id || element.querySelector('summary')?.textContent}`;
  if (id) return `#${id}`;
  const form = element.form?.getAttribute('action') ?? '';
  if (name) return `${form} ${name} ${type === 'hidden' ? value : index}`;
  return `${element.localName} ${element.getAttribute('href') ?? form} ${element.textContent}`;
}

const byName = (root, selector) => new Map([...root.querySelectorAll(selector)].map((one, i) => [nameOf(one, i), one]));
const FOCUSABLE = 'a, button, input, select, textarea, summary, [tabindex]';

function replaceMain(fresh) {
  const old = document.querySelector('main');
  const focused = [...byName(old, FOCUSABLE)].find(([, one]) => one === document.activeElement);
  const fields = byName(old, 'input, select, textarea');
  const caret = focused?.[1].selectionStart;
  const details = byName(old, 'details');
  const scrolled = [...old.querySelectorAll('.scroll')].map(({ scrollLeft, scrollTop }) => [scrollLeft, scrollTop]);

  for (const [name, one] of byName(fresh, 'details')) if (details.has(name)) one.open = details.get(name).open;
  for (const [name, one] of byName(fresh, 'input, select, textarea')) {
    const before = fields.get(name);
    if (before && one.type !== 'hidden' && one.type !== 'checkbox') one.value = before.value;
  }
  old.replaceWith(fresh);
  for (const [i, one] of [...fresh.querySelectorAll('.scroll')].entries()) one.scrollTo(...(scrolled[i] ?? [0, 0]));
  const target = focused && byName(fresh, FOCUSABLE).get(focused[0]);
  target?.focus({ preventScroll: true });
  if (typeof caret === 'number') target?.setSelectionRange?.(caret, caret);
}

/** The tab and the navigation carry the state too. The links themselves stay, so that they keep the focus. */
function replaceState(page) {
  document.title = page.title;
  const icon = '[rel=icon]';
  document.querySelector(icon).href = page.querySelector(icon).href;
  const links = [...document.querySelectorAll('nav a')];
  for (const [i, link] of [...page.querySelectorAll('nav a')].entries()) links[i]?.replaceChildren(...link.childNodes);
}

async function refresh() {
  // Nothing is replaced while text is selected or a revealed body (`data-still`) is shown: both would be lost. Nor while
  // a person selects rows or confirms a change: it must be the change that was read.
  if (
    fetching ||
    document.hidden ||
    document.querySelector('[data-still], .fix details[open], td input:checked') ||
    !getSelection()?.isCollapsed
  )
    return plan();
  fetching = true;
  try {
    const response = await fetch(location.href, {
      headers: { accept: 'text/html' },
      signal: AbortSignal.timeout(10_000),
    });
    const text = await response.text();
    const page = new DOMParser().parseFromString(text, 'text/html');
    const fresh = page.querySelector('main');
    if (response.status === 401) say('Logged out: refresh to log in');
    else if (!response.ok || !fresh) say(`Could not refresh (${response.status}); the page is old`);
    else {
      replaceMain(document.adoptNode(fresh));
      replaceState(page);
      say('');
    }
  } catch {
    say('Could not refresh: no answer; the page is old');
  }
  fetching = false;
  plan();
}

function say(text) {
  if (live.textContent !== text) live.textContent = text;
  document.body.classList.toggle('stale', text !== '');
}

function plan() {
  clearTimeout(timer);
  const seconds = Number(every.value);
  if (seconds > 0 && !document.hidden) timer = setTimeout(() => void refresh(), seconds * 1000);
}

/** Copies the text. Without a clipboard (plain HTTP from another machine), selects it, so that people can copy it. */
async function copy(button) {
  const text = button.parentElement.nextElementSibling;
  let said = 'Copied';
  try {
    await navigator.clipboard.writeText(text.textContent);
  } catch {
    getSelection().selectAllChildren(text);
    said = 'Selected: copy it';
  }
  button.textContent = said;
}
document.documentElement.classList.add('script');
document.addEventListener('click', ({ target }) => {
  if (target.matches('.copy')) void copy(target);
});

if (every) {
  every.hidden = false;
  every.value = localStorage.getItem(KEY) ?? '5';
  if (every.selectedIndex === -1) every.value = '5';
  every.addEventListener('change', () => {
    localStorage.setItem(KEY, every.value);
    plan();
  });
  document.addEventListener('visibilitychange', () => {
    if (document.hidden) clearTimeout(timer);
    else void refresh();
  });
  plan();
}
