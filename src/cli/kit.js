#!/usr/bin/env node
// `npx kit` starts this file. It is plain JavaScript, because npx may run it with the machine's own, older Node:
// npm 10 installs the project's Node, but does not link it into node_modules/.bin.
import { fileURLToPath } from 'node:url';
import { launch } from '../base/node/launch.js';

await launch(fileURLToPath(new URL('main.ts', import.meta.url)), process.argv.slice(2));
