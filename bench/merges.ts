/**
 * Question: what does a merge of tiny segments cost, and does its memory go back?
 *
 *   ten segments of 36 rows in the six bench columns become one, over and over, by the merge thread's own code in this thread
 *   and at full pace. Processor time by step; anonymous memory at the beginning, half-way and at the end.
 *   `--rows`: of a segment. `--seconds`: of the run. `--updates`: marked rows of each segment (0).
 *
 * Non-goals: the pace, the hand-over between threads, the swap.
 */
import { join } from 'node:path'
import { MergeWriter } from '../src/compact/merge.ts'
import type { MergeCalls } from '../src/compact/merge-calls.ts'
import { Pacer } from '../src/compact/pace.ts'
import type { MergeInput, MergeJob } from '../src/compact/protocol.ts'
import { readSegmentKeys } from '../src/keys/segment-keys.ts'
import { assemblerJs, tryAssemblerNative } from '../src/segment/assembler.ts'
import { readDeleteFile, writeDeleteFile } from '../src/segment/deletes.ts'
import { tryEncoderNative } from '../src/segment/encoder.ts'
import { encoderJs } from '../src/segment/encoder-js.ts'
import { publishInPieces, unlinkSegments } from '../src/segment/publish.ts'
import { Writer } from '../src/segment/write.ts'
import { must } from '../src/util/assert.ts'
import { monotonicMs } from '../src/util/clock.ts'
import { disk } from '../src/util/disk.ts'
import { threadCpuClock } from '../src/util/thread-cpu.ts'
import { BENCH_PLAN, entriesOf } from './entries.ts'
import { benchFolder, removeFolder } from './leftovers.ts'
import { memory, print, row, short } from './measure.ts'
import { numberOf } from './options.ts'

/** Options of the command line, as text. */
export interface MergesOptions {
  readonly rows?: string | undefined
  readonly seconds?: string | undefined
  readonly updates?: string | undefined
}

const SEGMENTS = 10
/** The first merges load what the later ones use. */
const WARM_UP = 20
const cpuMs = threadCpuClock() ?? monotonicMs

/** Merges for `seconds` (15) segments of `rows` (36) rows with `updates` (0) marked ones each. */
export async function benchMerges(options: MergesOptions): Promise<void> {
  const [rows, marked] = [numberOf('rows', options.rows, 36), numberOf('updates', options.updates, 0)]
  print(`merges: ${SEGMENTS} segments of ${rows} rows, ${marked} of them marked`)
  const root = benchFolder('weir-bench-merges-')
  try {
    const folder = join(root, 'pool')
    const inputs = makeInputs(folder, rows, marked)
    const steps = new Map<string, number>()
    const merger = new MergeWriter(timed(steps), pacer(), join(root, 'merge'), disk)
    await run(merger, folder, inputs, steps, 1000 * numberOf('seconds', options.seconds, 15))
    merger.close()
    print(row('anonymous memory, closed', short(memory(process.pid).anonymous)))
  } finally {
    removeFolder(root)
  }
}

function pacer(): Pacer {
  const after = (ms: number, call: () => void) => {
    const timer = setTimeout(call, ms)
    return () => clearTimeout(timer)
  }
  return new Pacer({ cpuMs, nowMs: monotonicMs, after }, 'alone')
}

function makeInputs(folder: string, rows: number, marked: number): MergeInput[] {
  const writer = new Writer(tryAssemblerNative() ?? assemblerJs, tryEncoderNative() ?? encoderJs, disk)
  return Array.from({ length: SEGMENTS }, (_, at) => {
    const segment = at + 1
    const sequenceFrom = 1 + at * rows
    const { meta } = writer.write({
      poolId: 'POOL',
      plan: BENCH_PLAN,
      segment,
      folder,
      entries: entriesOf(sequenceFrom, rows, 1),
      replaces: [],
      sequenceFrom,
      sequenceTo: sequenceFrom + rows - 1,
      giveBack: false,
    })
    const marks = { segment, rows: Uint32Array.from({ length: marked }, (_, i) => i) }
    return { meta: must(meta, 'a segment'), marks: marked === 0 ? [] : [marks] }
  })
}

/** The calls of other stages, with the processor time that each takes. */
function timed(steps: Map<string, number>): MergeCalls {
  const add = async <T>(step: string, call: Promise<T>, from: number): Promise<T> => {
    const result = await call
    steps.set(step, (steps.get(step) ?? 0) + cpuMs() - from)
    return result
  }
  return {
    readSegmentKeys: (file, plan) => {
      const from = cpuMs()
      return add('keys of the new segment', readSegmentKeys(file, plan), from)
    },
    readDeleteFile,
    writeDeleteFile,
    publishInPieces: (...args) => {
      const from = cpuMs()
      return add('durable files', publishInPieces(...args), from)
    },
  }
}

async function run(
  merger: MergeWriter,
  folder: string,
  inputs: readonly MergeInput[],
  steps: Map<string, number>,
  ms: number,
): Promise<void> {
  let segment = SEGMENTS
  const merge = async () => {
    segment += 1
    const job: MergeJob = {
      poolId: 'POOL',
      plan: BENCH_PLAN,
      folder,
      segment,
      inputs,
      expireBeforeUs: undefined,
      older: [],
    }
    const { meta } = await merger.merge(job)
    unlinkSegments(disk, folder, [must(meta, 'a new segment').segment])
  }
  for (let i = 0; i < WARM_UP; i++) await merge()
  steps.clear()
  const memoryNow = () => short(memory(process.pid).anonymous)
  const memories = [memoryNow()]
  const [fromMs, fromCpu, fromAll] = [monotonicMs(), cpuMs(), process.cpuUsage()]
  let merges = 0
  for (; monotonicMs() - fromMs < ms; merges++) {
    await merge()
    if (memories.length === 1 && monotonicMs() - fromMs > ms / 2) memories.push(memoryNow())
  }
  memories.push(memoryNow())
  const per = (all: number) => `${(all / merges).toFixed(2)} ms`
  const all = process.cpuUsage(fromAll)
  const thread = cpuMs() - fromCpu
  print(row('merges', String(merges)))
  print(row('wall time of a merge', per(monotonicMs() - fromMs)))
  print(row('CPU of a merge, this thread', per(thread)))
  print(row('CPU of a merge, all threads', per((all.user + all.system) / 1000)))
  for (const [step, used] of steps) print(row(`… ${step}`, per(used)))
  const rest = [...steps.values()].reduce((sum, used) => sum + used, 0)
  print(row('… else: DuckDB, removal of the new segment', per(thread - rest)))
  print(row('anonymous memory, first, half-way, last', memories.join(', ')))
}
