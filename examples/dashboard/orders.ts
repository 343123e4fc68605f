/** The sample events of the dashboard: the orders of three months in six cities. */

/** The columns of the pool. The rest of each event stays in the payload. */
export const COLUMNS = [
  { name: 'order_id', jsonProperty: 'order_id', type: 'STRING', nullable: false },
  { name: 'ordered_at', jsonProperty: 'ordered_at', type: 'TIMESTAMP', nullable: false },
  { name: 'city', jsonProperty: 'shop.city', type: 'STRING', nullable: true },
  { name: 'product', jsonProperty: 'product', type: 'STRING', nullable: true },
  { name: 'customer', jsonProperty: 'customer', type: 'STRING', nullable: true },
  { name: 'quantity', jsonProperty: 'quantity', type: 'INT32', nullable: true },
  { name: 'price', jsonProperty: 'price', type: 'DOUBLE', nullable: true },
]

const CITIES = ['Lisbon', 'Oslo', 'Kraków', 'Berlin', 'Lyon', 'Turin']
const PRODUCTS: readonly (readonly [name: string, price: number])[] = [
  ['Taco', 3.5],
  ['Burrito', 8.25],
  ['Soup', 5.75],
  ['Lemonade', 2.5],
  ['Quesadilla', 6.5],
  ['Churros', 4],
  ['Salad', 7.25],
  ['Coffee', 2.75],
]
const ORDERS = 6_000
const CUSTOMERS = 900
const DAY_MS = 86_400_000
const RANGE_MS = 90 * DAY_MS

/** Orders of the 90 days before `nowMs`, the oldest first: more at noon, and more each month. */
export function sampleOrders(nowMs: number): object[] {
  const random = fixedRandom()
  const times = Array.from({ length: ORDERS }, () => {
    const ms = nowMs - RANGE_MS * (1 - Math.sqrt(random()))
    const hourOfDay = 6 + 6 * (random() + random() + random())
    const orderedMs = ms - (ms % DAY_MS) + hourOfDay * 3_600_000
    return orderedMs > nowMs ? orderedMs - DAY_MS : orderedMs
  })
  return times
    .sort((a, b) => a - b)
    .map((ms, n) => {
      const [product, price] = pick(PRODUCTS, random() ** 1.5)
      return {
        order_id: `order-${n}`,
        ordered_at: new Date(ms).toISOString(),
        shop: { city: pick(CITIES, random() ** 1.7) },
        product,
        customer: `customer-${Math.floor(CUSTOMERS * random())}`,
        quantity: 1 + Math.floor(4 * random() ** 2),
        price,
      }
    })
}

/** @param share 0 to 1 */
const pick = <T>(list: readonly T[], share: number): T => list[Math.floor(share * list.length)] as T

/** The same numbers from 0 to 1 at each start (the generator mulberry32). */
function fixedRandom(): () => number {
  let state = 1
  return () => {
    state = (state + 0x6d2b79f5) | 0
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state)
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }
}
