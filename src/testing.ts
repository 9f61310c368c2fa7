// What tests of handlers import as '#kit/testing'. Everything here is public: names stay.
export { deliver } from './testing/deliver.ts';
export type { DeliverOptions, Outcome, TaskOutcome } from './testing/deliver.ts';
export { fixture, signedRequest } from './testing/fixture.ts';
export type { Fixture, Overrides } from './testing/fixture.ts';
export { crash, recorder, serviceError } from './testing/recorder.ts';
export type { Answer, Answers, Call, Recorder } from './testing/recorder.ts';
export { createClock } from './testing/clock.ts';
export type { TestClock } from './testing/clock.ts';
