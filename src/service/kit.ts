// Adds the client (`ctx.service`), its types and its error to '#kit'.
import type { Service } from './service.ts';

export { ServiceError } from './errors.ts';
export type { ItemOf, OperationName, ResponseOf } from './operations.ts';
export type { Service };

declare module '../kit.ts' {
  interface Context {
    /** The service's operations. They throw ServiceError, also if no API key is set. */
    readonly service: Service;
  }
}
