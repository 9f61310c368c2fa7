#!/usr/bin/env node
// `npx kit`. It is plain JavaScript, because a machine's own, older Node may run it.
import process from 'node:process';

if (Number(process.versions.node.split('.')[0]) < 24) {
  console.error(`This needs Node 24 or newer, and runs on ${process.version}: run npm ci, then npx kit`);
  process.exit(78);
}
await import('./main.ts');
