// Pauses a handler, or all of them: their tasks wait in order.
import { pauseHandler } from '../../admin/handlers.ts';
import { brake } from '../lib/brake.ts';
import type { Command } from '../lib/command.ts';

export default {
  summary: 'stop a handler, or all; their tasks wait in order',
  usage: 'pause <handler> [--reason TEXT] | pause --all [--reason TEXT]',
  run: (args) => brake(args, (store, handler, reason) => pauseHandler(store, { handler, reason }, store.now())),
} satisfies Command;
