export interface Report {
  title: string;
  rows: { what: string; seen: string; violations: string[] }[];
}
