/** What a test or a bench has started ends with it. */
type End = () => void | Promise<void>

const ends: End[] = []

/** Ends it when the test has finished; in a bench at endAll(). */
export const atEnd: (end: End) => void =
  process.env['VITEST'] === undefined ? end => void ends.push(end) : (await import('vitest')).onTestFinished

/** Ends everything, the newest first. For a bench. */
export async function endAll(): Promise<void> {
  for (const end of ends.splice(0).reverse()) await end()
}
