// Replaces one measured section of README.md, below the mark.

const MARK = '<!-- npm run bench -- --readme -->';

/** `section` begins with its title. Throws if the document has no section of this title. */
export function withSection(document: string, title: string, section: string): string {
  const place = new RegExp(`(?<=^${MARK}\n[^]*)^## ${title}\n[^]*?(?=^## |^<!-- bench -->)`, 'm');
  if (!place.test(document)) throw new Error(`README.md has no section ${title}: add its title before <!-- bench -->`);
  return document.replace(place, () => `${section}\n`);
}
