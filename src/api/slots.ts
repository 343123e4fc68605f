/**
 * Slots for work that lasts as long as its client likes. One application has its share of them,
 * and some are kept for callers with the scope admin.
 *
 *   W-9  At most `max` slots are taken, at most `perApplicationMax` by one application. `adminMin`
 *        slots are reserved for admins.
 */

export interface SlotOwner {
  readonly applicationId: string
  /** Has the scope admin: the work does not count as its application's. */
  readonly isAdmin: boolean
}

interface SlotLimits {
  readonly max: number
  readonly perApplicationMax: number
  readonly adminMin: number
}

export type NoSlot = 'all' | 'own'

export class Slots {
  readonly #limits: SlotLimits
  readonly #taken = new Set<SlotOwner>()

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
    return () => this.#taken.delete(slot)
  }

  #whyNot({ applicationId, isAdmin }: SlotOwner): NoSlot | undefined {
    const { max, perApplicationMax, adminMin } = this.#limits
    const isFull = this.#taken.size >= max
    if (isAdmin) return isFull ? 'all' : undefined
    const others = [...this.#taken].filter(one => !one.isAdmin)
    const own = others.filter(one => one.applicationId === applicationId)
    if (own.length >= perApplicationMax) return 'own'
    return isFull || others.length >= max - adminMin ? 'all' : undefined
  }
}
