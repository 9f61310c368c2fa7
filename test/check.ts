// `npm run check`: types, lint, format and dead code. Each part runs even if one before it has failed, and says how to
// fix what it has found.
import { spawnSync } from 'node:child_process';

const FIXES = {
  'check:types': 'correct the types',
  'check:lint': 'correct the code: npx oxlint --type-aware --fix does a part',
  'check:format': 'npm run format',
  'check:unused': 'delete what nothing uses, or name an entry point in knip.json',
};

const failed = Object.entries(FIXES).filter(([part]) => {
  console.log(`> ${part}`);
  return spawnSync('npm', ['run', '-s', part], { stdio: 'inherit' }).status !== 0;
});
for (const [part, fix] of failed) console.error(`✗ ${part}: ${fix}`);
if (failed.length === 0) console.log('✓ every part holds');
process.exitCode = failed.length === 0 ? 0 : 1;
