/**
 * Ids: three letters for the kind, then 26 characters of Crockford's base 32 (48 bits of time, 80
 * random bits). Clients must not parse them; the time only makes them sort by age.
 */
import { randomBytes } from 'node:crypto'

const CROCKFORD = '0123456789ABCDEFGHJKMNPQRSTVWXYZ'
const TIME_CHARACTERS = 10
const RANDOM_CHARACTERS = 16

/** The kind of thing that an id names. */
type IdPrefix = 'ACC' | 'APP' | 'DPJ' | 'DPO' | 'DSO' | 'ENV' | 'MET' | 'POL' | 'QRY' | 'TBL' | 'WHK'

/** A new id. `wallMs`: whole milliseconds since 1970. */
export function newId(prefix: IdPrefix, wallMs: number): string {
  let id: string = prefix
  for (let place = TIME_CHARACTERS - 1; place >= 0; place -= 1)
    id += CROCKFORD[Math.floor(wallMs / 32 ** place) % 32]!
  for (const byte of randomBytes(RANDOM_CHARACTERS)) id += CROCKFORD[byte & 31]!
  return id
}
