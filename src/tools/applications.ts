/**
 * `weir applications` and `weir keys`: manage the callers of the API. With --url they ask a running
 * server; without it they change a stopped folder.
 */
import { CLEAN, type CommandInput } from '../database/command.ts'
import { CannotRun, must } from '../util/errors.ts'
import { printable, say } from '../util/say.ts'
import { askCatalog, checked } from './ask-catalog.ts'
import { APPLICATIONS, KEYS, type ShownApplication } from './manage.ts'
import { pairLines, tableLines } from './text-tables.ts'

export async function applications(input: CommandInput): Promise<number> {
  const { positionals, flags } = input
  const scopes = (flags.get('scopes') ?? '').split(',').filter(scope => scope !== '')
  const request = checked(
    APPLICATIONS.read({
      action: positionals[0],
      application: positionals[1] ?? '',
      description: flags.get('description'),
      scopes,
      propeller: flags.get('propeller'),
    }),
  )
  // No scopes in a request mean all of them.
  if (flags.has('scopes') && scopes.length === 0)
    throw new CannotRun('--scopes names no scope; without --scopes the application gets all of them')
  const answer = await askCatalog(input, APPLICATIONS, request)
  if (flags.has('json')) say(JSON.stringify(answer, null, 2))
  else if (request.action === 'list') for (const line of listLines(answer)) say(line)
  else for (const line of linesOf(request.action, must(answer[0], 'the application'))) say(line)
  return CLEAN
}

export async function keys(input: CommandInput): Promise<number> {
  const { positionals, flags } = input
  if (positionals[0] !== 'rotate')
    throw new CannotRun(`weir keys takes rotate, not "${positionals[0]}"; see weir keys --help`)
  const request = checked(KEYS.read({ action: 'rotate', endTokens: flags.has('end-tokens') }))
  const answer = await askCatalog(input, KEYS, request)
  if (flags.has('json')) say(JSON.stringify(answer, null, 2))
  else {
    say(`tokens are signed with the new key ${answer.kid}`)
    say(
      request.endTokens
        ? 'tokens given before are refused: clients need new ones'
        : 'tokens given before are valid until they expire, for at most an hour',
    )
  }
  return CLEAN
}

function listLines(all: readonly ShownApplication[]): string[] {
  return tableLines(all, [
    ['application', one => one.id],
    ['name', one => one.uniqueName],
    ['propeller', one => one.propeller],
    ['scopes', one => one.scopes.join(',')],
    ['created', one => one.createdAt],
  ])
}

const DONE = { list: '', create: 'created', rotate: 'has a new secret', delete: 'deleted' } as const

function linesOf(action: keyof typeof DONE, one: ShownApplication): string[] {
  const said = `application ${printable(one.uniqueName)} ${DONE[action]}`
  if (action === 'delete') return [`${said}: its tokens are refused from now on`]
  return [
    said,
    ...pairLines([
      ['client id', one.id],
      ['client secret', one.secret ?? ''],
      ['scopes', one.scopes.join(',')],
      ['propeller', one.propeller],
    ]),
  ]
}
