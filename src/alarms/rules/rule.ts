// The shape of an alarm. A rule is a pure function of an observation: whether the alarm fires, and with which text.
import type { DeliveryTrouble } from '../../keep/module.ts';
import { FAILURES_ALLOWED } from '../../receive/delivery-health.ts';
import type { Firing } from '../raised.ts';

/** Rules by the public name of the alarm, as in `npx kit status`, `kit_alarm`, posts, alerts.yaml and runbook.md. */
export type Rules<Seen> = Record<string, Rule<Seen>>;

export interface Rule<Seen> {
  /**
   * `critical`: events are lost or late, or soon will be. The gravity sets the colour of the page and the severity in
   * alerts.yaml.
   */
  gravity: 'critical' | 'warning';
  /** What happens to deliveries while the alarm fires. Absent: the alarm says nothing about them. */
  deliveries?: DeliveryTrouble;
  /** What to do, in one sentence. It is the description in alerts.yaml, beside the link to the runbook. */
  remedy: string;
  /** The path of the ops screen where it is remedied. Absent: the overview. */
  page?: string;
  fires(seen: Seen): boolean;
  /** At least 1. People are notified again when it rises. */
  level?(seen: Seen): number;
  /** A number. People are notified again when it grows, even if the level stays the same. */
  news?(seen: Seen): number;
  /** Says what happened, to what, and what to do. */
  words(seen: Seen): string;
}

/** `kit`: how `npx kit` is typed, so that it finds this store. */
export function evaluate<Seen>(rules: Rules<Seen>, seen: Seen, kit = 'npx kit'): Map<string, Firing> {
  const firing = new Map<string, Firing>();
  for (const [name, rule] of Object.entries(rules)) {
    if (!rule.fires(seen)) continue;
    const level = Math.max(1, rule.level?.(seen) ?? 1);
    // The words of an earlier look may be repeated.
    const detail = rule.words(seen).replaceAll(/(?<! PORT=\d+ )npx kit/g, () => kit);
    firing.set(name, { detail, level, news: rule.news?.(seen) ?? 0 });
  }
  return firing;
}

/** The level of a count: 1 from 1 on, 2 from `base` on, 3 from the square of `base` on. */
export function magnitude(count: number, base = 10): number {
  // A loop, because logarithms are inexact.
  let level = 0;
  for (let least = 1; count >= least; least *= base) level++;
  return level;
}

/** The end of an alarm's text: whether the service has switched the webhook off, and what to do then. */
export function switchedOff(failures: number, recovers: boolean): string {
  if (failures < FAILURES_ALLOWED) return `; at ${FAILURES_ALLOWED} in a row the service switches the webhook off`;
  const missed = recovers ? 'replay brings what it missed' : 'what it missed stays missing';
  return `. At ${FAILURES_ALLOWED} in a row the service has switched the webhook off: enable it there as well; ${missed}`;
}
