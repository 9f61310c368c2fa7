// The pattern that the errors of one group of dead letters share. Ids, numbers and texts of people are left out of it;
// codes stay, because they tell causes apart.

const QUOTED = /(["`]).{0,200}?\1|(?<!\w)'.{0,200}?'(?!\w)|[“«„].{0,200}?[”»“]/gsu;
const WITH_DIGIT = /(?<![\p{L}\p{N}])(?=[\p{L}_-]{0,99}\p{N})[\p{L}\p{N}_+-]+/gu;

/** Words of a reason: NOT_FOUND, ERR_HTTP2_STREAM_CANCEL, E2BIG, and names of constraints and tables. */
const REASON = /^(?:(?:[A-Z]+\d{0,3}_)+[A-Z]+|[a-z]+(?:_[a-z]+)+|E\d[A-Z]+)$/;
/** Short identifiers, for example P2002; with a hyphen, as in ORA-00942, only before a colon. */
const IDENTIFIER = /^[A-Z]{1,4}\d{1,5}$/;
const HYPHENED = /^[A-Z]{2,5}-\d{1,5}$/;
/** HTTP statuses of failures that are in use. */
const HTTP_FAILURE = /^(?:4(?:0\d|1[0-8]|2[1-689]|31|51|99)|5(?:0[0-8]|1[01]|2[0-7]|30))$/;
/** A SQLSTATE of a known class. */
const SQLSTATE = /^(?:0[0-389ABFLPZ]|2[0-8BDF]|3[489BDF]|4[024]|5[34578]|72|F0|HV|P0|XX)[0-9A-Z]{3}$/;
/** Only small numbers and short words after one of these words are codes: an id may follow as well. */
const NAME = 'http(?:\\/[\\d.]+)?|status|code|sqlstate|errno|reason|signal|exit(?:ed)?(?: with)?';
const ONLY_NAME = new RegExp(`^(?:${NAME})$`, 'i');
const AFTER_NAME = new RegExp(`(?:\\b(?:${NAME})["']?[\\s:=#([{]*|\\berror [#(]?)$`, 'i');
const NAMED = /^(?:-?\d{1,4}|[A-Z]{1,8}-?\d{0,5})$/;

/**
 * Replaces those parts of an error that differ between events or may be personal data: quoted text, addresses, and
 * words with a digit. At most 160 characters.
 */
export function patternOf(error: string): string {
  const text = error.slice(0, 500);
  return text
    .replaceAll(QUOTED, (quoted, ...rest) => {
      const at = Number(rest.find((part) => typeof part === 'number'));
      const word = quoted.slice(1, -1);
      return REASON.test(word) || ONLY_NAME.test(word) || isNamed(word, text.slice(0, at)) ? word : '…';
    })
    .replaceAll(/[a-z]{2,10}:\/\/\S+|[^\s@]{1,64}@[^\s@]+/giu, '…')
    .replaceAll(WITH_DIGIT, (word, at: number, whole: string) =>
      isCode(word, whole.slice(0, at), whole.slice(at + word.length)) ? word : '#',
    )
    .replaceAll(/\+?#(?:[\s.,:()+-]*#)+/g, '#')
    .replaceAll(/[\s\p{C}]+/gu, ' ')
    .trim()
    .slice(0, 160);
}

function isCode(word: string, before: string, after: string): boolean {
  if (REASON.test(word) || isNamed(word, before)) return true;
  // Beside other digits, a number is a part of a phone number, a time or a place in a file.
  if (/[\p{N}+][\s.,()+-]*$|\S:$/u.test(before) || /^[\s.,()+-]*\p{N}/u.test(after)) return false;
  if (IDENTIFIER.test(word) || (HYPHENED.test(word) && /^:\s/.test(after))) return true;
  if (HTTP_FAILURE.test(word)) return !/^ ?(?:[mµn]?s|[kMG]?i?B|bytes|seconds|%)\b/.test(after);
  // Five digits alone may be an id, so a SQLSTATE needs a letter, or stands first, in brackets or before a colon.
  return SQLSTATE.test(word) && (/[A-Z]/.test(word) || /error: $/i.test(before) || /^[)\]]|^:\s/.test(after));
}

/** Whether the word before says that this one is a code. */
function isNamed(word: string, before: string): boolean {
  return (NAMED.test(word) || SQLSTATE.test(word)) && AFTER_NAME.test(before.slice(-40));
}
