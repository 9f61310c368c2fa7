// The whole access decision as tables. access.test.ts tests that the API and the pages follow it.
import { describe, expect, test } from 'vitest';
import { decide, isKnownHost, sourceOf, type Decision, type What, type Who } from '../../src/ops/decision.ts';

const WHAT: What[] = ['read', 'change', 'reveal'];

describe('a request with ours: true', () => {
  test.each<[Who, boolean, Decision[]]>([
    ['anonymous', true, ['unknown', 'unknown', 'unknown']],
    ['reader', true, ['allowed', 'forbidden', 'forbidden']],
    ['writer', true, ['allowed', 'allowed', 'allowed']],
    ['anonymous', false, ['unknown', 'unknown', 'unknown']],
    ['reader', false, ['allowed', 'forbidden', 'forbidden']],
    ['writer', false, ['allowed', 'allowed', 'forbidden']],
  ])('of a %s, with canReveal: %s', (who, canReveal, decisions) => {
    expect(WHAT.map((what) => decide({ who, what, ours: true, canReveal }))).toEqual(decisions);
  });
});

test('a request with ours: false is refused, whoever sent it and whatever it asks for', () => {
  for (const who of ['anonymous', 'reader', 'writer'] as const)
    for (const what of WHAT) expect(decide({ who, what, ours: false, canReveal: true })).toBe('elsewhere');
});

describe('the source of a request', () => {
  const outside = new URL('https://ops.example.com');
  const own = 'http://localhost:3001';

  test.each<[method: string, origin: string, site: string, source: ReturnType<typeof sourceOf>]>([
    ['GET', '', '', 'program'],
    ['POST', '', '', 'program'],
    ['POST', '', 'none', 'program'],
    ['POST', '', 'same-origin', 'page'],
    ['POST', own, '', 'page'],
    ['POST', own, 'same-origin', 'page'],
    ['GET', own, 'cross-site', 'page'],
    ['POST', own, 'cross-site', 'elsewhere'],
    ['POST', '', 'same-site', 'elsewhere'],
    ['GET', '', 'cross-site', 'program'],
    ['GET', 'https://evil.example', '', 'elsewhere'],
    ['POST', 'https://evil.example', 'same-origin', 'elsewhere'],
    ['POST', 'null', '', 'elsewhere'],
    ['POST', 'garbage', '', 'elsewhere'],
    ['POST', 'https://ops.example.com', '', 'page'],
    ['POST', 'http://ops.example.com:81', '', 'elsewhere'],
  ])('%s with Origin %j and Sec-Fetch-Site %j has the source %4$s', (method, origin, site, source) => {
    expect(sourceOf({ method, host: 'localhost:3001', origin, site }, outside)).toBe(source);
  });

  test.each<[host: string, known: boolean]>([
    ['localhost', true],
    ['LOCALHOST:80', true],
    ['127.0.0.1:3001', true],
    ['[::1]:3001', true],
    ['ops.example.com', true],
    ['ops.example.com.evil.example', false],
    ['localhost.evil.example', false],
    ['evil.example@127.0.0.1', false],
    ['0.0.0.0:3001', false],
    ['', false],
  ])('the Host %j is known: %s', (host, known) => expect(isKnownHost(host, outside)).toBe(known));
});
