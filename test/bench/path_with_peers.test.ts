/**
 * The bench `path` with wrk and the installed peers: it prints their figures, and they end and
 * leave nothing behind, also when the bench is interrupted. Without an installed peer the tests are
 * skipped.
 */
import { spawnSync } from 'node:child_process'
import { describe, expect, test } from 'vitest'
import { hasClickHouse } from '../../bench/peers/clickhouse.ts'
import { hasPostgres } from '../../bench/peers/postgres.ts'
import { alive, eventually, familyWith, startBench } from './run.ts'

const hasWrk = spawnSync('which', ['wrk']).status === 0
const peers = [
  ...(hasClickHouse() ? [['ClickHouse', /clickhouse-server/] as const] : []),
  ...(hasPostgres() ? [['PostgreSQL', /postgres: .* (INSERT|BIND|idle|COMMIT)/] as const] : []),
]

describe('path', () => {
  test.skipIf(peers.length === 0)('measures the installed peers in turn', async () => {
    const asked = hasWrk ? ['--generator', 'wrk'] : []
    const args = ['path', '--only', 'batches', '--seconds', '1', '--pairs', '2', '--pause', '0.5', ...asked]
    const { code, output, left } = await startBench(args).ended
    expect({ code, left }, output).toEqual({ code: 0, left: [] })
    const names = ['Weir', ...peers.map(([name]) => name)]
    expect(output).toContain(`order `)
    expect(output).toMatch(new RegExp(`order +${names.join(' ')}, ${[...names].reverse().join(' ')}$`, 'm'))
    for (const name of names) {
      for (const pair of [1, 2])
        expect(output).toMatch(new RegExp(`${name} ${pair} +\\S+ events/s, .*, no errors`))
      expect(output).toMatch(new RegExp(`${name}, median +\\S+ events/s, \\S+ per CPU-second`))
    }
    for (const [name] of peers)
      expect(output).toMatch(
        new RegExp(`pair 2, Weir against .*${name} [\\d.]+ × \\([\\d.]+ × per CPU-second\\)`),
      )
    expect(output).toMatch(/ratio to the better peer, median of the pairs +[\d.]+ × in events\/s, [\d.]+ ×/)
    expect(output).toContain(`generator (${hasWrk ? 'wrk' : 'node'})`)
    expect(output).not.toMatch(/NaN|Infinity|undefined|DIFFER|ERRORS/)
  })

  test.each(peers)('leaves no %s after Ctrl-C', async (_name, wanted) => {
    const bench = startBench(['path', '--only', 'batches', '--seconds', '5', '--pairs', '1', '--pause', '0'])
    const family = await familyWith(bench, wanted)
    bench.child.kill('SIGINT')
    const end = await bench.ended
    expect({ code: end.code, left: end.left }, end.output).toEqual({ code: 130, left: [] })
    await eventually(() => (alive(family).length === 0 ? true : undefined))
  })

  test.skipIf(!hasWrk)('leaves no wrk after Ctrl-C', async () => {
    const bench = startBench([
      'path',
      '--only',
      'batches',
      '--generator',
      'wrk',
      '--no-peers',
      '--seconds',
      '600',
      '--pause',
      '0',
    ])
    const family = await familyWith(bench, /^wrk /)
    bench.child.kill('SIGINT')
    const end = await bench.ended
    expect({ code: end.code, left: end.left }, end.output).toEqual({ code: 130, left: [] })
    expect(alive(family)).toEqual([])
  })
})
