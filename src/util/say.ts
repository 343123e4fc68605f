/**
 * Lines for the operator. The only file that writes to the terminal.
 *
 * People's lines go to standard output, faults and warnings to standard error, one line each.
 */

/** A plain line on standard output. */
export function say(line: string): void {
  process.stdout.write(`${line}\n`)
}

/** A warning or fault on standard error, with the time. */
export function warn(line: string): void {
  process.stderr.write(`${new Date().toISOString()} ${line}\n`)
}

/** A command's note or progress on standard error, beside its result on standard output. */
export function note(line: string): void {
  process.stderr.write(`${line}\n`)
}

/** A command's result on standard output, as bytes. Resolves when there is room for more; rejects where nobody reads. */
export function sayBytes(bytes: Uint8Array): Promise<void> {
  return new Promise((resolve, reject) => {
    process.stdout.write(bytes, error => (error ? reject(error) : resolve()))
  })
}
