// Everything that tests of handlers import as '#kit/testing'. All of it is public, so its names must not change.
// A fault in it fails the tests, though the kit would do without it.
import './events.ts';

export * from './tools/testing/deliver.ts';
export * from './tools/testing/fixture.ts';
export * from './tools/testing/recorder.ts';
