// Checks what a caller sent.
import type { z } from 'zod';
import { Refusal } from './refusal.ts';

/** Throws Refusal 400 with this reason if the schema rejects the value. */
export function valid<Shape>(schema: z.ZodType<Shape>, value: unknown, reason: string): Shape {
  const parsed = schema.safeParse(value);
  if (!parsed.success) throw new Refusal(400, reason);
  return parsed.data;
}
