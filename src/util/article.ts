/** A noun of a message with its article: `an INT32 value`, `a DATE value`. */
export function withArticle(noun: string): string {
  return `${'AEIOUaeiou'.includes(noun.charAt(0)) ? 'an' : 'a'} ${noun}`
}
