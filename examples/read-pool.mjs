// Read a pool's live rows in JavaScript: node examples/read-pool.mjs http://127.0.0.1:8420 events APP_ID SECRET
import { RecordBatchReader, tableFromIPC } from 'apache-arrow'

const [base, pool, id, secret] = process.argv.slice(2)
if (secret === undefined) {
  process.stderr.write(
    'usage: node examples/read-pool.mjs <url of Weir> <pool> <client id> <client secret>\n',
  )
  process.exit(2)
}
const headers = { authorization: `Basic ${Buffer.from(`${id}:${secret}`).toString('base64')}` }

// All at once
const table = await tableFromIPC(fetch(`${base}/v1/pools/${pool}/arrow`, { headers }))
process.stdout.write(`table ${table.numRows}\n`)

// Batch by batch, two columns: the server goes on only as fast as this reads.
const answer = await fetch(`${base}/v1/pools/${pool}/arrow?columns=_service_received_at,_service_payload`, {
  headers,
})
let rows = 0
for await (const batch of await RecordBatchReader.from(answer.body)) rows += batch.numRows
process.stdout.write(`batches ${rows}\n`)
