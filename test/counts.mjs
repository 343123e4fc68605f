/** Prints the counts of the last test run as its last line: "N passed, N failed". Exits 1 if anything failed or nothing ran. */
import { readFileSync } from 'node:fs'

const file = new URL('../dist/test-results.json', import.meta.url)
let results
try {
  results = JSON.parse(readFileSync(file, 'utf8'))
} catch (error) {
  process.stderr.write(`no test results: ${error.message}\n`)
  process.stdout.write('0 passed, 1 failed\n')
  process.exit(1)
}
// A test file that could not be loaded has no tests of its own: it counts as one failure.
const broken = results.testResults.filter(
  one => one.status === 'failed' && one.assertionResults.length === 0,
).length
// A worker that died takes its tests along without failing them: the run as a whole says so.
const died = results.success === false && results.numFailedTests + broken === 0 ? 1 : 0
const failed = results.numFailedTests + broken + died
process.stdout.write(`${results.numPassedTests} passed, ${failed} failed\n`)
process.exit(failed > 0 || results.numPassedTests === 0 ? 1 : 0)
