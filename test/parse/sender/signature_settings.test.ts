/** Settings that a source can have, and those that are refused with a sentence that says why. */
import { createPublicKey, generateKeyPairSync, verify } from 'node:crypto'
import { describe, expect, test } from 'vitest'
import { signatureProblem } from '../../../src/catalog/change/sender-settings.ts'
import {
  type GenericHmac,
  SIGNATURE_SCHEMES,
  SIGNATURE_SECRETS_MAX,
  type SignatureScheme,
  type SignatureSettings,
} from '../../../src/format/sender.ts'
import { WHPK } from '../../../src/parse/sender/signature-keys.ts'
import { signatureHeaders } from '../../../src/parse/sender/verify-signature.ts'
import { ed25519Pair, genericOf, p256Pair, SENDERS, settingsOf } from './signing.ts'

const raw = ed25519Pair().raw
const HEX = raw.toString('hex')
const WHPK_TEXT = `whpk_${raw.toString('base64')}`
const BASE64 = Buffer.from('twenty-four bytes of it.').toString('base64')

/** A public key of another curve, as SendGrid would show it. */
function spkiOf(namedCurve: string): string {
  const { publicKey } = generateKeyPairSync('ec', { namedCurve })
  return publicKey.export({ format: 'der', type: 'spki' }).toString('base64')
}

/** The problem with one secret, without where it stands. */
function secretProblem(scheme: SignatureScheme, secret: string): string {
  const generic = scheme === 'GENERIC_HMAC' ? genericOf() : null
  const problem = signatureProblem(settingsOf(scheme, secret, { generic }))
  if (problem === undefined) return 'ok'
  expect(problem).toMatch(/^signature\.secrets\[0\] .*[^.]\.$/)
  if (secret.length > 8) expect(problem).not.toContain(secret) // a message is not the place of a secret
  return problem.slice('signature.secrets[0] '.length, -1)
}

test('the settings of every sender in these tests have no problem', () => {
  for (const { name, settings } of SENDERS) expect(signatureProblem(settings), name).toBeUndefined()
  expect(new Set(SENDERS.map(({ settings }) => settings.scheme))).toEqual(new Set(SIGNATURE_SCHEMES))
})

test.each<[SignatureScheme, string]>([
  ['GITHUB', 's'],
  ['GITHUB', 'пароль 🔑'],
  ['GITHUB', 'x'.repeat(1_024)],
  ['STRIPE', 'whsec_not/base64!'],
  ['STANDARD_WEBHOOKS', `whsec_${BASE64}`],
  ['STANDARD_WEBHOOKS', BASE64],
  ['STANDARD_WEBHOOKS', 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw'],
  ['STANDARD_WEBHOOKS', `whsec_${Buffer.alloc(32, 1).toString('base64').replace(/=/g, '')}`],
  ['STANDARD_WEBHOOKS', WHPK_TEXT],
  ['SVIX', WHPK_TEXT],
  ['GITLAB', 'glpat-token'],
  ['GITLAB', `whsec_${BASE64}`],
  ['SENDGRID', p256Pair().shown],
  ['DISCORD', HEX],
  ['DISCORD', HEX.toUpperCase()],
  ['GENERIC_HMAC', 's'],
])('%s takes %s', (scheme, secret) => {
  expect(secretProblem(scheme, secret)).toBe('ok')
})

test.each(SIGNATURE_SCHEMES)(
  '%s refuses an empty secret, white space around it, and half characters',
  scheme => {
    expect(secretProblem(scheme, '')).toBe('is empty')
    for (const secret of [' secret', 'secret\n', '\u00a0secret', ' ', '\t'])
      expect(secretProblem(scheme, secret)).toBe('begins or ends with white space')
    expect(secretProblem(scheme, 'half \ud83d of it')).toBe('holds an unpaired surrogate')
    expect(secretProblem(scheme, 'ü'.repeat(513))).toBe('is longer than 1024 bytes')
  },
)

test.each<[SignatureScheme, string, RegExp]>([
  ['STANDARD_WEBHOOKS', 'whsec_', /is not a secret: whsec_ and base64, or a public key/],
  ['STANDARD_WEBHOOKS', 'whsec_====', /is not a secret/],
  ['STANDARD_WEBHOOKS', 'whsec_a', /is not a secret/],
  ['STANDARD_WEBHOOKS', 'not base64', /is not a secret/],
  ['STANDARD_WEBHOOKS', 'whsec_YWJj-_', /is not a secret/],
  ['STANDARD_WEBHOOKS', 'whsec_YWI', /ok/],
  ['STANDARD_WEBHOOKS', 'whsec_YWJ', /is not a secret/], // bits that nothing stands for
  ['STANDARD_WEBHOOKS', `whsk_${BASE64}`, /is not a secret/], // a private key
  ['STANDARD_WEBHOOKS', 'whpk_', /is not a public key: whpk_ and base64 of 32 bytes/],
  ['STANDARD_WEBHOOKS', `whpk_${BASE64}`, /is not a public key/],
  ['SVIX', `whpk_${HEX}`, /is not a public key/],
  ['GITLAB', 'whsec_nöt', /is not a secret: whsec_/],
  ['GITLAB', 'a token', /is not the secret token of visible ASCII characters/],
  ['GITLAB', 'tökén', /is not the secret token/],
  ['DISCORD', HEX.slice(1), /is not the application's public key: 64 hexadecimal digits/],
  ['DISCORD', `${HEX.slice(1)}g`, /is not the application's public key/],
  ['DISCORD', raw.toString('base64'), /is not the application's public key/],
  ['SENDGRID', 'SG.secret', /is not the verification key: base64 of a P-256 public key/],
  ['SENDGRID', spkiOf('secp384r1'), /is not the verification key/],
  ['SENDGRID', spkiOf('secp256k1'), /is not the verification key/],
  ['SENDGRID', p256Pair().shown.slice(0, -8), /is not the verification key/],
])('%s, %s: %s', (scheme, secret, want) => {
  expect(secretProblem(scheme, secret)).toMatch(want)
})

test('a secret is named by its position', () => {
  expect(signatureProblem(settingsOf('GITHUB', ['a', 'b', '']))).toBe('signature.secrets[2] is empty.')
})

test('a source has one to five secrets', () => {
  const many = (count: number) =>
    settingsOf(
      'GITHUB',
      Array.from({ length: count }, (_, n) => `s${n}`),
    )
  expect(signatureProblem(many(SIGNATURE_SECRETS_MAX))).toBeUndefined()
  expect(signatureProblem(many(0))).toBe('signature.secrets has 0 entries: a source has 1 to 5.')
  expect(signatureProblem(many(6))).toBe('signature.secrets has 6 entries: a source has 1 to 5.')
})

describe('an Ed25519 key of small order', () => {
  const SMALL = [
    '0000000000000000000000000000000000000000000000000000000000000000',
    '0100000000000000000000000000000000000000000000000000000000000000',
    '26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05',
    'c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a',
    'ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f',
    'edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f',
    'eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f',
  ].map(hex => Buffer.from(hex, 'hex'))
  const withSign = (point: Buffer) => Buffer.concat([point.subarray(0, 31), Buffer.from([point[31]! | 0x80])])

  test.each([...SMALL, ...SMALL.map(withSign)])('%o is refused', point => {
    expect(secretProblem('DISCORD', point.toString('hex'))).toMatch(/^is not/)
    expect(secretProblem('STANDARD_WEBHOOKS', `whpk_${point.toString('base64')}`)).toMatch(/^is not/)
  })

  test('would let forgeries pass: the signature of the neutral point and zero fits many bodies', () => {
    const zeros = { kty: 'OKP', crv: 'Ed25519', x: Buffer.alloc(32).toString('base64url') }
    const key = createPublicKey({ format: 'jwk', key: zeros })
    const forgery = Buffer.concat([SMALL[1]!, Buffer.alloc(32)])
    let passed = 0
    for (let n = 0; n < 400; n += 1) passed += verify(null, Buffer.from(`body ${n}`), key, forgery) ? 1 : 0
    expect(passed).toBeGreaterThan(0)
    expect(WHPK.read(WHPK_TEXT)).toBeDefined()
  })
})

describe('toleranceSeconds', () => {
  const asked = (
    scheme: SignatureScheme,
    toleranceSeconds: number,
    more: Partial<SignatureSettings> = {},
  ) => {
    const secret = SENDERS.find(({ settings }) => settings.scheme === scheme)!.settings.secrets
    return signatureProblem(settingsOf(scheme, secret, { toleranceSeconds, ...more })) ?? 'ok'
  }

  test('is a whole number of seconds, a week at most', () => {
    for (const seconds of [1, 60, 604_800]) expect(asked('STRIPE', seconds)).toBe('ok')
    for (const seconds of [0, -1, 1.5, 604_801, Number.NaN, Number.POSITIVE_INFINITY])
      expect(asked('STRIPE', seconds)).toBe(
        `signature.toleranceSeconds is ${seconds}: it is a whole number from 1 to 604800.`,
      )
  })

  test('is refused where no time is signed, since it would promise what nobody checks', () => {
    for (const scheme of ['GITHUB', 'META', 'SHOPIFY', 'TWILIO'] as const)
      expect(asked(scheme, 60)).toBe(`signature.toleranceSeconds is given, but ${scheme} signs no time here.`)
    expect(asked('GENERIC_HMAC', 60, { generic: genericOf() })).toMatch(/GENERIC_HMAC signs no time here/)
    const generic = genericOf({ signed: '{timestamp}.{body}', timestampHeader: 'x-time' })
    expect(asked('GENERIC_HMAC', 60, { generic })).toBe('ok')
  })
})

describe('generic', () => {
  const problem = (more: Partial<GenericHmac>) =>
    signatureProblem(settingsOf('GENERIC_HMAC', 's', { generic: genericOf(more) })) ?? 'ok'

  test('is for GENERIC_HMAC, and GENERIC_HMAC has one', () => {
    expect(signatureProblem(settingsOf('GENERIC_HMAC', 's'))).toMatch(/generic is missing/)
    expect(signatureProblem(settingsOf('GITHUB', 's', { generic: genericOf() }))).toBe(
      'signature.generic is for GENERIC_HMAC, and the scheme is GITHUB.',
    )
  })

  test.each<[Partial<GenericHmac>, RegExp]>([
    [{ header: 'x-hub-signature' }, /^ok$/],
    [{ header: 'a' }, /^ok$/],
    [{ header: 'X-Signature' }, /header is no name of a header in lower case/],
    [{ header: '' }, /header is no name/],
    [{ header: 'x signature' }, /header is no name/],
    [{ header: 'x-signature:' }, /header is no name/],
    [{ header: 'x-signature\r\n' }, /header is no name/],
    [{ header: 'x-sígnature' }, /header is no name/],
    [{ header: 'x'.repeat(129) }, /header is no name/],
    [{ timestampHeader: '', signed: '{timestamp}{body}' }, /timestampHeader is no name/],
    [{ idHeader: 'X-Id', signed: '{id}{body}' }, /idHeader is no name/],
    [{ prefix: 'sha256=' }, /^ok$/],
    [{ prefix: 'HMAC ' }, /^ok$/],
    [{ prefix: ' sha256=' }, /prefix has at most 64 characters of ASCII/],
    [{ prefix: 'größe=' }, /prefix has at most/],
    [{ prefix: 'x'.repeat(65) }, /prefix has at most/],
    [{ signed: '{method}{url}{body}' }, /^ok$/],
    [{ signed: 'v0:{timestamp}:{body}', timestampHeader: 'x-time' }, /^ok$/],
    [{ signed: '{timestamp}.{body}', timestampHeader: 'x-signature' }, /^ok$/],
    [{ signed: '{timestamp}:{timestamp}:{body}', timestampHeader: 'x-time' }, /^ok$/],
    [{ signed: '' }, /does not hold \{body\} once/],
    [{ signed: 'body' }, /does not hold \{body\} once/],
    [{ signed: '{timestamp}', timestampHeader: 'x-time' }, /does not hold \{body\} once/],
    [{ signed: '{body}{body}' }, /does not hold \{body\} once/],
    [{ signed: '{Body}' }, /another placeholder than \{body\}, \{timestamp\}, \{id\}, \{url\}, \{method\}/],
    [{ signed: '{body}{secret}' }, /another placeholder/],
    [{ signed: '{body}{twilioFields}' }, /another placeholder/],
    [{ signed: '{body}{constructor}' }, /another placeholder/],
    [{ signed: '{{body}}' }, /another placeholder/],
    [{ signed: '{body}{' }, /another placeholder/],
    [{ signed: '{body}{}' }, /another placeholder/],
    [{ signed: '{bo dy}{body}' }, /another placeholder/],
    [{ signed: `{body}${'x'.repeat(1_024)}` }, /longer than 1024 characters/],
    [{ signed: '{body}\ud83d' }, /unpaired surrogate/],
    [
      { signed: '{timestamp}{body}' },
      /holds \{timestamp\}, and signature.generic.timestampHeader is not given/,
    ],
    [{ signed: '{id}{body}' }, /holds \{id\}, and signature.generic.idHeader is not given/],
    [{ timestampHeader: 'x-time' }, /timestampHeader is given, but \{timestamp\} is not in/],
    [{ idHeader: 'x-id' }, /idHeader is given, but \{id\} is not in/],
  ])('%j: %s', (more, want) => {
    expect(problem(more)).toMatch(want)
  })
})

test('the headers that are read are those of the forms that have a secret', () => {
  const headers = (scheme: SignatureScheme, ...secrets: string[]) =>
    signatureHeaders(settingsOf(scheme, secrets))
  const standard = ['webhook-signature', 'webhook-timestamp', 'webhook-id']
  expect(headers('STANDARD_WEBHOOKS', BASE64, WHPK_TEXT)).toEqual(standard)
  expect(headers('GITLAB', 'token')).toEqual(['x-gitlab-token'])
  expect(headers('GITLAB', `whsec_${BASE64}`)).toEqual(standard)
  expect(headers('GITLAB', `whsec_${BASE64}`, 'token')).toEqual([...standard, 'x-gitlab-token'])
  expect(headers('STRIPE', 's')).toEqual(['stripe-signature'])
  expect(headers('LINEAR', 's')).toEqual(['linear-signature'])
})
