// The oldest Node that runs the kit. Imported first by every entry point: on an older one SQLite's binding would crash
// the process instead of saying so. Plain JavaScript, for any Node to read.
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
