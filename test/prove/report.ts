// What a campaign has done and seen.
export interface Report {
  title: string;
  rows: { what: string; seen: string; violations: string[] }[];
}
