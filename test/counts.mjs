/**
 * Prints the failed tests of the last test runs with their messages, and as its last line the
 * counts: "N passed, N failed". Exits 1 if a test failed or none ran. The further tests, and the
 * runs on other Nodes and under sanitizers, count too, where they ran.
 */
import { existsSync, readFileSync } from 'node:fs'
import { relative } from 'node:path'

const MESSAGE_CHARACTERS_MAX = 3000
const MAIN = 'test-results.json'
const OTHERS = [
  'test-results-more.json',
  'test-results-browser.json',
  'test-results-cluster.json',
  'test-results-cluster-modern.json',
  'test-results-nodes.json',
  'sanitize/tree/dist/test-results.json',
]

/**
 * @param {string} name @returns {{ passed: number, failed: number }} of one run, in vitest's JSON
 */
function countsOf(name) {
  const results = JSON.parse(readFileSync(new URL(`../dist/${name}`, import.meta.url), 'utf8'))
  // A test file that could not be loaded has no tests. It counts as one failure.
  const broken = results.testResults.filter(
    one => one.status === 'failed' && one.assertionResults.length === 0,
  ).length
  // The tests of a worker that died are not counted as failed. Only `success` of the whole run
  // tells.
  const died = results.success === false && results.numFailedTests + broken === 0 ? 1 : 0
  if (died === 1) {
    process.stdout.write(`failed: ${name}: a worker died\n`)
  }
  for (const file of results.testResults.filter(one => one.status === 'failed')) {
    printFailures(file)
  }
  return { passed: results.numPassedTests, failed: results.numFailedTests + broken + died }
}

/** Prints what failed in one file: CI keeps the end of its output only. */
function printFailures({ name, message, assertionResults }) {
  const file = relative(process.cwd(), name)
  if (assertionResults.length === 0) {
    process.stdout.write(`failed: ${file}\n${message}\n`)
  }
  for (const { status, fullName, failureMessages } of assertionResults) {
    if (status === 'failed') {
      const shown = failureMessages.join('\n').slice(0, MESSAGE_CHARACTERS_MAX)
      process.stdout.write(`failed: ${file}: ${fullName}\n${shown}\n`)
    }
  }
}

const total = { passed: 0, failed: 0 }
const ran = OTHERS.filter(name => existsSync(new URL(`../dist/${name}`, import.meta.url)))
for (const name of [MAIN, ...ran]) {
  try {
    const { passed, failed } = countsOf(name)
    total.passed += passed
    total.failed += failed
  } catch (error) {
    process.stderr.write(`no test results: ${error.message}\n`)
    total.failed += 1
  }
}
process.stdout.write(`${total.passed} passed, ${total.failed} failed\n`)
process.exit(total.failed > 0 || total.passed === 0 ? 1 : 0)
