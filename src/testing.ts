// Everything that tests of handlers import as '#kit/testing'. All of it is public, so its names must not change.
export { deliver } from './tools/testing/deliver.ts';
export type { DeliverOptions, Outcome, TaskOutcome } from './tools/testing/deliver.ts';
export { fixture, signedRequest } from './tools/testing/fixture.ts';
export type { Fixture, Overrides } from './tools/testing/fixture.ts';
export { crash, recorder, serviceError } from './tools/testing/recorder.ts';
export type { Answer, Answers, Call, Recorder } from './tools/testing/recorder.ts';
export { createClock } from './tools/testing/clock.ts';
export type { TestClock } from './tools/testing/clock.ts';
