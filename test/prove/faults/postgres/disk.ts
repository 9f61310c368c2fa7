// F50: the disk of the PostgreSQL server is full.
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { fill } from '../disk.ts';
import type { Fault } from '../scene.ts';
import { smallDisk } from '../tools.ts';
import { outage } from './outage.ts';
import { stage } from './scene.ts';

export const disk: Fault[] = [
  {
    numbers: [50],
    what: 'the disk with the tables of the PostgreSQL server is full for 12 s',
    async produce() {
      const small = smallDisk(100);
      const filler = join(small.folder, 'filler');
      try {
        return await stage({ small: { data: small.folder }, allowed: [503] }, (scene) =>
          outage(scene, {
            ms: 12_000,
            rate: 40,
            words: /53100.*disk of the server is full/,
            async begin() {
              fill(filler);
              // The server writes into pages that it has, until one more is needed.
              await scene.admin('create table wide (text text)').catch(() => {});
            },
            end: async () => rmSync(filler),
          }),
        );
      } finally {
        small.remove();
      }
    },
  },
  {
    numbers: [50],
    what: 'the disk with the WAL of the PostgreSQL server is full, so that it stops; it is started again after 12 s',
    async produce() {
      const small = smallDisk(40);
      const filler = join(small.folder, 'filler');
      try {
        return await stage({ small: { wal: small.folder }, allowed: [503] }, (scene) =>
          outage(scene, {
            ms: 12_000,
            async begin() {
              fill(filler);
              await scene.admin('select pg_switch_wal()').catch(() => {});
              await scene.admin('create table wide as select * from generate_series(1, 200000)').catch(() => {});
            },
            async end() {
              rmSync(filler);
              await scene.server.end('SIGQUIT');
              await scene.server.start();
            },
          }),
        );
      } finally {
        small.remove();
      }
    },
  },
];
