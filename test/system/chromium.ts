// The browser of the tests. Without one they are skipped, and say so.
import { existsSync } from 'node:fs';

export const CHROMIUM = ['/usr/bin/chromium', '/usr/bin/chromium-browser', '/usr/bin/google-chrome'].find((path) =>
  existsSync(path),
);

if (!CHROMIUM) process.stderr.write('no chromium: no page is tested in a browser (apt-get install chromium)\n');
