#!/usr/bin/env node
// `npx kit`: the command line, on whichever Node npm found.
import { fileURLToPath } from 'node:url';
import { launch } from '../base/node/launch.js';

await launch(fileURLToPath(new URL('main.ts', import.meta.url)), process.argv.slice(2));
