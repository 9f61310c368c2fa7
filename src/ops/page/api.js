// How the page calls the API, and how often a view calls it again.
import { useEffect, useState } from 'preact/hooks';

const EVERY_MS = 2_000;

/** All operations, as `GET /api` describes them. They are read before the first view is shown. */
export let operations = [];
export const argumentsOf = (name) => operations.find((one) => one.name === name).args;
export const isByPost = (name, arg) => argumentsOf(name).some((one) => one.name === arg && one.byPost);

/** Resolves with `{ result, at }`, or with an `{ error }` in words. With a body, the request is a POST. */
export async function ask(path, body) {
  const json = { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) };
  const answer = await fetch(path, body ? json : { signal: AbortSignal.timeout(10_000) }).catch(() => null);
  const result = await answer?.json().catch(() => null);
  if (answer?.ok) return { result, error: null, at: new Date().toISOString() };
  return { error: result?.error ?? 'The kit does not answer' };
}

/** Calls an operation: by GET if the API allows it for these arguments, otherwise by POST. */
export async function call(name, args) {
  if (operations.length === 0) ({ result: operations = [] } = await ask('/api'));
  const given = Object.entries(args).filter(([, value]) => value !== '');
  const isGet = operations.find((one) => one.name === name)?.reads && !given.some(([arg]) => isByPost(name, arg));
  return isGet ? ask(`/api/${name}?${new URLSearchParams(given)}`) : ask(`/api/${name}`, Object.fromEntries(given));
}

/** The answer; if `isLive`, renewed while the page is visible. An `error` beside a `result`: the last call failed. */
export function useApi(name, args = {}, isLive = true) {
  const [answer, setAnswer] = useState({});
  useEffect(() => {
    let isOver = false;
    async function look() {
      const began = Date.now();
      const news = document.hidden || isOver ? {} : await call(name, args);
      if (isOver) return;
      setAnswer((old) => ({ ...old, ...news }));
      // After a slow answer the page waits longer: a search through a large store must not keep the kit busy.
      if (isLive) setTimeout(() => void look(), Math.max(EVERY_MS, 10 * (Date.now() - began)));
    }
    void look();
    return () => void (isOver = true);
  }, [name, JSON.stringify(args), isLive]);
  return answer;
}
