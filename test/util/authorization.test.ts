import { describe, expect, test } from 'vitest'
import { basicAuthMatches } from '../../src/api/ingest/admission.ts'
import { basicOf } from '../../src/catalog/access/token-request.ts'
import { readAuthorization, readBasic, readBearer } from '../../src/util/authorization.ts'

function base64(text: string): string {
  return Buffer.from(text).toString('base64')
}

describe('an Authorization header', () => {
  test('is a scheme in any case, spaces, and a value', () => {
    const want = { scheme: 'basic', value: 'YTpi' }
    for (const header of ['Basic YTpi', 'basic YTpi', 'BASIC   YTpi', 'Basic YTpi   '])
      expect(readAuthorization(header)).toEqual(want)
    expect(readAuthorization('Basic')).toEqual({ scheme: 'basic', value: '' })
    expect(readAuthorization('Basic   ')).toEqual({ scheme: 'basic', value: '' })
    for (const header of [undefined, '', `Basic ${'x'.repeat(5_000)}`])
      expect(readAuthorization(header)).toBeUndefined()
  })

  test('holds user and password, or nothing where it is not base64', () => {
    expect(readBasic(`Basic ${base64('user:p:w')}`)?.toString()).toBe('user:p:w')
    expect(readBasic(`Basic ${Buffer.from('ü:ß').toString('base64url')}`)?.toString()).toBe('ü:ß')
    expect(readBasic('Basic YT pi')).toHaveLength(0)
    expect(readBasic('Basic !!!')).toHaveLength(0)
    expect(readBasic('Bearer YTpi')).toBeUndefined()
    expect(readBasic('Basically YTpi')).toBeUndefined()
  })

  test('holds one token', () => {
    expect(readBearer('bearer a.b-c_d')).toBe('a.b-c_d')
    for (const header of ['Bearer', 'Bearer ', 'Bearer a b', 'Basic abc', 'Bearerabc'])
      expect(readBearer(header)).toBeUndefined()
  })

  test('takes the longest credentials that a pool can have', () => {
    const wanted = { username: 'u'.repeat(1_024), password: 'ü'.repeat(512) }
    expect(basicAuthMatches(`Basic ${base64(`${wanted.username}:${wanted.password}`)}`, wanted)).toBe(true)
    expect(basicAuthMatches(`Basic ${base64(`${wanted.username}:x`)}`, wanted)).toBe(false)
  })

  test('of 60,000 spaces is refused at once, wherever they stand', () => {
    const wanted = { username: 'u', password: 'p' }
    const spaces = ' '.repeat(60_000)
    const headers = [
      `Basic ${spaces}!`,
      `Basic${spaces}YTpi${spaces}!`,
      `Basic ${'a '.repeat(30_000)}`,
      `${spaces}Basic YTpi`,
      `Bearer${spaces}a${spaces}b`,
    ]
    const begin = performance.now()
    for (const header of headers) {
      expect(basicAuthMatches(header, wanted)).toBe(false)
      expect(basicOf(header)).toBeUndefined()
      expect(readBearer(header)).toBeUndefined()
    }
    // An earlier pattern took 4 to 12 s.
    expect(performance.now() - begin).toBeLessThan(1_000)
  })
})
