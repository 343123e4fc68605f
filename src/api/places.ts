/**
 * Places for work that lasts as long as its client likes. One application has its share of them,
 * and some are kept for callers with the scope admin.
 *
 *   W-9  At most `max` places are taken, at most `perApplicationMax` by one application. `adminMin`
 *        places are reserved for admins.
 */

/** Who takes a place. */
export interface PlaceOwner {
  readonly applicationId: string
  /**
   * The work needs the scope admin, or its caller has it. It does not count as its application's.
   */
  readonly isAdmin: boolean
}

interface PlaceLimits {
  readonly max: number
  readonly perApplicationMax: number
  readonly adminMin: number
}

/** Why there is no place: those of the application are taken, or all. */
export type NoPlace = 'all' | 'own'

export class Places {
  readonly #limits: PlaceLimits
  readonly #taken = new Set<PlaceOwner>()

  constructor(limits: PlaceLimits) {
    this.#limits = limits
  }

  /** Places that are taken. */
  get length(): number {
    return this.#taken.size
  }

  /** Takes a place. Returns the function that gives it back, or why there is none. */
  take(owner: PlaceOwner): (() => void) | NoPlace {
    const why = this.#whyNot(owner)
    if (why !== undefined) return why
    const place = { ...owner }
    this.#taken.add(place)
    return () => this.#taken.delete(place)
  }

  #whyNot({ applicationId, isAdmin }: PlaceOwner): NoPlace | undefined {
    const { max, perApplicationMax, adminMin } = this.#limits
    const isFull = this.#taken.size >= max
    if (isAdmin) return isFull ? 'all' : undefined
    const others = [...this.#taken].filter(one => !one.isAdmin)
    const own = others.filter(one => one.applicationId === applicationId)
    if (own.length >= perApplicationMax) return 'own'
    return isFull || others.length >= max - adminMin ? 'all' : undefined
  }
}
