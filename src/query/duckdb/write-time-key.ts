/** The key of a time series' interval as SQL of DuckDB: integers, which it computes fast. */
import { type KeyRule, ORIGIN_MS, type Step } from '../expression/time-key.ts'

const ORIGIN_US = usOf(ORIGIN_MS)

/**
 * The key in milliseconds (expression/time-key.ts). All numbers are the own ones of the planner: as
 * parameters they would take twice the time.
 * @param us SQL of microseconds since 1970
 */
export function timeKeySql(us: string, rule: KeyRule): string {
  switch (rule.form) {
    case 'listed':
      return stepsSql(us, rule.keys, value => BigInt(value))
    case 'exact': {
      const even = evenUnits(us, rule)
      if (even !== undefined) return `${even.number} * ${rule.unitMs} - ${even.sinceOriginMs}`
      const sinceOrigin = `${us} + ${stepsSql(us, rule.offsets, value => usOf(value) - ORIGIN_US)}`
      const begin = `${us} - (${sinceOrigin}) % ${usOf(rule.unitMs)}`
      return `(${atLeast(us, begin, rule.floors)}) // 1000`
    }
    case 'calendar': {
      const shown = atLeast(us, `${us} + ${stepsSql(us, rule.offsets, usOf)}`, rule.floors)
      if (typeof rule.unit === 'string')
        return `epoch_ms(date_trunc('${rule.unit}', make_timestamp(${shown})))`
      return `(${shown} - (${ORIGIN_US})) // ${usOf(rule.unit)} * ${rule.unit} + (${ORIGIN_MS})`
    }
  }
}

/**
 * The number of the interval, where it stands for the key: a GROUP BY of it does one division for
 * each row, and the rest of the key for each group. Undefined where a clock changes.
 */
export function intervalNumberSql(us: string, rule: KeyRule): string | undefined {
  return rule.form === 'exact' ? evenUnits(us, rule)?.number : undefined
}

function evenUnits(us: string, { offsets, floors, unitMs }: Extract<KeyRule, { form: 'exact' }>) {
  const [step, ...changes] = offsets
  if (step === undefined || changes.length > 0 || !hasNone(floors)) return undefined
  const sinceOriginMs = step.value - ORIGIN_MS
  return { number: `(${us} + ${usOf(sinceOriginMs)}) // ${usOf(unitMs)}`, sinceOriginMs }
}

function usOf(ms: number): bigint {
  return BigInt(ms) * 1000n
}

function atLeast(us: string, value: string, floors: readonly Step[]): string {
  return hasNone(floors) ? `(${value})` : `GREATEST(${value}, ${stepsSql(us, floors, usOf)})`
}

function hasNone(floors: readonly Step[]): boolean {
  return floors.every(floor => floor.value <= ORIGIN_MS)
}

/** A balanced tree of comparisons: some hundred steps take no more than nine of them. */
function stepsSql(us: string, steps: readonly Step[], write: (value: number) => bigint): string {
  const middle = steps.length >> 1
  const [first] = steps
  const from = steps[middle]
  if (first === undefined || from === undefined || middle === 0)
    return `(${write(first?.value ?? 0)}::BIGINT)`
  const [before, after] = [steps.slice(0, middle), steps.slice(middle)]
  const branches = `THEN ${stepsSql(us, before, write)} ELSE ${stepsSql(us, after, write)}`
  return `CASE WHEN ${us} < (${usOf(from.fromMs)}) ${branches} END`
}
