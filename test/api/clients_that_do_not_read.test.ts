/** Unread answers do not pile up: one stays pending, then the connection closes (W-9). */
import { expect, test } from 'vitest'
import { REFUSALS_PER_CLOSE } from '../../src/api/http/connections.ts'
import { head, Raw } from './client.ts'
import { api, fake, frontEnd, good, start, startForEachTest, until } from './fake.ts'

startForEachTest()

/** One more than the system's socket buffers may hold of these answers. */
const ANSWER_BYTES_MAX = 32 * 1024 * 1024
const invalid = (events: number) => {
  const body = `[${new Array(events).fill('{}').join()}]`
  return `${head('/v1/open', [`Content-Length: ${body.length}`])}${body}`
}

/** Asks, each time after the last answer was sent, and never reads; the answers until `end`. */
async function flood(raw: Raw, request: string, end: () => boolean): Promise<number> {
  raw.socket.pause()
  let asked = 0
  while (!end() && asked * request.length < ANSWER_BYTES_MAX) {
    const before = fake.statuses.length
    raw.write(request)
    asked += 1
    await until(() => fake.statuses.length > before || end())
  }
  return asked
}

test('large answers: the connection closes once its socket is full', async () => {
  const raw = await Raw.open(api.port)
  raw.socket.once('error', () => {})
  const asked = await flood(raw, invalid(500), () => api.stats().unreadAnswers > 0)
  expect(api.stats().unreadAnswers, `after ${asked} answers`).toBe(1)
  raw.write(invalid(500))
  await until(() => api.stats().unreadAnswers === 0)
  raw.socket.resume()
  await raw.untilClosed()
})

test('small answers: some check whether the socket takes them, so the connection closes too', async () => {
  const raw = await Raw.open(api.port)
  raw.socket.once('error', () => {})
  const body = `[${Array.from({ length: 90 }, (_, id) => `{"id":"${id}"}`).join()}]`
  const request = `${head('/v1/open', [`Content-Length: ${body.length}`])}${body}`
  const asked = await flood(raw, request, () => api.stats().unreadAnswers > 0)
  expect(api.stats().unreadAnswers, `after ${asked} answers`).toBe(1)
  expect(new Set(fake.statuses)).toEqual(new Set([200]))
  raw.write(request)
  await until(() => api.stats().unreadAnswers === 0)
  raw.socket.resume()
  await raw.untilClosed()
})

// Over node:http each answer says whether its socket took it.
test.skipIf(frontEnd.name === 'node')(
  'small refusals: one in REFUSALS_PER_CLOSE closes the connection, and the next request is not taken',
  async () => {
    const raw = await Raw.open(api.port)
    const request = invalid(1)
    for (let asked = 1; asked <= REFUSALS_PER_CLOSE; asked += 1) {
      raw.write(request)
      await raw.until(r => r.received.split('HTTP/1.1 400').length === asked + 1)
      expect(/connection: close/i.test(raw.received)).toBe(asked === REFUSALS_PER_CLOSE)
    }
    await raw.until(r => r.received.endsWith('}\r\n'))
    const logged = fake.statuses.length
    raw.write(request)
    await raw.untilClosed()
    expect(fake.statuses.length).toBe(logged)
  },
)

test('a client that reads late gets every byte, and its connection goes on', async () => {
  const raw = await Raw.open(api.port)
  const asked = await flood(raw, invalid(500), () => api.stats().unreadAnswers > 0)
  expect(api.stats().unreadAnswers).toBe(1)
  raw.socket.resume()
  await until(() => api.stats().unreadAnswers === 0)
  raw.write(`${head('/v1/open', [`Content-Length: ${good.length}`])}${good}`)
  await raw.until(r => r.received.endsWith('"OK"}]'))
  const answers = raw.received.split('HTTP/1.1 ').slice(1)
  expect(answers.length).toBe(asked + 1)
  for (const answer of answers.slice(0, -1)) {
    const [front, body] = answer.split('\r\n\r\n') as [string, string]
    expect(/content-length: (\d+)/i.exec(front)?.[1]).toBe(String(body.length))
    expect(JSON.parse(body).events.length).toBe(500)
  }
  raw.socket.destroy()
})

test('an answer that is not read in time closes its connection', async () => {
  const impatient = await start(fake, { answerMsMax: 200 })
  const raw = await Raw.open(impatient.port)
  await flood(raw, invalid(500), () => impatient.stats().unreadAnswers > 0)
  expect(impatient.stats().unreadAnswers).toBe(1)
  await until(() => impatient.stats().unreadAnswers === 0)
  raw.socket.resume()
  await raw.untilClosed()
  await impatient.stop(1000)
})
