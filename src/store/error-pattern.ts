// The pattern that the errors of one group of dead letters share.

/**
 * Replaces those parts of an error that differ between events or may be personal data: quoted text, addresses, and
 * words with a digit. At most 160 characters.
 */
export function patternOf(error: string): string {
  return error
    .slice(0, 500)
    .replaceAll(/(["`]).{0,200}?\1|(?<!\w)'.{0,200}?'(?!\w)|[“«„].{0,200}?[”»“]/gsu, '…')
    .replaceAll(/[a-z]{2,10}:\/\/\S+|[^\s@]{1,64}@[^\s@]+/giu, '…')
    .replaceAll(/(?<![\p{L}\p{N}])(?=[\p{L}_-]{0,99}\p{N})[\p{L}\p{N}_+-]+/gu, '#')
    .replaceAll(/\+?#(?:[\s.,:()+-]*#)+/g, '#')
    .replaceAll(/[\s\p{C}]+/gu, ' ')
    .trim()
    .slice(0, 160);
}
