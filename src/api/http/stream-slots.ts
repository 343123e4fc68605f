/**
 * The slots of streams, and the streams that wait for one: those of the application with least
 * slots first. A stream that waits takes the slot of one whose client reads nothing, of its own
 * application or of one that has more.
 *
 *   W-9  At most STREAMS_WAITING_MAX streams wait, in shares of applications, at most
 *        STREAM_WAIT_MS; then they get 503.
 */
import { monotonicMs } from '../../util/clock.ts'
import { Shares } from '../../util/shares.ts'
import type { Reply, StreamAnswer } from '../api-types.ts'
import { problemReply, refuse } from '../problem.ts'
import { type NoSlot, type SlotOwner, Slots } from '../slots.ts'
import type { Responder } from './responder.ts'

/**
 * Streams at once, in shares of applications: 8, 4, 2 and 1 of four. Each may hold a file in
 * data/tmp, some 4 MiB of chunks and a pinned manifest.
 */
export const STREAMS_MAX = 16
/** Streams for routes of scope admin only, so that readers never keep a backup out. */
export const STREAMS_ADMIN_MIN = 1
/** Streams that wait for a slot; one more is 503. Each holds its connection and its parameters. */
const STREAMS_WAITING_MAX = 256
/** Exports to Parquet at once: files in data/tmp from their copy to the end of their download. */
export const FILE_EXPORTS_MAX = 3
const FILE_EXPORTS_PER_APPLICATION_MAX = 1

type Kind = 'stream' | 'file'

const BUSY: Readonly<Record<Kind, Readonly<Record<NoSlot, Reply>>>> = {
  stream: {
    all: busy('too many streams are under way'),
    own: busy('this application has its share of the streams under way: read or close them'),
  },
  file: {
    all: busy(`${FILE_EXPORTS_MAX} exports to Parquet are under way`),
    own: busy('another export to Parquet of this application is under way: read or close it'),
  },
}

function busy(message: string): Reply {
  return problemReply(refuse(503, 'busy', message))
}

interface Missing {
  readonly kind: Kind
  readonly why: NoSlot
}

type Leave = () => void

interface Waiter {
  readonly answer: StreamAnswer
  readonly untilMs: number
  /** A stream was closed for this one, and its slot is not free yet. */
  hasVictim: boolean
  readonly end: (result: Leave | Reply) => void
}

/** Closes an idle stream, of those that `isWanted` tells. Returns false where there is none. */
type CloseIdle = (isWanted: (answer: StreamAnswer) => boolean, nowMs: number) => boolean

export class StreamSlots {
  readonly #waitMs: number
  readonly #closeIdle: CloseIdle
  /** Streams that have not begun, and ended ones whose sources are not closed, count too. */
  readonly #streams = new Slots({
    max: STREAMS_MAX,
    adminMin: STREAMS_ADMIN_MIN,
  })
  /** Slots of streams that are files, which have a slot of a stream too. */
  readonly #files = new Slots({
    max: FILE_EXPORTS_MAX,
    perApplicationMax: FILE_EXPORTS_PER_APPLICATION_MAX,
    adminMin: 0,
  })
  /** In the order in which they came. */
  readonly #waiting = new Set<Waiter>()
  readonly #waitingShares = new Shares(STREAMS_WAITING_MAX)

  constructor(waitMs: number, closeIdle: CloseIdle) {
    this.#waitMs = waitMs
    this.#closeIdle = closeIdle
  }

  get length(): number {
    return this.#streams.length
  }

  /** Resolves with the function that gives the slot back, or with the refusal. */
  take(responder: Responder, answer: StreamAnswer): Promise<Leave | Reply> {
    const missing = this.#tryTake(answer)
    if (typeof missing === 'function') return Promise.resolve(missing)
    const { applicationId } = answer.owner
    if (!this.#waitingShares.tryTake(applicationId)) return Promise.resolve(BUSY[missing.kind][missing.why])
    return new Promise(resolve => {
      const end = (result: Leave | Reply) => {
        if (this.#waiting.delete(waiter)) this.#waitingShares.give(applicationId)
        resolve(result)
      }
      const nowMs = monotonicMs()
      const waiter: Waiter = { answer, untilMs: nowMs + this.#waitMs, hasVictim: false, end }
      this.#waiting.add(waiter)
      const gone = responder.onGone
      responder.onGone = () => {
        gone()
        end(BUSY[missing.kind][missing.why]) // nobody reads it
      }
      this.tick(nowMs)
    })
  }

  /** Gives slots to streams that wait, makes some free, and refuses those that waited long. */
  tick(nowMs: number): void {
    const of = ({ answer }: Waiter) => this.#streams.of(answer.owner.applicationId)
    for (const waiter of [...this.#waiting].sort((a, b) => of(a) - of(b))) {
      const missing = this.#tryTake(waiter.answer)
      if (typeof missing === 'function') waiter.end(missing)
      else if (waiter.untilMs <= nowMs) waiter.end(BUSY[missing.kind][missing.why])
      else if (!waiter.hasVictim) waiter.hasVictim = this.#closeFor(waiter.answer.owner, missing, nowMs)
    }
  }

  #closeFor({ applicationId, isAdmin }: SlotOwner, { kind, why }: Missing, nowMs: number): boolean {
    const slots = kind === 'file' ? this.#files : this.#streams
    const own = slots.of(applicationId)
    // Where others came later, one of its own slots would be theirs.
    const isOwnEnough = why === 'own' && (kind === 'file' || own <= slots.free + 1)
    return this.#closeIdle(({ owner, isFile }) => {
      if (kind === 'file' && isFile !== true) return false
      if (isAdmin) return true
      if (owner.isAdmin) return false
      return owner.applicationId === applicationId ? isOwnEnough : slots.of(owner.applicationId) > own
    }, nowMs)
  }

  #tryTake({ owner, isFile }: StreamAnswer): Leave | Missing {
    const file = isFile === true ? this.#files.take(owner) : () => true
    if (typeof file === 'string') return { kind: 'file', why: file }
    const stream = this.#streams.take(owner)
    if (typeof stream === 'string') {
      file()
      return { kind: 'stream', why: stream }
    }
    return () => {
      file()
      stream()
      for (const waiter of this.#waiting) waiter.hasVictim = false // one may not be enough
      this.tick(monotonicMs())
    }
  }
}
