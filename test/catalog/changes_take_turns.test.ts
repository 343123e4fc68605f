/** Changes are made one at a time, in turn by whoever asks for them. */
import { afterEach, beforeEach, expect, test } from 'vitest'
import { createPool } from '../../src/catalog/change/change-pool.ts'
import { type Folder, makeFolder } from './folder.ts'

let folder: Folder
beforeEach(() => {
  folder = makeFolder()
})
afterEach(() => folder.remove())

test('many changes of an application let one of another go between them, and a stop waits for all', async () => {
  const { catalog } = await folder.open()
  const order: string[] = []
  const columns = [{ name: 'id', type: 'STRING', nullable: false }]
  const change = async (by: string, uniqueName: string) => {
    await catalog.change(createPool({ uniqueName, columns }, by), by)
    order.push(uniqueName)
  }
  const all = Array.from({ length: 20 }, (_, index) => change('a', `a${index}`))
  all.push(change('b', 'b0'), change('b', 'b1'))
  await catalog.stop()
  expect(order.slice(0, 5)).toEqual(['a0', 'a1', 'b0', 'a2', 'b1'])
  expect(order).toHaveLength(22)
  await Promise.all(all)
})

test('a change that throws fails alone: those behind it are made', async () => {
  const { catalog } = await folder.open()
  const columns = [{ name: 'id', type: 'STRING', nullable: false }]
  const broken = catalog.change(() => {
    throw new Error('a rule that is wrong')
  })
  const made = catalog.change(createPool({ uniqueName: 'next', columns }, 'a'), 'a')
  await expect(broken).rejects.toThrow('a rule that is wrong')
  await made
  expect(catalog.pools().map(({ uniqueName }) => uniqueName)).toContain('next')
  await catalog.stop()
})
