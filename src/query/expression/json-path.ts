/** Paths into JSON values. Inside of Weir a path is a JSON pointer (RFC 6901), such as `/a/b/0`. */

/** The pointer of a key, or of a path such as `$.a."b c"[0]`; undefined if it is neither. */
export function pointerOf(text: string): string | undefined {
  if (!text.startsWith('$')) return step(text)
  let pointer = ''
  for (let at = 1; at < text.length; ) {
    const rest = text.slice(at)
    const [whole, name, quoted, index] = STEP.exec(rest) ?? []
    const key = name ?? quoted ?? index
    if (whole === undefined || key === undefined) return undefined
    pointer += step(key)
    at += whole.length
  }
  return pointer
}

/** `.name`, `."any name"` or `[0]`. No wildcard: it has many values. */
const STEP = /^(?:\.([\w-]{1,1024})|\."([^"\\]{0,1024})"|\[(\d{1,9})\])/

/** One more step of a pointer. */
export function step(key: string): string {
  return `/${key.replaceAll('~', '~0').replaceAll('/', '~1')}`
}
