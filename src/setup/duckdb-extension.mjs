/**
 * The end of a module that DuckDB loads as an extension: 512 bytes, of which DuckDB reads the last
 * ones of the file, and the system's loader none. The first 256 are eight fields of 32 bytes, the
 * first field last; the others would be a signature. "Building extensions" in DuckDB's
 * documentation has them, and `extension-ci-tools` the script.
 */

const FIELD_BYTES = 32
const FIELDS = 8
const SIGNATURE_BYTES = 256

/** The oldest DuckDB whose C API has all functions that the module looks up. */
const C_API = 'v1.2.0'

/** DuckDB's names of processors. */
const PROCESSORS = { x64: 'amd64', arm64: 'arm64' }

/** The end of a module for this machine. */
export function extensionEnd() {
  const processor = PROCESSORS[process.arch] ?? process.arch
  const fields = ['4', `${process.platform}_${processor}`, C_API, '1', 'C_STRUCT']
  const end = Buffer.alloc(FIELDS * FIELD_BYTES + SIGNATURE_BYTES)
  fields.forEach((field, index) => {
    end.write(field, (FIELDS - 1 - index) * FIELD_BYTES, 'latin1')
  })
  return end
}
