/**
 * Attacks on every scheme: whoever does not know the secret gets nothing through, and the answer
 * names the failed part. A request that its sender signed passes first, so no attack fails for a
 * wrong reason.
 */
import { gzipSync } from 'node:zlib'
import { describe, expect, test } from 'vitest'
import type { SignatureError, SignatureSettings, SignedHead } from '../../../src/format/sender.ts'
import { signatureHeaders, verifySignature } from '../../../src/parse/sender/verify-signature.ts'
import { integersFrom, newSeed } from '../../util/random.ts'
import {
  AT_MS,
  answer,
  BODY,
  ed25519Pair,
  genericOf,
  headOf,
  hmac,
  p256Pair,
  repeated,
  SENDERS,
  type Sender,
  settingsOf,
  withHeaders,
} from './signing.ts'

const REFUSED = /^signature_(missing|malformed|expired|mismatch)$/

/** The signature of the sender's own request. */
const signatureOf = ({ header, before, send }: Sender, head = send(BODY)): string => {
  const value = head.headers[header]!
  return value.slice(value.indexOf(before) + before.length)
}

/** The sender's request with another signature. */
function forged(sender: Sender, signature: string, body: Uint8Array = BODY): string {
  const head = sender.send(BODY)
  const value = head.headers[sender.header]!
  const place = value.slice(0, value.indexOf(sender.before) + sender.before.length)
  return answer(sender.settings, withHeaders(head, { [sender.header]: place + signature }), body)
}

const isToken = (sender: Sender) => sender.name === 'GITLAB secret token'
const withoutToken = SENDERS.filter(sender => !isToken(sender))

/** Settings of the sender's scheme with a secret that it does not have. */
function strangers(sender: Sender): SignatureSettings {
  const { scheme } = sender.settings
  const [secret] = sender.settings.secrets
  const other = secret!.startsWith('whpk_')
    ? `whpk_${ed25519Pair(2).raw.toString('base64')}`
    : secret!.startsWith('whsec_')
      ? `whsec_${Buffer.from('another key').toString('base64')}`
      : scheme === 'DISCORD'
        ? ed25519Pair(2).raw.toString('hex')
        : scheme === 'SENDGRID'
          ? p256Pair(2).shown
          : `${secret}x`.replace('🔑', isToken(sender) ? '' : '🗝')
  return { ...sender.settings, secrets: [other] }
}

describe.each(SENDERS)('$name', sender => {
  const { settings, header, send } = sender
  const head = send(BODY)

  test('passes as it was sent, from memory that threads share too', () => {
    expect(answer(settings, head)).toBe('ok')
    const shared = new Uint8Array(new SharedArrayBuffer(BODY.length + 20), 10, BODY.length)
    shared.set(BODY)
    expect(answer(settings, head, shared)).toBe('ok')
    expect(answer(settings, send(new Uint8Array(0)), new Uint8Array(0))).toBe(
      settings.scheme === 'LINEAR' ? 'signature_malformed' : 'ok', // its time stands in the body
    )
  })

  test('reads no header but those that it names', () => {
    const read = new Set<string>()
    const headers = new Proxy(head.headers, {
      get: (of, name) => {
        read.add(String(name))
        return of[String(name)]
      },
      getOwnPropertyDescriptor: (of, name) => {
        read.add(String(name))
        return Object.getOwnPropertyDescriptor(of, name)
      },
    })
    expect(answer(settings, { ...head, headers })).toBe('ok')
    expect([...read].sort()).toEqual([...signatureHeaders(settings)].sort())
  })

  test('of another secret is refused', () => {
    expect(answer(strangers(sender), head)).toBe('signature_mismatch')
  })

  test('passes while a secret is rotated, in any order, and no longer', () => {
    const [old] = settings.secrets
    const [fresh] = strangers(sender).secrets
    for (const secrets of [
      [fresh!, old!],
      [old!, fresh!],
      [fresh!, fresh!, fresh!, fresh!, old!],
    ])
      expect(answer({ ...settings, secrets }, head)).toBe('ok')
    expect(answer({ ...settings, secrets: [fresh!] }, head)).toBe('signature_mismatch')
  })

  test('without a secret, or with an empty one, accepts nothing', () => {
    for (const secrets of [[], [''], ['', '']]) {
      expect(answer({ ...settings, secrets }, head)).toBe('signature_mismatch')
      const empty = hmac('sha256', '', 'hex', BODY)
      expect(answer({ ...settings, secrets }, withHeaders(head, { [header]: sender.before + empty }))).toBe(
        'signature_mismatch',
      )
    }
  })

  test('lacks a header, or has an empty one', () => {
    for (const name of signatureHeaders(settings))
      for (const value of [undefined, ''])
        expect(answer(settings, withHeaders(head, { [name]: value })), name).toBe('signature_missing')
    expect(answer(settings, headOf({}))).toBe('signature_missing')
    expect(answer(settings, headOf({ [header.toUpperCase()]: head.headers[header]! }))).toBe(
      'signature_missing',
    )
  })

  test('has a header twice, a huge one, or one with other characters than ASCII', () => {
    for (const name of signatureHeaders(settings)) {
      expect(answer(settings, repeated(head, name)), name).toBe('signature_malformed')
      const value = head.headers[name]!
      for (const bad of [
        value + ' '.repeat(8 * 1024),
        'a'.repeat(60_000),
        `${value}\0`,
        `${value}\u0080`,
        `\u00a0${value}`,
        `${value}\r\n`,
        `${value}\t`,
      ])
        expect(answer(settings, withHeaders(head, { [name]: bad })), name).toBe('signature_malformed')
    }
  })
})

describe.each(withoutToken)('$name, a body that was changed', sender => {
  const { settings, send } = sender
  const head = send(BODY)

  test.each<[string, Uint8Array]>([
    ['by its last byte', BODY.subarray(0, -1)],
    ['to a prefix', BODY.subarray(0, 20)],
    ['to nothing', new Uint8Array(0)],
    ['by a space', Buffer.concat([BODY, Buffer.from(' ')])],
    ['by a zero', Buffer.concat([BODY, Buffer.from([0])])],
    ['by a BOM', Buffer.concat([Buffer.from([0xef, 0xbb, 0xbf]), BODY])],
    ['by encoding it again', Buffer.from(JSON.stringify(JSON.parse(BODY.toString())))],
    ['by escaping it', Buffer.from(BODY.toString().replace('é', '\\u00e9'))],
    ['by decomposing it', Buffer.from(BODY.toString().normalize('NFD'))],
    ['by its line ends', Buffer.from(BODY.toString().replace('\r\n', '\n'))],
    ['by compressing it', gzipSync(BODY)],
    ['by a second one', Buffer.concat([BODY, BODY])],
  ])('%s', (_, body) => {
    expect(answer(settings, head, body)).toBe('signature_mismatch')
  })

  test('in one bit, at any place', () => {
    for (let at = 0; at < BODY.length; at += 1) {
      const body = Buffer.from(BODY)
      body[at]! ^= 1 << (at % 8)
      expect(answer(settings, head, body)).toBe('signature_mismatch')
    }
  })
})

describe.each(withoutToken)('$name, a signature', sender => {
  const right = signatureOf(sender)
  const isHex = /^[0-9a-f]+$/.test(right)
  const bytes = Buffer.from(right, isHex ? 'hex' : 'base64')
  const written = (of: Uint8Array) => Buffer.from(of).toString(isHex ? 'hex' : 'base64')
  const isSpaced = /^(STANDARD|SVIX|GITLAB)/.test(sender.name) // spaces stand between signatures
  const isUrl = sender.name === 'GENERIC_HMAC of everything'

  test('that is cut short is refused, however much of it is right', () => {
    for (let length = 0; length < right.length; length += 1)
      expect(forged(sender, right.slice(0, length))).toMatch(REFUSED)
    for (let length = 0; length < bytes.length; length += 1)
      expect(forged(sender, written(bytes.subarray(0, length)))).toMatch(REFUSED)
  })

  test('that is wrong in one bit is refused, wherever the bit is', () => {
    for (let bit = 0; bit < 8 * bytes.length; bit += 1) {
      const wrong = Buffer.from(bytes)
      wrong[bit >> 3]! ^= 1 << (bit & 7)
      const text = isUrl ? wrong.toString('base64url') : written(wrong)
      // A changed length in DER may be no signature at all.
      expect(forged(sender, text)).toMatch(
        sender.settings.scheme === 'SENDGRID' ? /mismatch|malformed/ : /mismatch/,
      )
    }
  })

  test('in another encoding or case is refused, and so are texts that decode to the same bytes', () => {
    const anyCase = sender.settings.scheme === 'GENERIC_HMAC' && isHex
    const others = [
      isHex ? bytes.toString('base64') : bytes.toString('hex'),
      isHex ? bytes.toString('base64url') : bytes.toString('hex').toUpperCase(),
      ...(isHex ? [] : [right.toLowerCase(), right.toUpperCase()]),
      ...(isHex && !anyCase ? [right.toUpperCase()] : []),
      ...(isHex || isUrl ? [] : [right.replace(/=+$/, ''), `${right}=`, right.replace(/.$/, ' ')]),
      bytes.toString('latin1'),
      `0x${right}`,
      ...(isSpaced ? [] : [` ${right}`, `${right} `]),
      `"${right}"`,
      `${right.slice(0, 10)} ${right.slice(10)}`,
      encodeURIComponent(right) === right ? `%${right}` : encodeURIComponent(right),
      right + right,
      `${right}00`,
      '0',
      'null',
      'undefined',
      'true',
      '[object Object]',
    ]
    for (const other of others)
      if (other !== right) expect(forged(sender, other), other).toMatch(/malformed|mismatch/)
    if (anyCase) expect(forged(sender, right.toUpperCase())).toBe('ok')
  })

  test('that another base64 writes with the same bytes is refused', () => {
    if (isHex || isUrl || !right.endsWith('=')) return
    const ALPHABET = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/'
    const at = right.indexOf('=') - 1
    const same = right.slice(0, at) + ALPHABET[ALPHABET.indexOf(right[at]!) + 1]! + right.slice(at + 1)
    expect(Buffer.from(same, 'base64').equals(bytes)).toBe(true)
    expect(forged(sender, same)).toBe('signature_malformed')
  })

  test('of nothing, of zeros, and of another algorithm is refused', () => {
    for (const bad of ['', written(Buffer.alloc(bytes.length)), written(Buffer.alloc(bytes.length, 0xff))])
      expect(forged(sender, bad)).toMatch(/missing|malformed|mismatch/)
    for (const algorithm of ['md5', 'sha1', 'sha224', 'sha256', 'sha384', 'sha512'])
      for (const key of ['', 'secret', 'null', 'undefined'])
        for (const encoding of ['hex', 'base64'] as const)
          expect(forged(sender, hmac(algorithm, key, encoding, BODY))).toMatch(/malformed|mismatch/)
  })

  test('without its prefix, or with another one, is refused', () => {
    const { header, before, settings, send } = sender
    const head = send(BODY)
    const signature = signatureOf(sender, head)
    for (const prefix of ['', 'v0=', 'v1=', 'v1,', 'v1a,', 'v2,', 'sha1=', 'sha256=', 'SHA256=', 'sha256:']) {
      if (prefix === before || (sender.name === 'GENERIC_HMAC' && prefix.endsWith(','))) continue
      const value = head.headers[header]!.replace(before, '').replace(signature, prefix + signature)
      expect(answer(settings, withHeaders(head, { [header]: value })), value).toBe('signature_malformed')
    }
  })
})

test("another scheme's request is refused, also where both have one secret", () => {
  const tried: string[] = []
  for (const from of SENDERS)
    for (const to of SENDERS) {
      const pair = [from.settings.scheme, to.settings.scheme].sort().join()
      if (from === to || pair === 'GITHUB,META') continue
      if (isSameMac(from, to) && from.header === to.header) continue // GitLab signs so
      tried.push(pair)
      const head = from.send(BODY)
      expect(answer(to.settings, head), `${from.name} → ${to.name}`).toMatch(REFUSED)
      // Its signature under the other's names, with the other's prefix.
      if (isToken(to)) continue
      const right = signatureOf(from)
      const mayPass = isSameMac(from, to)
      expect(forged(to, right) === 'ok', `${from.name} → ${to.name}`).toBe(mayPass)
    }
  expect(tried.length).toBeGreaterThan(400)
})

/** Schemes that sign one and the same text with one key, in one encoding. */
function isSameMac(from: Sender, to: Sender): boolean {
  const SAME = [
    ['GITHUB', 'META', 'LINEAR', 'GENERIC_HMAC'],
    ['SLACK', 'ZOOM'],
    ['STANDARD_WEBHOOKS v1', 'SVIX v1', 'GITLAB signing token'],
    ['STANDARD_WEBHOOKS v1a', 'SVIX v1a'],
    ['STRIPE stripe-signature', 'GENERIC_HMAC calendly-webhook-signature'],
  ]
  return SAME.some(names => names.includes(from.name) && names.includes(to.name))
}

describe.each(SENDERS.filter(({ tolerance }) => tolerance !== undefined))('$name, a time', sender => {
  const { settings, send } = sender
  const tolerance = sender.tolerance!
  /** The time as the sender writes it, some seconds after AT_MS. */
  const timeAt = (seconds: number) => {
    const ms = AT_MS + 1000 * seconds
    if (sender.name === 'TWITCH') return new Date(ms).toISOString()
    return String(sender.name === 'HUBSPOT' ? ms : ms / 1000)
  }

  test('that is old or in the future is refused, although it is signed', () => {
    for (const sign of [-1, 1]) {
      expect(answer(settings, send(BODY, timeAt(sign * tolerance)))).toBe('ok')
      for (const more of [1, 60, 86_400, 10 * 365 * 86_400])
        expect(answer(settings, send(BODY, timeAt(sign * (tolerance + more))))).toBe('signature_expired')
    }
  })

  test('may differ as much as the settings say', () => {
    const narrow = { ...settings, toleranceSeconds: 10 }
    const wide = { ...settings, toleranceSeconds: 604_800 }
    expect(answer(narrow, send(BODY, timeAt(-10)))).toBe('ok')
    expect(answer(narrow, send(BODY, timeAt(-11)))).toBe('signature_expired')
    expect(answer(narrow, send(BODY, timeAt(11)))).toBe('signature_expired')
    expect(answer(wide, send(BODY, timeAt(-604_800)))).toBe('ok')
    expect(answer(wide, send(BODY, timeAt(-604_801)))).toBe('signature_expired')
  })

  test('that was not signed is refused', () => {
    const old = send(BODY, timeAt(-2 * tolerance))
    const { timeHeader, header } = sender
    const fresh =
      timeHeader === undefined
        ? { [header]: old.headers[header]!.replace(timeAt(-2 * tolerance), timeAt(0)) }
        : { [timeHeader]: timeAt(0) }
    expect(answer(settings, old)).toBe('signature_expired')
    expect(answer(settings, withHeaders(old, fresh))).toBe('signature_mismatch')
  })

  test.each([
    'now',
    'NaN',
    'Infinity',
    '-1',
    '+1768478400',
    '1e9',
    '0x6968dc40',
    '1768478400.0',
    '1,768,478,400',
    '1768478400 ',
    ' 1768478400',
    '1768478400s',
    '1768478400000000000',
    '9'.repeat(400),
    '0'.repeat(400),
    '[object Object]',
    'Thu, 15 Jan 2026 12:00:00 GMT',
    '2026-01-15T12:00:00+99:00',
    '2026-13-15T12:00:00Z',
    '20260115T120000Z',
    '__proto__',
  ])('of %s is malformed, although it is signed', time => {
    // Stripe's header has commas between its items.
    expect(answer(settings, send(BODY, time))).toMatch(time.includes(',') ? /malformed|expired/ : /malformed/)
  })
})

describe('LINEAR, whose time stands in the body', () => {
  const { settings, send } = SENDERS.find(({ name }) => name === 'LINEAR')!
  const at = (time: unknown) => Buffer.from(JSON.stringify({ webhookTimestamp: time }))
  const signed = (body: Buffer, more: Partial<SignedHead> = {}) =>
    answer(settings, { ...send(body), ...more }, body)

  test('it is compared with the clock, whatever a header says that nobody signed', () => {
    expect(signed(at(AT_MS - 60_000))).toBe('ok')
    expect(signed(at(AT_MS - 60_001))).toBe('signature_expired')
    expect(signed(at(AT_MS + 60_001))).toBe('signature_expired')
    const body = at(AT_MS - 86_400_000)
    const head = withHeaders(send(body), { 'linear-timestamp': String(AT_MS) })
    expect(answer(settings, head, body)).toBe('signature_expired')
    expect(answer({ ...settings, toleranceSeconds: 86_400 }, head, body)).toBe('ok')
  })

  test('a signed body without one is malformed, and an unsigned body is not read', () => {
    for (const body of [
      at('x'),
      at(String(AT_MS)),
      at(null),
      at(-1),
      at(1.5),
      at([AT_MS]),
      at({}),
      at(1e300),
    ])
      expect(signed(body), body.toString()).toBe('signature_malformed')
    for (const text of ['', '[]', 'null', '7', '{', '{"__proto__":{"webhookTimestamp":1768478400000}}'])
      expect(signed(Buffer.from(text)), text).toBe('signature_malformed')
    expect(answer(settings, send(BODY), Buffer.from('{'))).toBe('signature_mismatch')
  })
})

describe('several signatures in one header', () => {
  const LISTS = ['STANDARD_WEBHOOKS v1', 'STANDARD_WEBHOOKS v1a', 'SVIX v1', 'STRIPE stripe-signature']
  LISTS.push('PADDLE paddle-signature', 'GENERIC_HMAC calendly-webhook-signature')
  const SEPARATORS: Readonly<Record<string, string>> = { STRIPE: ',', PADDLE: ';', GENERIC_HMAC: ', ' }

  test.each(SENDERS.filter(({ name }) => LISTS.includes(name)))('$name', sender => {
    const { settings, header, before, send } = sender
    const head = send(BODY)
    const value = head.headers[header]!
    const separator = SEPARATORS[settings.scheme] ?? ' '
    const from = value.indexOf(before)
    const time = value.slice(0, from)
    const right = value.slice(from)
    const isHex = /^[0-9a-f]+$/.test(right.slice(before.length))
    const length = Buffer.from(right.slice(before.length), isHex ? 'hex' : 'base64').length
    const wrong = (n: number) => before + Buffer.alloc(length, n).toString(isHex ? 'hex' : 'base64')
    const asked = (...items: string[]) =>
      answer(settings, withHeaders(head, { [header]: time + items.join(separator) }))
    const many = (count: number) => Array.from({ length: count }, (_, n) => wrong(n))

    expect(asked(right)).toBe('ok')
    for (let at = 0; at < 10; at += 1) {
      const items = many(9)
      items.splice(at, 0, right)
      expect(asked(...items), `right one of ten at ${at}`).toBe('ok')
    }
    expect(asked(...many(10), right)).toBe('signature_mismatch')
    expect(asked(...many(10), right, ...many(5))).toBe('signature_mismatch')
    expect(asked(...many(10))).toBe('signature_mismatch')
    // Other versions do not count, and neither do empty items.
    expect(asked(...Array.from({ length: 50 }, (_, n) => `v9${n}=abc`), '', right)).toBe('ok')
    expect(asked(before, `${before}x`, right)).toBe('ok')
    expect(asked(before, `${before}x`)).toBe('signature_malformed')
    if (time !== '') expect(asked(right, time.slice(0, -1))).toBe('signature_malformed') // the time twice
  })

  test('with several public keys fewer signatures are tried, since each check takes its time', () => {
    const { settings, send, header } = SENDERS.find(({ name }) => name === 'STANDARD_WEBHOOKS v1a')!
    const head = send(BODY)
    const others = [2, 3, 4, 5].map(n => `whpk_${ed25519Pair(n).raw.toString('base64')}`)
    const wrong = `v1a,${Buffer.alloc(64).toString('base64')} `
    const asked = (secrets: readonly string[], before: number) =>
      answer(
        { ...settings, secrets },
        withHeaders(head, { [header]: wrong.repeat(before) + head.headers[header]! }),
      )
    const [own] = settings.secrets
    for (const [keys, signatures] of [
      [1, 10],
      [2, 5],
      [3, 3],
      [5, 2],
    ] as const) {
      const secrets = [...others.slice(0, keys - 1), own!]
      expect(asked(secrets, signatures - 1)).toBe('ok')
      expect(asked(secrets, signatures)).toBe('signature_mismatch')
    }
  })

  test('a version that the secret is not for is not tried', () => {
    const v1 = SENDERS.find(({ name }) => name === 'STANDARD_WEBHOOKS v1')!
    const v1a = SENDERS.find(({ name }) => name === 'STANDARD_WEBHOOKS v1a')!
    const both = { ...v1.settings, secrets: [...v1.settings.secrets, ...v1a.settings.secrets] }
    expect(answer(v1.settings, v1a.send(BODY))).toBe('signature_malformed')
    expect(answer(v1a.settings, v1.send(BODY))).toBe('signature_malformed')
    for (const sender of [v1, v1a]) expect(answer(both, sender.send(BODY))).toBe('ok')
    // The bytes of a public key are known to all: they are no HMAC's secret.
    const known = Buffer.from(v1a.settings.secrets[0]!.slice('whpk_'.length), 'base64')
    const time = String(AT_MS / 1000)
    const head = headOf({
      'webhook-id': 'msg_1',
      'webhook-timestamp': time,
      'webhook-signature': `v1,${hmac('sha256', known, 'base64', `msg_1.${time}.`, BODY)}`,
    })
    for (const settings of [both, v1a.settings]) expect(answer(settings, head)).toMatch(REFUSED)
  })

  test('GitLab with both tokens passes by either of those that the source has', () => {
    const [signing, token] = ['GITLAB signing token', 'GITLAB secret token'].map(
      name => SENDERS.find(sender => sender.name === name)!,
    )
    const both = { ...token!.settings, secrets: [...token!.settings.secrets, ...signing!.settings.secrets] }
    const sent = withHeaders(signing!.send(BODY), token!.send(BODY).headers)
    for (const settings of [both, signing!.settings, token!.settings])
      expect(answer(settings, sent)).toBe('ok')
    expect(answer(both, token!.send(BODY))).toBe('ok')
    expect(answer(signing!.settings, token!.send(BODY))).toBe('signature_missing')
    expect(answer(both, withHeaders(sent, { 'x-gitlab-token': 'x' }), Buffer.from('{}'))).toBe(
      'signature_mismatch',
    )
    const signingText = signing!.settings.secrets[0]!
    expect(answer(both, headOf({ 'x-gitlab-token': signingText }))).toBe('signature_mismatch')
  })
})

describe('a secret', () => {
  const signed = (secret: string, with_: string) =>
    answer(
      settingsOf('GITHUB', secret),
      headOf({ 'x-hub-signature-256': `sha256=${hmac('sha256', with_, 'hex', BODY)}` }),
    )

  test('of any characters is its UTF-8, and no other form of it', () => {
    for (const secret of ['пароль', '密钥', '🔑🔑', 'é', 'a b', 'x'.repeat(1_000), '"\\\u0000'])
      expect(signed(secret, secret)).toBe('ok')
    expect(signed('é', 'é'.normalize('NFD'))).toBe('signature_mismatch')
    expect(signed('ä', Buffer.from('ä', 'latin1').toString('latin1').toUpperCase())).toBe(
      'signature_mismatch',
    )
    expect(signed('Secret', 'secret')).toBe('signature_mismatch')
  })

  test('in base64 is its bytes, not its text', () => {
    const text = Buffer.from('thirty-two bytes of secret, yes.').toString('base64')
    const time = String(AT_MS / 1000)
    const sent = (key: string | Buffer) =>
      answer(
        settingsOf('STANDARD_WEBHOOKS', `whsec_${text}`),
        headOf({
          'webhook-id': 'm',
          'webhook-timestamp': time,
          'webhook-signature': `v1,${hmac('sha256', key, 'base64', `m.${time}.`, BODY)}`,
        }),
      )
    expect(sent(Buffer.from(text, 'base64'))).toBe('ok')
    for (const key of [text, `whsec_${text}`, '']) expect(sent(key)).toBe('signature_mismatch')
  })

  test('that cannot be read accepts nothing, even if it stands in the settings', () => {
    const [v1] = SENDERS
    for (const secrets of [['whsec_'], ['whsec_!!!'], ['whpk_AAAA']])
      expect(answer({ ...v1!.settings, secrets }, v1!.send(BODY))).toBe('signature_mismatch')
  })
})

describe('GENERIC_HMAC', () => {
  const everything = SENDERS.find(({ name }) => name === 'GENERIC_HMAC of everything')!

  test('fills its template in once: braces in a body, an id or a URL mean nothing', () => {
    const generic = genericOf({
      signed: '{id}.{timestamp}.{body}.{url}',
      timestampHeader: 'x-time',
      idHeader: 'x-id',
    })
    const settings = settingsOf('GENERIC_HMAC', 's', { generic })
    const time = String(AT_MS / 1000)
    const sent = (signed: string, body: string, id: string, url: string) =>
      answer(
        settings,
        headOf({ 'x-signature': hmac('sha256', 's', 'hex', signed), 'x-time': time, 'x-id': id }, { url }),
        Buffer.from(body),
      )
    for (const hostile of [
      '{timestamp}',
      '{body}',
      '{id}{id}',
      '$&',
      '$1',
      "$'",
      '{url}',
      '{{body}}',
      '{',
      '}',
    ]) {
      expect(sent(`${hostile}.${time}.${hostile}.${hostile}`, hostile, hostile, hostile)).toBe('ok')
      expect(sent(`a.${time}.${hostile}.u`, hostile, 'a', 'u')).toBe('ok')
    }
    expect(sent(`a.${time}.${time}.u`, '{timestamp}', 'a', 'u')).toBe('signature_mismatch')
    expect(sent(`{"a":1}.${time}.{"a":1}.u`, '{"a":1}', '{body}', 'u')).toBe('signature_mismatch')
  })

  test('signs each part that its template names', () => {
    const { settings, send } = everything
    const head = send(BODY)
    expect(answer(settings, head)).toBe('ok')
    expect(answer(settings, { ...head, method: 'PUT' })).toBe('signature_mismatch')
    expect(answer(settings, { ...head, url: `${head.url}&x=1` })).toBe('signature_mismatch')
    expect(answer(settings, withHeaders(head, { 'x-id': 'id-2' }))).toBe('signature_mismatch')
  })

  test('takes names of headers that JavaScript knows as other things', () => {
    for (const header of ['__proto__', 'constructor', 'tostring', 'hasownproperty', 'valueof']) {
      const settings = settingsOf('GENERIC_HMAC', 's', { generic: genericOf({ header }) })
      const right = hmac('sha256', 's', 'hex', BODY)
      const headers = JSON.parse(`{"${header}":"${right}"}`) as Record<string, string>
      expect(answer(settings, headOf(headers)), header).toBe('ok')
      expect(answer(settings, headOf({})), header).toBe('signature_missing')
    }
  })

  test.each(['SHA1', 'SHA256', 'SHA384', 'SHA512'] as const)('%s in every encoding', algorithm => {
    for (const [encoding, name] of [
      ['HEX', 'hex'],
      ['BASE64', 'base64'],
      ['BASE64URL', 'base64url'],
    ] as const) {
      const generic = genericOf({ algorithm, encoding, prefix: 'sig:' })
      const settings = settingsOf('GENERIC_HMAC', 's', { generic })
      const right = hmac(algorithm, 's', name, BODY)
      const asked = (value: string) => answer(settings, headOf({ 'x-signature': value }))
      expect(asked(`sig:${right}`)).toBe('ok')
      expect(asked(`v0:zzz, sig:${right}`)).toBe('ok')
      expect(asked(right)).toBe('signature_malformed')
      if (encoding === 'BASE64URL')
        expect(
          asked(
            `sig:${Buffer.from(right, 'base64url').toString('base64').replace(/\+/g, '-').replace(/\//g, '_')}`,
          ),
        ).toBe('ok')
    }
  })

  test('with a comma in its prefix has one signature', () => {
    const generic = genericOf({ prefix: 'v1,', encoding: 'BASE64' })
    const settings = settingsOf('GENERIC_HMAC', 's', { generic })
    const right = hmac('sha256', 's', 'base64', BODY)
    expect(answer(settings, headOf({ 'x-signature': `v1,${right}` }))).toBe('ok')
    expect(answer(settings, headOf({ 'x-signature': right }))).toBe('signature_malformed')
  })
})

const seed = newSeed()

test(`random changes of a request never pass (seed ${seed})`, () => {
  const integer = integersFrom(seed)
  const change = (text: string) => {
    const at = integer(text.length + 1)
    const inserted = String.fromCharCode(0x20 + integer(95))
    return text.slice(0, at) + (integer(3) === 0 ? '' : inserted) + text.slice(at + integer(3))
  }
  const errors = new Set<SignatureError | undefined>()
  for (let run = 0; run < 4_000; run += 1) {
    const sender = SENDERS[integer(SENDERS.length)]!
    const head = sender.send(BODY)
    const names = Object.keys(head.headers)
    const name = names[integer(names.length)]!
    let value = head.headers[name]!
    for (let times = 1 + integer(3); times > 0; times -= 1) value = change(value)
    if (isUnchanged(sender, name, head.headers[name]!, value)) continue
    const error = verifySignature(sender.settings, withHeaders(head, { [name]: value }), BODY)
    expect(error, `${sender.name} ${name}: ${value}`).toBeDefined()
    errors.add(error)
  }
  expect(errors.size).toBeGreaterThanOrEqual(2)
})

/** True for a change that leaves the signature and all that is signed. */
function isUnchanged({ settings, before }: Sender, name: string, was: string, is: string): boolean {
  if (was === is) return true
  const isList = settings.scheme === 'GENERIC_HMAC' || /^(v1a?,|v1=|h1=)$/.test(before)
  if (!isList) return false
  const items = (text: string) => text.toLowerCase().split(/[,; ]/)
  return name.includes('signature') && items(was).every(item => items(is).includes(item))
}
