// Stub until its owner writes it.
import type { ReadStore } from '../read.ts';

export const createRead = (..._parts: unknown[]): ReadStore => ({});
