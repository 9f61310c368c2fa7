// Chaos: a share of the events is lost, doubled, shuffled or late on its way to the webhook.

/** The longest wait before a shuffled delivery, which later ones overtake, and before a late one. */
const WAITS_MS = { shuffled: 2_000, late: 60_000 };

export function createChaos(random: () => number = Math.random) {
  let percent = 0;
  return {
    /** Sets how many of 100 events meet chaos. 0: none. */
    share: (of: number): void => void (percent = of),
    /** Milliseconds before each delivery of the next event. None: it is lost. */
    waits(): number[] {
      if (random() * 100 >= percent) return [0];
      const how = random() * 4;
      if (how < 1) return [];
      if (how < 2) return [0, 0];
      return [random() * (how < 3 ? WAITS_MS.shuffled : WAITS_MS.late)];
    },
  };
}
