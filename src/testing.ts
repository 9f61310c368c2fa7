// Everything that tests of handlers import as '#kit/testing'. All of it is public, so its names must not change.
// Because of this import, a fault in events.ts fails the tests. The kit itself would run without the file.
import './events.ts';

export * from './tools/testing/deliver.ts';
export * from './tools/testing/fixture.ts';
export * from './tools/testing/recorder.ts';
