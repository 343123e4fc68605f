/**
 * The benchmark's event: 13 fields, about 450 bytes, made from a fixed seed.
 *
 * id, ISO time, tenant, type, amount, quantity, flag, nested customer with address, two items, a
 * user agent, a null.
 */

/** mulberry32, a generator whose state is one number. Source: Tommy Ettinger, public domain. */
export function createRandom(seed: number): () => number {
  let state = seed >>> 0
  return () => {
    state = (state + 0x6d2b79f5) >>> 0
    let mixed = Math.imul(state ^ (state >>> 15), state | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4294967296
  }
}

export const BENCH_SEED = 20261121
export const BATCH_EVENTS = 500
/** Time of the first event. Each next one is a millisecond later. */
const START_MS = Date.UTC(2026, 0, 1)

const TYPES = ['order.created', 'order.paid', 'order.shipped', 'order.refunded', 'cart.updated']
const CITIES = ['Zürich', 'Lisbon', 'Osaka', 'Nairobi', 'Quito', 'Bergen', 'Austin', 'Tallinn']
const NAMES = [
  'Ada Byron',
  'Grace Hopper',
  'Edsger Dijkstra',
  'Barbara Liskov',
  'Tony Hoare',
  'Frances Allen',
]
const AGENT = 'Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 Chrome/142.0'

/** The six unpacked columns of the path benchmark. */
export const BENCH_COLUMNS = [
  { name: 'id', jsonProperty: 'id', type: 'STRING', nullable: false },
  { name: 'time', jsonProperty: 'time', type: 'TIMESTAMP', nullable: false },
  { name: 'tenant', jsonProperty: 'tenant', type: 'STRING', nullable: false },
  { name: 'type', jsonProperty: 'type', type: 'STRING', nullable: true },
  { name: 'amount', jsonProperty: 'amount', type: 'DOUBLE', nullable: true },
  { name: 'quantity', jsonProperty: 'quantity', type: 'INT64', nullable: true },
] as const

/** Event number `index`: the id is 24 characters, with the number in its last 12. */
export function benchEvent(index: number, random: () => number): string {
  const pick = <T>(from: readonly T[]) => from[Math.floor(random() * from.length)] as T
  const item = () => ({
    sku: `SKU-${Math.floor(random() * 9000 + 1000)}`,
    price: Math.round(random() * 9000) / 100,
  })
  return JSON.stringify({
    id: eventId(0, index),
    time: new Date(START_MS + index).toISOString(),
    tenant: `tenant-${String(Math.floor(random() * 1000)).padStart(4, '0')}`,
    type: pick(TYPES),
    amount: Math.round(random() * 100000) / 100,
    quantity: Math.floor(random() * 20) + 1,
    express: random() < 0.3,
    customer: {
      name: pick(NAMES),
      tier: 'gold',
      address: { city: pick(CITIES), zip: String(10000 + Math.floor(random() * 89999)) },
    },
    items: [item(), item()],
    agent: AGENT,
    coupon: null,
    channel: 'web',
    region: 'eu-west-1',
  })
}

/** `evt-` + 8 digits of the producer + 12 digits of the event: every id of a run is distinct. */
export function eventId(producer: number, index: number): string {
  return `evt-${String(producer).padStart(8, '0')}${String(index).padStart(12, '0')}`
}

/** `count` events from the fixed seed. */
export function benchEvents(count: number): string[] {
  const random = createRandom(BENCH_SEED)
  return Array.from({ length: count }, (_, index) => benchEvent(index, random))
}
