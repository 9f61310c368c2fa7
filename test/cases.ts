// Some tests go through many cases. `npm test` takes a sample of them, and `npm run test:system` takes all.
const all = process.env['ALL_CASES'] === 'yes';

/** How many random cases to try, of this many. */
export const tries = (cases: number): number => (all ? cases : Math.ceil(cases / 8));

/** The whole list, or every eighth item. */
export const sampled = <One>(list: One[]): One[] => (all ? list : list.filter((_, n) => n % 8 === 0));
