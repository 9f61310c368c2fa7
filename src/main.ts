#!/usr/bin/env -S node --max-semi-space-size=16
// Starts receive, run and keep. Compiled code is kept on disk, so that processes start faster and take less memory.
import module from 'node:module';
import { fileURLToPath } from 'node:url';

process.umask(0o077);
process.env['NODE_COMPILE_CACHE'] ??= fileURLToPath(new URL('../node_modules/.cache/compiled', import.meta.url));
module.enableCompileCache(process.env['NODE_COMPILE_CACHE']);
await import('./processes/start.ts');
