/** Entry point of the process that reads a Parquet file (src/parse/import/parquet-process.ts). */
import { serveParquet } from '../src/parse/import/parquet-process.ts'
import { beginProcess } from '../src/util/process-server.ts'

serveParquet(beginProcess().port)
