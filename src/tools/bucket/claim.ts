/**
 * The claim of a backup on the folder of its bucket: an object in `working/`, renewed while the
 * backup works. Only one backup writes to a prefix or removes from it at a time, so retention never
 * removes an object that another backup counts on.
 *
 * Whoever comes writes its claim and then lists all claims. Of two that come at once both see the
 * other one, and both go. A claim that was not renewed for CLAIM_DEAD_MS, by the bucket's own
 * clock, is of a backup that died. One that only slept finds its claim gone, renewed too late, or
 * another one beside it, before it names a backup or removes an object.
 *
 * A data folder notes its claim in a file until the claim is removed. Only one backup of a folder
 * runs at a time, so the claim that the file names is of one that died: the next one removes it. In
 * a copy of the folder it may be of one that works, so the file says where it was written.
 */
import { randomBytes } from 'node:crypto'
import { statSync } from 'node:fs'
import { hostname } from 'node:os'
import { dirname } from 'node:path'
import { monotonicMs, wallMs } from '../../util/clock.ts'
import { disk, readFile, replaceFile } from '../../util/disk.ts'
import { Unavailable } from '../../util/errors.ts'
import type { S3Client } from './s3-client.ts'

const CLAIMS = 'working/'
const RENEW_MS = 30_000
export const CLAIM_DEAD_MS = 5 * 60_000
/** Time for which a look at the claims is good. A machine that sleeps moves its wall clock only. */
const LOOK_MS = 10_000

export class Claim {
  readonly #client: S3Client
  readonly #name: string
  readonly #note: string
  readonly #timer: NodeJS.Timeout
  #renewed: Promise<unknown> = Promise.resolve()
  /** When it was last renewed in time, by the bucket's clock. */
  #aliveMs: number
  #lookedMs = { wall: Number.NEGATIVE_INFINITY, monotonic: 0 }

  private constructor(client: S3Client, name: string, note: string, aliveMs: number) {
    this.#client = client
    this.#name = name
    this.#note = note
    this.#aliveMs = aliveMs
    this.#timer = setInterval(() => {
      // Where this fails for long, the next look finds that the claim is dead.
      this.#renewed = client
        .brief()
        .put(name, NOTHING)
        .then(
          nowMs => {
            if (!this.#isLate(nowMs)) this.#aliveMs = nowMs
          },
          () => undefined,
        )
    }, RENEW_MS)
  }

  /**
   * @param note the file in which the data folder notes its claim
   * @throws Unavailable `bucket_in_use`: another backup works there
   */
  static async make(client: S3Client, note: string): Promise<Claim> {
    const name = `${CLAIMS}${randomBytes(8).toString('hex')}`
    const left = disk.exists(note) ? Buffer.from(readFile(disk, note)).toString().split('\n') : []
    // Where it cannot be removed, the look below says whether it is dead.
    const place = placeOf(note)
    if (left[0] === client.url && isClaim(left[1] ?? '') && left[2] === place)
      await client.remove(left[1] ?? '').catch(error => {
        if (!(error instanceof Unavailable)) throw error
      })
    replaceFile(disk, note, [Buffer.from(`${client.url}\n${name}\n${place}\n`)])
    const claim = new Claim(client, name, note, await client.put(name, NOTHING))
    try {
      await claim.check()
      return claim
    } catch (error) {
      await claim.end()
      throw error
    }
  }

  /** A renewal after the claim's death brings back its object, and not the claim. */
  #isLate(changedMs: number): boolean {
    return changedMs - this.#aliveMs > CLAIM_DEAD_MS
  }

  /** Called before each step that another backup must not see. @throws as `make` */
  async check(): Promise<void> {
    const since = {
      wall: Math.abs(wallMs() - this.#lookedMs.wall),
      monotonic: monotonicMs() - this.#lookedMs.monotonic,
    }
    if (Math.max(since.wall, since.monotonic) < LOOK_MS) return
    const looked = { wall: wallMs(), monotonic: monotonicMs() }
    const { objects, nowMs } = await this.#client.list(CLAIMS)
    const ageOf = (changedMs: number) => nowMs - changedMs
    for (const { name, changedMs } of objects) {
      if (name === this.#name || !isClaim(name)) continue
      // An age that cannot be read is of a claim that lives.
      if (!(ageOf(changedMs) > CLAIM_DEAD_MS))
        throw new Unavailable(
          'bucket_in_use',
          `${this.#client.url}: another backup works there, renewed ${Math.max(0, Math.round(ageOf(changedMs) / 1000))} s ago: try again when it has ended; where it was killed, ${CLAIM_DEAD_MS / 60_000} minutes after`,
        )
      await this.#client.remove(name)
    }
    const own = objects.find(({ name }) => name === this.#name)
    if (own === undefined || ageOf(own.changedMs) > CLAIM_DEAD_MS || this.#isLate(own.changedMs))
      throw new Unavailable(
        'bucket_in_use',
        `${this.#client.url}: the backup lost its place, because it could not renew it: try again`,
      )
    this.#lookedMs = looked
  }

  /** Removes the claim. Where that fails the next backup of this folder does, or the claim dies. */
  async end(): Promise<void> {
    clearInterval(this.#timer)
    await this.#renewed
    await this.#client
      .brief()
      .remove(this.#name)
      .then(
        () => disk.exists(this.#note) && disk.unlink(this.#note),
        () => undefined,
      )
  }
}

/** Where the note stands: another machine, or another folder of this one, has a copy. */
function placeOf(note: string): string {
  const { dev, ino } = statSync(dirname(note))
  return `${hostname()} ${dev}:${ino}`
}

function isClaim(name: string): boolean {
  return /^working\/[\da-f]{16}$/.test(name)
}

const NOTHING = new Uint8Array(0)
