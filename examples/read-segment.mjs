// What hyparquet makes of a segment's file: node examples/read-segment.mjs data/segment/*/*.parquet
// A segment holds rows that were replaced or deleted since; for the live rows alone see read-pool.mjs.
import { asyncBufferFromFile, parquetMetadataAsync, parquetReadObjects, parquetSchema } from 'hyparquet'
import { compressors } from 'hyparquet-compressors'

const shown = value => (value instanceof Date ? value.toISOString() : String(value)).slice(0, 40)

if (process.argv.length < 3) {
  process.stderr.write(
    'usage: node examples/read-segment.mjs <data folder>/segment/<pool>/<file>.parquet …\n',
  )
  process.exit(2)
}
for (const path of process.argv.slice(2)) {
  const file = await asyncBufferFromFile(path)
  const metadata = await parquetMetadataAsync(file)
  process.stdout.write(`${path} ${metadata.num_rows} rows, ${metadata.row_groups.length} row groups\n`)
  for (const [index, { element }] of parquetSchema(metadata).children.entries()) {
    const { type, converted_type: converted, logical_type: logical, repetition_type: repetition } = element
    const known = metadata.row_groups[0]?.columns[index]?.meta_data?.statistics
    const { min_value: min, max_value: max } = known ?? {}
    const range = min === undefined ? 'no range' : `${shown(min)} to ${shown(max)}`
    const kind = [type, converted, logical === undefined ? '' : JSON.stringify(logical), repetition].join(' ')
    process.stdout.write(`  ${element.name}: ${kind}, ${range}\n`)
  }
  const [first] = await parquetReadObjects({ file, metadata, compressors, rowEnd: 1 })
  for (const [name, value] of Object.entries(first ?? {}))
    process.stdout.write(
      `  first ${name}: ${value instanceof Date ? 'Date' : typeof value} ${shown(value)}\n`,
    )
}
