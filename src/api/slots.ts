/**
 * Slots for work that lasts as long as its client likes. Applications share them (util/shares.ts),
 * and some are kept for callers with the scope admin.
 *
 *   W-9  At most `max` slots are taken. `adminMin` slots are reserved for admins.
 */
import { monotonicMs } from '../util/clock.ts'
import { mayTake } from '../util/shares.ts'

export interface SlotOwner {
  readonly applicationId: string
  /** Has the scope admin: the work does not count as its application's. */
  readonly isAdmin: boolean
}

interface SlotLimits {
  readonly max: number
  readonly adminMin: number
  /** Of one application; absent: what its share allows. */
  readonly perApplicationMax?: number
}

export type NoSlot = 'all' | 'own'

export class Slots {
  readonly #limits: SlotLimits
  readonly #taken = new Set<SlotOwner>()
  /** Of those that wait for a slot. */
  readonly #wakes = new Set<() => void>()

  constructor(limits: SlotLimits) {
    this.#limits = limits
  }

  get length(): number {
    return this.#taken.size
  }

  /** Takes a slot. Returns the function that gives it back, or why there is none. */
  take(owner: SlotOwner): (() => void) | NoSlot {
    const why = this.#whyNot(owner)
    if (why !== undefined) return why
    const slot = { ...owner }
    this.#taken.add(slot)
    return () => {
      if (this.#taken.delete(slot)) this.wake()
    }
  }

  /** Waits for a slot for `ms`, or until nobody wants it. The caller bounds who waits. */
  async takeWithin(owner: SlotOwner, ms: number, isOver: () => boolean): Promise<(() => void) | NoSlot> {
    const untilMs = monotonicMs() + ms
    for (;;) {
      if (isOver()) return 'all'
      const slot = this.take(owner)
      const leftMs = untilMs - monotonicMs()
      if (typeof slot === 'function' || leftMs <= 0) return slot
      await new Promise<void>(resolve => {
        const wake = () => {
          clearTimeout(timer)
          this.#wakes.delete(wake)
          resolve()
        }
        const timer = setTimeout(wake, leftMs)
        this.#wakes.add(wake)
      })
    }
  }

  /** Those that wait look again, in the order in which they came. */
  wake(): void {
    for (const wake of [...this.#wakes]) wake()
  }

  /** The slots of an application, without those as admin. */
  of(applicationId: string): number {
    return this.#others().filter(one => one.applicationId === applicationId).length
  }

  /** Slots that are free for callers without the scope admin. */
  get free(): number {
    const { max, adminMin } = this.#limits
    return Math.min(max - this.#taken.size, max - adminMin - this.#others().length)
  }

  #others(): SlotOwner[] {
    return [...this.#taken].filter(one => !one.isAdmin)
  }

  #whyNot({ applicationId, isAdmin }: SlotOwner): NoSlot | undefined {
    const { max, perApplicationMax = max } = this.#limits
    if (isAdmin) return this.#taken.size >= max ? 'all' : undefined
    const own = this.of(applicationId)
    if (own < perApplicationMax && mayTake(own, this.free)) return undefined
    return own > 0 ? 'own' : 'all'
  }
}
