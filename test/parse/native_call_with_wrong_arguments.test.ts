/** The native module refuses wrong calls with an exception, and stays usable. */
import { describe, expect, test } from 'vitest'
import { REQUEST, REQUEST_WORDS } from '../../src/parse/kernel.ts'
import { makeNativeKernel, nativeModule, SCHEMA, shared } from './native_calls.ts'

const EMPTY = new Int32Array(0)

describe.skipIf(nativeModule === undefined)('native module', () => {
  const native = nativeModule!

  test.each([
    ['nothing', []],
    ['properties that are no array', ['a', EMPTY, EMPTY, false]],
    ['a property that is no string', [[1], Int32Array.of(1, 0), EMPTY, false]],
    ['columns of another length', [['a'], EMPTY, EMPTY, false]],
    ['columns of another type', [['a'], Float64Array.of(1, 0), EMPTY, false]],
    ['an unknown column type', [['a'], Int32Array.of(11, 0), EMPTY, false]],
    ['a key that is no array', [['a'], Int32Array.of(1, 1), 'a', false]],
    ['a key column that is not there', [['a'], Int32Array.of(1, 1), Int32Array.of(1), false]],
    ['a key column that may be null', [['a'], Int32Array.of(1, 0), Int32Array.of(0), false]],
    ['a JSON key column', [['a'], Int32Array.of(10, 1), Int32Array.of(0), false]],
    ['a meaning that is no boolean', [[], EMPTY, EMPTY, 1]],
  ])('makeKernel refuses %s', (_, words) => {
    expect(() => native.makeKernel(...words)).toThrow(TypeError)
  })

  test.each([
    ['nothing', []],
    ['another object as the kernel', [{}, new Uint8Array(1), new Float64Array(REQUEST_WORDS), 0, 1]],
    ['null as the kernel', [null, new Uint8Array(1), new Float64Array(REQUEST_WORDS), 0, 1]],
    [
      'a DataView as the slab',
      ['kernel', new DataView(new ArrayBuffer(8)), new Float64Array(REQUEST_WORDS), 0, 1],
    ],
    ['an Int8Array as the slab', ['kernel', new Int8Array(8), new Float64Array(REQUEST_WORDS), 0, 1]],
    ['a Float32Array as the table', ['kernel', new Uint8Array(8), new Float32Array(REQUEST_WORDS), 0, 1]],
    ['rows behind the table', ['kernel', new Uint8Array(8), new Float64Array(2 * REQUEST_WORDS - 1), 0, 2]],
    ['negative rows', ['kernel', new Uint8Array(8), new Float64Array(REQUEST_WORDS), -1, 1]],
    ['rows backwards', ['kernel', new Uint8Array(8), new Float64Array(2 * REQUEST_WORDS), 2, 1]],
    ['rows that are no numbers', ['kernel', new Uint8Array(8), new Float64Array(2 * REQUEST_WORDS), '0', 1]],
  ])('parse refuses %s', (_, words) => {
    const kernel = native.makeKernel([], EMPTY, EMPTY, false)
    const call = words.map(word => (word === 'kernel' ? kernel : word))
    expect(() => native.parse(...call)).toThrow(TypeError)
  })

  test.each([
    ['an offset behind the slab', REQUEST.offset, 1000],
    ['a negative offset', REQUEST.offset, -1],
    ['an offset that is no number', REQUEST.offset, Number.NaN],
    ['an offset between bytes', REQUEST.offset, 0.5],
    ['more bytes than the slab has', REQUEST.bytes, 1000],
    ['endless bytes', REQUEST.bytes, Number.POSITIVE_INFINITY],
    ['bits behind the slab', REQUEST.bits, 1000],
    ['bits that end behind the slab', REQUEST.bits, 28],
  ])('parse refuses %s', (_, word, value) => {
    const { slab, table } = shared(['[{},{},{},{},{},{},{},{},{}]'], 0)
    const kernel = makeNativeKernel({ ...SCHEMA, columns: [], key: null }, 'post')
    expect(kernel.parse(slab, table, 0, 1).outcomes[1]).toBe(9)
    table[word] = value
    expect(() => kernel.parse(slab, table, 0, 1)).toThrow(RangeError)
    // The kernel is whole after a refused call.
    const again = shared(['[{}]'])
    expect(kernel.parse(again.slab, again.table, 0, 1).outcomes[1]).toBe(1)
  })

  test('writeBatch refuses another size, no parse before it, and a second time', () => {
    const kernel = native.makeKernel([], EMPTY, EMPTY, false)
    expect(() => native.writeBatch(kernel, new Uint8Array(88))).toThrow(TypeError)
    const { batchBytes } = native.parse(kernel, new Uint8Array(0), new Float64Array(0), 0, 0) as {
      batchBytes: number
    }
    expect(() => native.writeBatch(kernel, new Uint8Array(batchBytes + 1))).toThrow(TypeError)
    expect(() => native.writeBatch({}, new Uint8Array(batchBytes))).toThrow(TypeError)
    native.writeBatch(kernel, new Uint8Array(batchBytes))
    expect(() => native.writeBatch(kernel, new Uint8Array(batchBytes))).toThrow(TypeError)
  })

  test('writeBatch refuses a kernel whose rows another kernel of the thread has taken since', () => {
    const [first, second] = [false, true].map(deletes =>
      native.makeKernel(['a'], Int32Array.of(1, 1), Int32Array.of(0), deletes),
    )
    const { slab, table } = shared(['[{"a":"one"},{"a":"two"}]'])
    const parse = (kernel: unknown) => native.parse(kernel, slab, table, 0, 1) as { batchBytes: number }
    const { batchBytes } = parse(first)
    const other = parse(second)
    expect(() => native.writeBatch(first, new Uint8Array(batchBytes))).toThrow(TypeError)
    native.writeBatch(second, new Uint8Array(other.batchBytes))
    expect(parse(first).batchBytes).toBe(batchBytes)
    native.writeBatch(first, new Uint8Array(batchBytes))
  })

  test('a freed kernel takes no call, and is freed once', () => {
    const kernel = native.makeKernel([], EMPTY, EMPTY, false)
    const { slab, table } = shared(['[{}]'])
    const { batchBytes } = native.parse(kernel, slab, table, 0, 1) as { batchBytes: number }
    native.freeKernel(kernel)
    expect(() => native.writeBatch(kernel, new Uint8Array(batchBytes))).toThrow(TypeError)
    expect(() => native.parse(kernel, slab, table, 0, 1)).toThrow(TypeError)
    expect(() => native.freeKernel(kernel)).toThrow(TypeError)
    expect(() => native.freeKernel({})).toThrow(TypeError)
  })

  test('a call of no requests gives an empty batch', () => {
    const parsed = makeNativeKernel(SCHEMA, 'post').parse(new Uint8Array(0), new Float64Array(0), 0, 0)
    expect(new Int32Array(parsed.batch, 0, 4)[2]).toBe(0)
    expect([parsed.outcomes.length, parsed.errors.length]).toEqual([0, 0])
  })
})
