/**
 * Question: what does a merge of tiny segments cost, and does its memory return?
 *
 *   Ten segments of 36 rows in the six bench columns become one, again and again, by the merge
 *   thread's own code in this thread, at full speed. Prints the processor time of a merge, and
 *   anonymous memory at the beginning, half-way and at the end. `--rows`: rows of a segment.
 *   `--seconds`: length of the run. `--updates`: deleted rows of each segment (0).
 *
 * Non-goals: the throttle, the messages between threads, the compaction commit.
 */
import { join } from 'node:path'
import type { MergeInput, MergeTask } from '../src/store/compaction/compaction-types.ts'
import { MergeWriter } from '../src/store/compaction/merge.ts'
import { MergeThrottle } from '../src/store/compaction/merge-throttle.ts'
import { tryAssemblerNative } from '../src/store/segment/assembler.ts'
import { assemblerJs } from '../src/store/segment/assembler-js.ts'
import { tryEncoderNative } from '../src/store/segment/parquet-encoder.ts'
import { encoderJs } from '../src/store/segment/parquet-encoder-js.ts'
import { unlinkSegments } from '../src/store/segment/publish-segment.ts'
import { FlushWriter } from '../src/store/segment/write-segment.ts'
import { callAfter, monotonicMs } from '../src/util/clock.ts'
import { disk } from '../src/util/disk.ts'
import { must } from '../src/util/errors.ts'
import { threadCpuClock } from '../src/util/this-thread.ts'
import { BENCH_SCHEMA, entriesOf } from './entries.ts'
import { benchFolder, removeFolder } from './leftovers.ts'
import { memory, print, row, short } from './measure.ts'
import { numberOf } from './options.ts'

/** Options of the command line, as text. */
interface MergesOptions {
  readonly rows?: string | undefined
  readonly seconds?: string | undefined
  readonly updates?: string | undefined
}

const SEGMENTS = 10
/** Merges before the measurement: the first ones load code and files. */
const WARM_UP = 20
const cpuMs = threadCpuClock() ?? monotonicMs

/** Merges segments of 36 rows (`rows`) with none deleted (`updates`) for 15 s (`seconds`). */
export async function benchMerges(options: MergesOptions): Promise<void> {
  const [rows, deletedRows] = [numberOf('rows', options.rows, 36), numberOf('updates', options.updates, 0)]
  print(`merges: ${SEGMENTS} segments of ${rows} rows, ${deletedRows} of them deleted`)
  const root = benchFolder('weir-bench-merges-')
  try {
    const folder = join(root, 'pool')
    const inputs = makeInputs(folder, rows, deletedRows)
    const merger = new MergeWriter(createThrottle(), join(root, 'merge'), disk)
    await run(merger, folder, inputs, 1000 * numberOf('seconds', options.seconds, 15))
    merger.close()
    print(row('anonymous memory, closed', short(memory(process.pid).anonymous)))
  } finally {
    removeFolder(root)
  }
}

function createThrottle(): MergeThrottle {
  return new MergeThrottle({ cpuMs, nowMs: monotonicMs, after: callAfter }, 'full')
}

function makeInputs(folder: string, rows: number, deletedRows: number): MergeInput[] {
  const writer = new FlushWriter(tryAssemblerNative() ?? assemblerJs, tryEncoderNative() ?? encoderJs, disk)
  return Array.from({ length: SEGMENTS }, (_, at) => {
    const segment = at + 1
    const sequenceFrom = 1 + at * rows
    const { meta } = writer.write({
      poolId: 'POOL',
      schema: BENCH_SCHEMA,
      segment,
      folder,
      entries: entriesOf(sequenceFrom, rows, 1),
      replaces: [],
      sequenceFrom,
      sequenceTo: sequenceFrom + rows - 1,
    })
    const deletionVectors = { segment, rows: Uint32Array.from({ length: deletedRows }, (_, i) => i) }
    return { meta: must(meta, 'a segment'), deletionVectors: deletedRows === 0 ? [] : [deletionVectors] }
  })
}

async function run(
  merger: MergeWriter,
  folder: string,
  inputs: readonly MergeInput[],
  ms: number,
): Promise<void> {
  let segment = SEGMENTS
  const merge = async () => {
    segment += 1
    const task: MergeTask = {
      poolId: 'POOL',
      schema: BENCH_SCHEMA,
      folder,
      segment,
      inputs,
      expireBeforeUs: undefined,
      older: [],
      leavesSegment: false,
    }
    const { meta } = await merger.merge(task)
    unlinkSegments(disk, folder, [must(meta, 'a new segment').segment])
  }
  for (let i = 0; i < WARM_UP; i++) await merge()
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
  print(row('merges', String(merges)))
  print(row('wall time of a merge', per(monotonicMs() - fromMs)))
  print(row('CPU of a merge, this thread', per(cpuMs() - fromCpu)))
  print(row('CPU of a merge, all threads', per((all.user + all.system) / 1000)))
  print(row('anonymous memory, first, half-way, last', memories.join(', ')))
}
