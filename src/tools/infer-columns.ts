/**
 * `weir sources infer`: proposes columns and a key from a file of sample events. It asks no server.
 */
import { CLEAN } from '../database/command.ts'
import { inferColumns, type Proposal } from '../parse/infer/infer.ts'
import { INFER_BYTES_MAX, readSamples } from '../parse/infer/samples.ts'
import { CannotRun } from '../util/errors.ts'
import { printable, say } from '../util/say.ts'
import { readSmallFile } from './small-files.ts'
import { tableLines } from './text-tables.ts'

/**
 * Prints a table with reasons, or with `asJson` the connectionSettings of createWebhookDataSource,
 * which `weir sources create --columns` takes too.
 */
export async function infer(path: string, asJson: boolean): Promise<number> {
  if (path === '') throw new CannotRun('weir sources infer needs a file of events; - is standard input')
  const samples = readSamples(await readSmallFile(path, INFER_BYTES_MAX))
  const proposal = 'problem' in samples ? samples : inferColumns(samples)
  if ('problem' in proposal) throw new CannotRun(proposal.problem.message)
  if (asJson) say(JSON.stringify(settingsOf(proposal), null, 2))
  else for (const line of linesOf(proposal)) say(line)
  return CLEAN
}

function settingsOf({ columns, uniqueId, timestamp, orderBy }: Proposal) {
  return {
    columns: columns.map(({ reason: _, ...column }) => column),
    timestamp: timestamp.column,
    uniqueId: uniqueId.column,
    tableSettings: orderBy === null ? null : { orderBy },
  }
}

function linesOf({ events, columns, uniqueId, timestamp, orderBy, leftOut }: Proposal): string[] {
  return [
    `${events} events`,
    '',
    ...tableLines(columns, [
      ['column', each => each.name],
      ['type', each => each.type],
      ['property', each => each.jsonProperty],
      ['nullable', each => (each.nullable ? 'yes' : 'no')],
      ['coerce', each => (each.coerce ? 'yes' : 'no')],
      ['reason', each => each.reason],
    ]),
    '',
    `unique id: ${printable(uniqueId.column ?? 'none')}. ${printable(uniqueId.reason)}`,
    `timestamp: ${printable(timestamp.column ?? 'none')}. ${printable(timestamp.reason)}`,
    ...(orderBy === null ? [] : [`key: ${printable(orderBy.join(', '))}`]),
    ...(leftOut.length === 0
      ? []
      : [
          '',
          ...tableLines(leftOut, [
            ['left out', each => each.jsonProperty],
            ['reason', each => each.reason],
          ]),
        ]),
  ]
}
