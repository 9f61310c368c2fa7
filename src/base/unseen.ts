// Characters that could hide or reorder a sender's text on a page or in a terminal.

/** Control characters except tab and line feed, characters without width, and characters that change the direction. */
export const UNSEEN =
  // oxlint-disable-next-line no-control-regex -- these are the characters to find
  /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]/g;

/**
 * Writes all characters of a line of JSON that can control a terminal as `\uXXXX`, `\n` and so on, so that they are
 * shown as such when its strings are printed.
 */
export function withShownEscapes(json: string): string {
  return json
    .replaceAll(/\\(["\\/])|\\/g, (found, kept) => (kept ? found : '\\\\'))
    .replaceAll(UNSEEN, (sign) => `\\\\u${sign.charCodeAt(0).toString(16).padStart(4, '0')}`);
}
