// The oldest Node that runs the kit. Every entry point imports this file first: on an older Node, SQLite's binding
// would crash the process without a message. It is plain JavaScript so that any Node can read it.
export const OLDEST = 24;

export function tooOld() {
  return Number(process.versions.node.split('.')[0]) < OLDEST;
}

export function refuseRuntime() {
  console.error(
    `This needs Node ${OLDEST} or newer, and runs on ${process.version}. Do one of these:\n` +
      '  npm ci, then npm run or npx   they use the Node 24 that npm installs beside the project (Linux, x64 or arm64)\n' +
      '  nodejs.org/download           a newer Node for this machine',
  );
  process.exit(78);
}
