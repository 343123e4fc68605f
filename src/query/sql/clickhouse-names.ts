/** ClickHouse's names in backquotes. */
import { SQL_TEXT_BYTES_MAX } from '../../util/limits.ts'
import { endOfPart } from '../expression/lexical.ts'

/** The text with `name` written as "name". A backquote without its end stays as it is. */
export function readClickHouseNames(text: string): string {
  // The parser refuses it.
  if (text.length > SQL_TEXT_BYTES_MAX) return text
  let out = ''
  for (let at = 0; at < text.length; ) {
    const close = text.charAt(at) === '`' ? text.indexOf('`', at + 1) : -1
    const end = close < 0 ? endOfPart(text, at) : close + 1
    const part = text.slice(at, end)
    out += close < 0 ? part : `"${part.slice(1, -1).replaceAll('"', '""')}"`
    at = end
  }
  return out
}
