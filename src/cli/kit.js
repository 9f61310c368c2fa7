#!/usr/bin/env node
// `npx kit`. It is plain JavaScript, because an older Node of the machine may run it.
import process from 'node:process';

if (Number(process.versions.node.split('.')[0]) < 24) {
  console.error(`npx kit needs Node 24 or newer, but runs on ${process.version}: run npm ci, then npx kit again`);
  process.exit(78);
}
await import('./main.ts');
