/** The client of S3 against a server that fails in every way: what it tries again and says. */
import { crc32 } from 'node:zlib'
import { afterAll, beforeEach, expect, test } from 'vitest'
import { readBucketAddress } from '../../../src/tools/bucket/bucket-address.ts'
import { S3Client } from '../../../src/tools/bucket/s3-client.ts'
import { FAKE_KEYS, FakeS3, type Fault } from './fake-s3.ts'

const fake = await FakeS3.start()
afterAll(() => fake.stop())
beforeEach(() => fake.reset())

const address = readBucketAddress('s3://bucket/a/b', undefined, fake.environment)
const client = new S3Client(address, { requestMs: 500, firstWaitMs: 1 })
const bytes = Buffer.from('what is stored')

/** The error of a put, without anything that is a secret. */
async function failureOf(work: Promise<unknown>): Promise<{ code: string; message: string }> {
  const error = await work.then(
    () => {
      throw new Error('it did not fail')
    },
    failed => failed as Error & { code: string },
  )
  const text = `${error.message} ${error.stack}`
  for (const secret of Object.values(FAKE_KEYS)) expect(text).not.toContain(secret)
  return error
}

test('objects come back as they went, by parts too, and are listed over pages', async () => {
  fake.pageSize = 2
  for (const name of ['x/1', 'x/2', 'x/3', 'x/4', 'x/5', 'y']) await client.put(name, bytes)
  const { objects, nowMs } = await client.list('x/')
  expect(objects.map(one => one.name)).toEqual(['x/1', 'x/2', 'x/3', 'x/4', 'x/5'])
  expect(objects.every(one => one.bytes === bytes.byteLength && one.changedMs <= nowMs + 1000)).toBe(true)
  expect(fake.names('')).toContain('a/b/x/1')
  expect(await client.get('y', bytes.byteLength)).toEqual(bytes)
  expect(await client.getPart('y', 5, 2)).toEqual(bytes.subarray(5, 7))
  expect(await client.get('z', 5)).toBeUndefined()
  await client.remove('y')
  await client.remove('y')
  expect(await client.get('y', bytes.byteLength)).toBeUndefined()
})

test('a large object is seen when its last part is there, and a cancelled one never', async () => {
  const upload = await client.beginUpload('large')
  const tags = [
    await client.putPart('large', upload, 1, bytes),
    await client.putPart('large', upload, 2, bytes),
  ]
  expect(await client.get('large', 28)).toBeUndefined()
  const crc = crc32(Buffer.concat([bytes, bytes]))
  const other = await client.beginUpload('other')
  expect(await client.uploads('')).toEqual([
    { name: 'large', uploadId: upload },
    { name: 'other', uploadId: other },
  ])
  await client.endUpload('large', upload, tags, crc)
  await client.endUpload('large', upload, tags, crc) // as after a lost answer
  await client.cancelUpload('other', other)
  expect(await client.get('large', 28)).toEqual(Buffer.concat([bytes, bytes]))
  expect(await client.uploads('')).toEqual([])
})

const PASSING: readonly (readonly [Fault, string])[] = [
  ['break', 'bucket_unreachable'],
  ['break after', 'bucket_unreachable'],
  ['hang', 'bucket_slow'],
  [{ status: 503, code: 'SlowDown' }, 'bucket_busy'],
  [{ status: 429, code: 'TooManyRequests' }, 'bucket_busy'],
  [{ status: 500, code: 'InternalError' }, 'bucket_failed'],
  [{ status: 400, code: 'RequestTimeout' }, 'bucket_failed'],
  [{ status: 400, code: 'BadDigest' }, 'bucket_checksum'],
  [{ status: 400, code: 'XAmzContentSHA256Mismatch' }, 'bucket_checksum'],
]

test.each(PASSING)('%j passes after two tries, and is %s after five', async (fault, code) => {
  let left = 2
  fake.fault = () => (left-- > 0 ? fault : undefined)
  await client.put('x', bytes)
  expect(fake.requests.length).toBe(3)
  expect(fake.objects.get('a/b/x')?.bytes).toEqual(bytes)
  fake.requests.length = 0
  fake.fault = () => fault
  const failure = await failureOf(client.put('x', bytes))
  expect(failure.code).toBe(code)
  expect(failure.message).toContain('s3://bucket/a/b: ')
  expect(failure.message).toContain(', 5 times')
  expect(fake.requests.length).toBe(5)
})

const LASTING: readonly (readonly [status: number, given: string, code: string, part: string])[] = [
  [404, 'NoSuchBucket', 'bucket_missing', 'make it'],
  [403, 'AccessDenied', 'bucket_denied', 'permission (HTTP 403 AccessDenied)'],
  [403, 'SignatureDoesNotMatch', 'bucket_denied', 'AWS_SECRET_ACCESS_KEY'],
  [403, 'InvalidAccessKeyId', 'bucket_denied', 'AWS_ACCESS_KEY_ID'],
  [400, 'ExpiredToken', 'bucket_denied', 'AWS_SESSION_TOKEN has expired'],
  [403, 'RequestTimeTooSkewed', 'bucket_denied', 'clock'],
  [301, 'PermanentRedirect', 'bucket_failed', 'AWS_REGION'],
  [507, 'XMinioStorageFull', 'bucket_full', 'no room'],
  [507, '', 'bucket_full', 'no room'],
  [403, 'QuotaExceeded', 'bucket_full', 'no room'],
  [501, 'NotImplemented', 'bucket_failed', 'HTTP 501'],
  [400, '<b>\u001b[31m', 'bucket_failed', 'failed (HTTP 400)'],
]

test.each(LASTING)('%i %s is %s at once', async (status, given, code, part) => {
  fake.fault = () => ({ status, code: given })
  const failure = await failureOf(client.remove('x'))
  expect([failure.code, failure.message]).toEqual([code, expect.stringContaining(part)])
  expect(fake.requests.length).toBe(1)
})

test('an answer that breaks off, is too short or too long is asked for again', async () => {
  await client.put('x', bytes)
  let left = 2
  fake.fault = ({ what }) => (what === 'GET' && left-- > 0 ? 'cut' : undefined)
  expect(await client.get('x', bytes.byteLength)).toEqual(bytes)
  fake.fault = () => undefined
  expect((await failureOf(client.get('x', 15))).code).toBe('bucket_checksum')
  expect((await failureOf(client.get('x', 13))).code).toBe('bucket_checksum')
})

test('a list that is cut short is asked for again, and a page of a proxy is not', async () => {
  await client.put('x/1', bytes)
  const cuts = ['<?xml version="1.0"', '<ListBucketResult><Contents><Key>a/b/x/1</Key>']
  fake.fault = () => {
    const text = cuts.pop()
    return text === undefined ? undefined : { text }
  }
  expect((await client.list('x/')).objects.map(({ name }) => name)).toEqual(['x/1'])
  expect(fake.requests.length).toBe(4)
  fake.fault = () => ({ text: '<ListBucketResult>' })
  expect((await failureOf(client.list('x/'))).code).toBe('bucket_checksum')
  fake.requests.length = 0
  fake.fault = () => 'page'
  expect((await failureOf(client.list('x/'))).code).toBe('bucket_failed')
  expect(fake.requests.length).toBe(1)
})

test('an upload whose end fails after its 200 has failed', async () => {
  const upload = await client.beginUpload('x')
  fake.fault = ({ what }) => (what === 'END' ? { status: 200, code: 'InternalError' } : undefined)
  expect((await failureOf(client.endUpload('x', upload, [{ tag: 'a', crc32: 0 }], 0))).code).toBe(
    'bucket_failed',
  )
})

test('nobody listens, and the name leads nowhere', async () => {
  const nowhere = { ...fake.environment, AWS_ENDPOINT_URL: 'http://127.0.0.1:9' }
  const lost = new S3Client(readBucketAddress('s3://bucket', undefined, nowhere), { firstWaitMs: 1 })
  expect((await failureOf(lost.put('x', bytes))).code).toBe('bucket_unreachable')
})

test('a cancelled backup ends its request and its waits', async () => {
  const cancel = new AbortController()
  const cancelled = new S3Client(address, { signal: cancel.signal })
  fake.fault = () => 'hang'
  const put = failureOf(cancelled.put('x', bytes))
  while (fake.requests.length === 0) await new Promise(setImmediate)
  cancel.abort()
  expect((await put).code).toBe('backup_cancelled')
  fake.fault = () => undefined
  await cancelled.brief().put('x', bytes)
})

test('addresses are read with their environment, and no value of it is shown', () => {
  const read = (url: string, endpoint?: string, more: Record<string, string | undefined> = {}) =>
    readBucketAddress(url, endpoint, { ...FAKE_KEYS, ...more })
  expect(read('s3://bucket/a/b/')).toMatchObject({
    url: 's3://bucket/a/b',
    prefix: 'a/b/',
    base: 'https://bucket.s3.us-east-1.amazonaws.com',
  })
  expect(read('s3://my.bucket', undefined, { AWS_REGION: 'eu-west-3' })).toMatchObject({
    prefix: '',
    base: 'https://s3.eu-west-3.amazonaws.com/my.bucket',
    region: 'eu-west-3',
  })
  const given = { AWS_ENDPOINT_URL: 'http://a', AWS_ENDPOINT_URL_S3: 'http://b:1/c/' }
  expect(read('s3://bucket', undefined, given).base).toBe('http://b:1/c/bucket')
  expect(read('s3://bucket', 'https://d', given).base).toBe('https://d/bucket')
  for (const url of [
    's3://',
    's3://B',
    's3://bucket/..',
    's3://bucket/a/../b',
    's3://bucket/ä',
    's3://bucket?x',
  ])
    expect(() => read(url), url).toThrow('a bucket is named as s3://bucket/prefix')
  for (const name of ['AWS_ACCESS_KEY_ID', 'AWS_SECRET_ACCESS_KEY']) {
    expect(() => read('s3://bucket', undefined, { [name]: '' })).toThrow(`set ${name}`)
    expect(() => read('s3://bucket', undefined, { [name]: 'hidden\nvalue' })).toThrow(
      `${name} has a character that no credential has, such as a space or a line break`,
    )
  }
  for (const endpoint of ['ftp://x', 'x', 'https://me:hidden@x'])
    expect(() => read('s3://bucket', endpoint)).toThrow(
      'the endpoint of the bucket (--endpoint, AWS_ENDPOINT_URL) must be as https://s3.example.com, without a password',
    )
})
