// Some tests go through many cases. `npm test` takes a sample of them, and `npm run test:system` takes all.
const all = process.env['ALL_CASES'] === 'yes';

/** The number of random cases to run: all `cases`, or an eighth of them. */
export const tries = (cases: number): number => (all ? cases : Math.ceil(cases / 8));

/** The whole list of cases, or every eighth one. */
export const sampled = <One>(list: One[]): One[] => (all ? list : list.filter((_, n) => n % 8 === 0));
