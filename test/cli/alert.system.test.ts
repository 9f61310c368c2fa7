// `npx kit alert test` with real HTTP endpoints, and the check of doctor that sends nothing.
import { execFile } from 'node:child_process';
import { expect, onTestFinished, test } from 'vitest';
import { listenForAlerts } from '../alarms/alert-endpoint.ts';
import { alerting } from '../../src/cli/doctor/alerting.ts';
import { closed, see, serve } from './harness.ts';

function kit(env: Record<string, string>, ...args: string[]): Promise<{ code: number; out: string }> {
  return new Promise((done) => {
    const options = { env: { PATH: process.env['PATH'], ...env } };
    const child = execFile(process.execPath, ['src/cli/kit.js', 'alert', ...args], options, (_, out, err) =>
      done({ code: child.exitCode ?? -1, out: out + err }),
    );
  });
}

test('a test alarm is posted to ALERT_URL and HEARTBEAT_URL is pinged, and the answers are shown', async () => {
  const { url, bodies, close } = await listenForAlerts((res) => void res.writeHead(202).end());
  onTestFinished(close);
  const pings: (string | undefined)[] = [];
  const beats = await serve((req, res) => {
    pings.push(`${req.method} ${req.url}`);
    res.end();
  });
  const env = { ALERT_URL: url, HEARTBEAT_URL: `${beats}/key`, OPS_ORIGIN: 'https://ops.example.com' };
  expect(await kit(env, 'test')).toEqual({ code: 0, out: 'ALERT_URL took it (202)\nHEARTBEAT_URL took it (200)\n' });
  expect(bodies).toMatchObject([{ name: 'test', gravity: 'test', page: 'https://ops.example.com/' }]);
  expect(bodies[0]?.text).toMatch(/^test: .*nothing is wrong/);
  expect(pings).toEqual(['GET /key']);
});

test('an endpoint that refuses, redirects or is gone is named by its variable, never by its address', async () => {
  const refuses = await serve((_, res) => void res.writeHead(403).end());
  const moved = await serve((_, res) => void res.writeHead(302, { location: '/' }).end());
  const gone = await closed();
  for (const [at, reason] of [
    [refuses, '403'],
    [moved, 'a redirect'],
    [gone, 'ECONNREFUSED'],
  ] as const) {
    const { code, out } = await kit({ ALERT_URL: `${at}/s3cret` }, 'test');
    expect(code).toBe(1);
    expect(out).toBe(
      `ALERT_URL did not take it (${reason}): set it to the address that the service shows, then npx kit reload\n`,
    );
  }
  const { code, out } = await kit({ HEARTBEAT_URL: `${refuses}/s3cret` }, 'test', '--json');
  expect([code, JSON.parse(out)]).toEqual([1, [{ name: 'HEARTBEAT_URL', ok: false, answer: '403' }]]);
});

test('without an address, with a faulty one, or without the word test, the exit code says what is wrong', async () => {
  expect(await kit({}, 'test')).toMatchObject({ code: 78, out: expect.stringContaining('nobody is told') });
  const faulty = await kit({ ALERT_URL: 'mailto:s3cret' }, 'test');
  expect(faulty).toMatchObject({ code: 78, out: expect.stringContaining('ALERT_URL must be an http(s) address') });
  expect(faulty.out).not.toContain('s3cret');
  expect((await kit({ ALERT_URL: 'http://127.0.0.1:1/' })).code).toBe(2);
});

test('doctor connects to both addresses, sends nothing, and shows neither', async () => {
  let requests = 0;
  const works = await serve((_, res) => {
    requests++;
    res.end();
  });
  const gone = await closed();
  const { text, exit } = await see([alerting], { ALERT_URL: `${works}/s3cret`, HEARTBEAT_URL: `${gone}/s3cret` });
  expect(text).toContain('ok alerting: ALERT_URL can be reached. npx kit alert test tries it');
  expect(text).toContain('warning alerting: HEARTBEAT_URL cannot be reached (ECONNREFUSED)');
  expect(text).not.toMatch(/s3cret|127\.0\.0\.1/);
  expect([exit, requests]).toEqual([0, 0]);
  expect((await see([alerting], { ALERT_URL: 'https://no-such-host.invalid/' })).text).toContain('(ENOTFOUND)');
  expect((await see([alerting], {})).text).toContain('skipped alerting: because ALERT_URL is not set');
});
