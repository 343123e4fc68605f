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

/** Why there is no place: all are taken, or those of the application. */
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
    if (this.#taken.size >= max) return 'all'
    if (isAdmin) return undefined
    const others = [...this.#taken].filter(one => !one.isAdmin)
    if (others.length >= max - adminMin) return 'all'
    const own = others.filter(one => one.applicationId === applicationId)
    return own.length >= perApplicationMax ? 'own' : undefined
  }
}
