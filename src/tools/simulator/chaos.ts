// Chaos: a share of the events is lost, doubled, shuffled or late on its way to the webhook.

/** The longest wait of a delivery that is shuffled, so that later ones overtake it, and of one that is late. */
const WAITS_MS = { shuffled: 2_000, late: 60_000 };

export function createChaos(random: () => number = Math.random) {
  let percent = 0;
  return {
    share: (of: number): void => void (percent = of),
    /** The wait before each delivery of the next event, in milliseconds. An empty list: the event is lost. */
    waits(): number[] {
      if (random() * 100 >= percent) return [0];
      const how = random() * 4;
      if (how < 1) return [];
      if (how < 2) return [0, 0];
      return [random() * (how < 3 ? WAITS_MS.shuffled : WAITS_MS.late)];
    },
  };
}
