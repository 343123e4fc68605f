/**
 * Buckets that lie, loop, or hold names that Weir never wrote: nothing is removed that is not
 * Weir's.
 */
import { crc32 } from 'node:zlib'
import { afterAll, beforeEach, expect, test } from 'vitest'
import { readBucketAddress } from '../../../src/tools/bucket/bucket-address.ts'
import { S3Client } from '../../../src/tools/bucket/s3-client.ts'
import { BUCKET, expectRestored, makeOrders, type Orders, orders, post, weirAt } from './buckets.ts'
import { FakeS3, type Fault } from './fake-s3.ts'

const fake = await FakeS3.start()
afterAll(() => fake.stop())
beforeEach(() => fake.reset())

const client = new S3Client(readBucketAddress(BUCKET, undefined, fake.environment), {
  firstWaitMs: 1,
  pagesMax: 100,
})
let filled: Promise<Orders> | undefined
async function makeFilled(): Promise<Orders> {
  const made = await makeOrders()
  await made.change((_, url) => post(url, orders(0, 100, 1)))
  return made
}
async function backUp(...more: readonly string[]) {
  filled ??= makeFilled()
  const { dataDir } = await filled
  return await weirAt(fake, 'backup', BUCKET, '--data-dir', dataDir, ...more)
}

const list = (xml: string) => ({ text: `<ListBucketResult>${xml}</ListBucketResult>` })
let token = 0
const LISTS: readonly (readonly [string, () => Fault])[] = [
  ['a page of a proxy', () => ({ text: '<html><body>Please log in</body></html>' })],
  ['nothing', () => ({ text: '' })],
  ['more without a token', () => list('<IsTruncated>true</IsTruncated>')],
  [
    'more and more',
    () => list(`<IsTruncated>true</IsTruncated><NextContinuationToken>${++token}</NextContinuationToken>`),
  ],
]

test.each(LISTS)('a list that is %s is no list', async (_, fault) => {
  fake.fault = ({ what }) => (what === 'LIST' ? fault() : undefined)
  await expect(client.list('objects/')).rejects.toMatchObject({ code: 'bucket_failed' })
  expect(fake.requests.length).toBeLessThanOrEqual(100)
})

test('a list of 4 MiB of open elements is read in a moment', async () => {
  fake.fault = () => list('<Contents>'.repeat(400_000))
  expect((await client.list('objects/')).objects.length).toBe(400_000)
  fake.fault = () => ({
    text: `<ListMultipartUploadsResult>${'<Upload>'.repeat(400_000)}</ListMultipartUploadsResult>`,
  })
  expect((await client.uploads('objects/')).length).toBe(400_000)
}, 30_000)

test('an upload without an id is an error', async () => {
  fake.fault = () => ({ text: '<html></html>' })
  await expect(client.beginUpload('objects/x')).rejects.toMatchObject({ code: 'bucket_failed' })
})

test('the end of an upload whose 200 holds an error is tried again', async () => {
  const upload = await client.beginUpload('x')
  const tags = [await client.putPart('x', upload, 1, Buffer.from('x'))]
  let left = 1
  fake.fault = ({ what }) =>
    what === 'END' && left-- > 0 ? { status: 200, code: 'InternalError' } : undefined
  await client.endUpload('x', upload, tags, crc32(Buffer.from('x')))
  expect(fake.names('weir/x')).toEqual(['weir/x'])
})

test('retention removes no name that is not one of Weir, and none outside the prefix', async () => {
  expect(await backUp()).toMatchObject({ code: 0 })
  const others = [
    'other/backup',
    'weir/objects/../../other/backup',
    'weir/objects/%2e%2e/%2e%2e/other/backup',
    'weir/objects/notes.txt',
    'weir/objects/',
    'weir/working/',
    'weir/working/../../other/backup',
    'weir/backups/../../other/20200101T000000000Z.json',
    'weir/backups/99999999T999999999Z.json',
  ]
  for (const name of others) fake.put(name, Buffer.from('x'))
  fake.uploads.set('far', { name: 'weir/objects/../../other/backup', parts: new Map() })
  expect(await backUp('--keep', '1')).toMatchObject({ code: 0 })
  for (const name of others) expect(fake.names(name)).toContain(name)
  expect(fake.requests.filter(({ name }) => !name.startsWith('weir/'))).toEqual([])
  await expectRestored(fake, await filled!)
}, 60_000)

test('a list that does not show the new backup removes nothing', async () => {
  expect(await backUp()).toMatchObject({ code: 0 })
  const before = fake.names('weir/objects/')
  let isNamed = false
  fake.fault = ({ what, name }) => {
    if (what === 'PUT' && name.includes('/backups/')) isNamed = true
    return isNamed && what === 'LIST' && name === 'weir/backups/' ? list('') : undefined
  }
  const { code, err } = await backUp('--keep', '1')
  expect([code, err]).toEqual([2, expect.stringContaining('the list does not show the new backup')])
  expect(fake.names('weir/objects/')).toEqual(expect.arrayContaining(before))
  expect(fake.names('weir/backups/').length).toBe(1)
}, 60_000)
