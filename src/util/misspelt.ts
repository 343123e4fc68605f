/** Which known name a misspelt one stands for. */

/** True where one letter is added, left out or another, or two neighbours are swapped, or less. */
export function isOneEditAway(a: string, b: string): boolean {
  const shorter = Math.min(a.length, b.length)
  if (Math.max(a.length, b.length) - shorter > 1) return false
  let begin = 0
  while (begin < shorter && a[begin] === b[begin]) begin += 1
  let end = 0
  while (end < shorter - begin && a[a.length - 1 - end] === b[b.length - 1 - end]) end += 1
  const [left, right] = [a.slice(begin, a.length - end), b.slice(begin, b.length - end)]
  if (left.length <= 1 && right.length <= 1) return true
  return left.length === 2 && right.length === 2 && left[0] === right[1] && left[1] === right[0]
}

/** The letters and digits of a name, without case (ß is ss); each in one form of Unicode. */
export function plain(name: string): string {
  return name
    .normalize('NFKC')
    .toUpperCase()
    .toLowerCase()
    .replaceAll(/[^\p{L}\p{N}]/gu, '')
}

/** True where `given` is `known` in another case, with other signs, or one edit away from it. */
export function isMisspelt(given: string, known: string): boolean {
  // Before any other work: a client chooses the length.
  if (given === known || given.length > 2 * known.length) return false
  return isOneEditAway(plain(given), plain(known))
}

/** Shortest beginning of a name that stands for it. */
const BEGINNING_CHARACTERS_MIN = 3

/** The name that `given` probably stands for; undefined where none or several are near. */
export function likelyName(given: string, names: readonly string[]): string | undefined {
  const near = names.filter(name => isMisspelt(given, name))
  if (near.length > 0) return near.length === 1 ? near[0] : undefined
  const [text, begun] = [plain(given), (name: string) => plain(name).startsWith(plain(given))]
  const longer = text.length < BEGINNING_CHARACTERS_MIN ? [] : names.filter(begun)
  return longer.length === 1 ? longer[0] : undefined
}
