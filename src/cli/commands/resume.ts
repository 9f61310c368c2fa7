// Ends the pause of a handler, or of all of them.
import { resumeHandler } from '../../admin/handlers.ts';
import type { Command } from '../lib/command.ts';
import { changePause } from './pause.ts';

export default {
  summary: 'let a paused handler, or all, go on',
  usage: 'resume <handler> | resume --all',
  run: (args) => changePause(args, (store, handler) => resumeHandler(store, handler, store.now())),
} satisfies Command;
