/** The encoder over parquet-wasm, the fallback. Loaded where it is used: its libraries cost a start a third of a second. */
import type { Encoder } from './encoder.ts'
import { parquetOf } from './parquet.ts'
import { arrowHead } from './stream-head.ts'

export const encoderJs: Encoder = {
  name: 'js',
  headOf: arrowHead,
  encode: (stream, _layout, plan, _rows, footer) => parquetOf(stream, plan, footer),
}
