/** The DateTime scalar: out as ISO 8601 UTC with milliseconds, in as a date or a date with time, passed on as given. */
import { GraphQLError, Kind } from './library.ts'

const FORM =
  /^\d{4}-\d{2}-\d{2}(?:[Tt ]\d{2}:\d{2}(?::\d{2}(?:[.,]\d{1,18})?)?(?:[Zz]|[+-]\d{2}(?::?\d{2})?)?)?$/

/** What we answer: from the catalog's ISO text. */
export function serializeDateTime(value: unknown): string {
  return new Date(value as string).toISOString()
}

/** What we are given; the query planner reads the value. */
export function parseDateTime(value: unknown): string {
  if (typeof value === 'string' && FORM.test(value)) return value
  throw new GraphQLError('DateTime must be an ISO 8601 date, or a date with time.')
}

/** The same in a document's text. */
export function parseDateTimeLiteral(node: { readonly kind: string; readonly value?: unknown }): string {
  return parseDateTime(node.kind === Kind.STRING ? node.value : undefined)
}
