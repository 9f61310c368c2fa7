// Everything that tests of handlers import as '#kit/testing'. All of it is public, so its names must not change.
export * from './tools/testing/deliver.ts';
export * from './tools/testing/fixture.ts';
export * from './tools/testing/recorder.ts';
