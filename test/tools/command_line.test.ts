import { expect, test } from 'vitest'
import { COMMANDS, commandHelp, helpText } from '../../src/app/commands.ts'
import { type Command, readCommandLine } from '../../src/database/command.ts'

const run = () => Promise.resolve(0)
const START: Command = { name: 'start', positionals: [], flags: [], why: 'starts', run }
const COPY: Command = {
  name: 'copy',
  positionals: ['<from>', '[to]'],
  flags: [
    { flag: 'format', value: 'NAME', why: 'how' },
    { flag: 'force', value: '', why: 'anyway' },
  ],
  why: 'copies',
  run,
}
const read = (...args: string[]) => readCommandLine(args, [START, COPY], {})

test('no command is start, with all options', () => {
  const { named, input } = read('--port', '7', '--data-dir', '/x')
  expect([named, input.config.port, input.config.dataDir]).toEqual([undefined, 7, '/x'])
  expect(read('start', '--port', '7').named).toBe(START)
})

test('the help is given whatever the options and the environment say', () => {
  const env = { WEIR_PORT: 'x' }
  for (const args of [['--help'], ['copy', '--help'], ['--port', 'y', '--help']])
    expect(readCommandLine(args, [START, COPY], env).help).toBe(true)
  expect(() => readCommandLine([], [START, COPY], env)).toThrow(/WEIR_PORT/)
})

test('a command takes its positionals, its flags and the common options, in any order', () => {
  const { named, input } = read('--data-dir', '/x', 'copy', 'a', '--force', '--format', 'csv', 'b')
  expect(named).toBe(COPY)
  expect(input.positionals).toEqual(['a', 'b'])
  expect([...input.flags]).toEqual([
    ['format', 'csv'],
    ['force', ''],
  ])
  expect(input.config.dataDir).toBe('/x')
  expect(read('copy', '--', '--a').input.positionals).toEqual(['--a'])
  expect(readCommandLine(['copy', 'a'], [START, COPY], { WEIR_DATA_DIR: '/y' }).input.config.dataDir).toBe(
    '/y',
  )
})

test('only a node needs all settings of a cluster', async () => {
  const of = (...args: string[]) => {
    const { named, input } = readCommandLine(args, COMMANDS, { WEIR_STORE: 'clickhouse' })
    return named!.run(input)
  }
  const settings = 'WEIR_CLICKHOUSE_URL, WEIR_KEEPER, WEIR_SECRET_KEY'
  await expect(of('start')).rejects.toThrow(`needs ${settings}, WEIR_CLIENT_ID and WEIR_CLIENT_SECRET`)
  await expect(of('move')).rejects.toThrow(`weir move needs the settings of a cluster: ${settings}`)
  await expect(of('cluster', 'backup', 'f')).rejects.toThrow(/needs .*: WEIR_CLICKHOUSE_URL, WEIR_KEEPER$/)
})

test.each([
  [['dance'], /there is no command "dance"/],
  [['copy'], /weir copy needs <from>/],
  [['copy', 'a', 'b', 'c'], /weir copy takes <from> \[to\]; "c" is one too many/],
  [['start', 'a'], /weir start takes no arguments; "a" is one too many/],
  [['copy', 'a', '--nonsense'], /weir copy has no option --nonsense/],
  [['copy', 'a', '--port', '1'], /weir copy has no option --port/],
  [['copy', 'a', '--force=yes'], /--force/],
  [['copy', 'a', '--format'], /--format/],
])('%j is refused by name', (args, names) => {
  expect(() => read(...args)).toThrow(names)
})

test('help names every command, its flags, and asks for no arguments', () => {
  expect(read('--help')).toMatchObject({ named: undefined, help: true })
  expect(read('copy', '--help')).toMatchObject({ named: COPY, help: true })
  for (const command of COMMANDS) {
    expect(helpText()).toContain(`\n  ${command.name}`)
    const help = commandHelp(command)
    for (const { flag, why } of command.flags) expect(help).toMatch(new RegExp(`--${flag}.*${why}`))
    expect(help).toContain('--data-dir')
  }
})
