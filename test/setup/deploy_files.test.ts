/** examples/deploy and its page name options, routes and files that exist. */
import { spawnSync } from 'node:child_process'
import { chmodSync, existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { basename, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'
import { POOL_PATHS } from '../../src/api/openapi/pool-paths.ts'
import { allOptions } from '../../src/database/config.ts'
import { weir } from '../tools/folder.ts'
import { startServer, temporaryFolder } from '../util/server.ts'

const ROOT = fileURLToPath(new URL('../../..', import.meta.url))
const FOLDER = join(ROOT, 'examples/deploy')
const read = (name: string) => readFileSync(join(FOLDER, name), 'utf8')
const FILES = [
  'Dockerfile',
  'compose.yaml',
  'systemd/weir.service',
  'systemd/weir.env',
  'systemd/weir.sysusers',
  'systemd/weir-backup.service',
  'proxy/nginx.conf',
  'proxy/Caddyfile',
  '../../docs/deploy.md',
]

test('variables are options of Weir', () => {
  const known = new Set(allOptions().map(([, one]) => one.env))
  const named = FILES.flatMap(file => (read(file).match(/\bWEIR_[A-Z_]+/g) ?? []).map(name => [file, name]))
  expect(named.length).toBeGreaterThan(8)
  expect(named.filter(([, name]) => !known.has(name ?? ''))).toEqual([])
})

test('values that stand in the files are taken', () => {
  for (const file of FILES)
    for (const [, name, value = ''] of read(file).matchAll(/\b(WEIR_[A-Z_]+)(?:=|: )([\w:/.-]+)/g)) {
      const option = allOptions().find(([, one]) => one.env === name)?.[1]
      expect([file, name, value, option?.parse(value) !== undefined]).toEqual([file, name, value, true])
    }
})

test('the image has the folders that its build reads, and nothing else of the clone', () => {
  const allowed = [...read('Dockerfile.dockerignore').matchAll(/^!(.*)$/gm)].map(([, name = '']) => name)
  expect(allowed).toEqual(
    expect.arrayContaining(['package.json', 'package-lock.json', 'src', 'workers', 'packaging']),
  )
  for (const name of allowed) expect([name, existsSync(join(ROOT, name))]).toEqual([name, true])
  expect(allowed).not.toContain('test')
  const { files } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')) as { files: string[] }
  const packed = files.map(name => name.split('/')[0] ?? '').filter(name => name !== 'dist')
  expect(packed.filter(name => !allowed.includes(name))).toEqual([])
})

test('Compose mounts files that exist, and Prometheus finds Weir, its rules and its token there', () => {
  const compose = read('compose.yaml')
  const mounted = [...compose.matchAll(/- (\.\/[\w./-]+):/g)].map(([, name = '']) => name)
  expect(mounted.length).toBe(4)
  expect(mounted.filter(name => !existsSync(join(FOLDER, name)))).toEqual([])
  const prometheus = read('prometheus/compose.yml')
  expect(prometheus).toContain('rule_files:\n  - alerts.yml\n')
  expect(prometheus).toContain('job_name: weir\n')
  expect(prometheus).toContain('targets: ["weir:8420"]')
  const secret = /credentials_file: \/run\/secrets\/(\w+)/.exec(prometheus)?.[1]
  expect(compose).toContain(`secrets:\n  ${secret}:\n    environment: WEIR_METRICS_TOKEN\n`)
  const dashboards = /path: (.*)/.exec(read('grafana/provisioning/dashboards/weir.yml'))?.[1]
  expect(compose).toContain(`./grafana/weir.json:${dashboards}/weir.json:ro`)
})

test('proxies send the streams of pools through as they come, and hide the metrics', () => {
  const paths = Object.keys(POOL_PATHS).map(path => path.replace('{pool}', 'DPO1'))
  const streams = ['import', 'export', 'arrow', 'tail'].map(name => `/v1/pools/DPO1/${name}`)
  expect(paths).toEqual(expect.arrayContaining(streams))
  for (const file of ['proxy/nginx.conf', 'proxy/cluster-nginx.conf', 'proxy/Caddyfile']) {
    const text = read(file)
    const [, pattern = ''] = /(?:location ~|path_regexp) (\S+)/.exec(text) ?? []
    expect([file, paths.filter(path => new RegExp(pattern).test(path)).sort()]).toEqual([
      file,
      streams.sort(),
    ])
    expect([file, text]).toEqual([file, expect.stringMatching(/\/metrics \{\s+(return|respond) 404/)])
  }
})

/** Mounts all read-only but the folders in front of `--`, then runs the rest as user 10001. */
const CONFINE = `
for folder; do shift; [ "$folder" = -- ] && break; mount --bind "$folder" "$folder"; kept="$kept $folder"; done
for mount in $(awk '{ print $5 }' /proc/self/mountinfo); do
  case "$mount" in /proc*|/sys*|/dev*) continue;; esac
  case " $kept " in *" $mount "*) continue;; esac
  mount -o remount,bind,ro "$mount" || exit 9
done
exec setpriv --reuid 10001 --regid 10001 --clear-groups --no-new-privs --bounding-set=-all "$@"`
const confined = (folders: readonly string[]) => [
  'unshare',
  '--mount',
  'sh',
  '-c',
  CONFINE,
  'sh',
  ...folders,
  '--',
]

test('the server may write backups where the unit lets it, and nowhere else (skipped without root)', async context => {
  const names = /^StateDirectory=(\w+) ([\w-]+)$/m.exec(read('systemd/weir.service'))?.slice(1) ?? []
  const root = temporaryFolder()
  const [data = '', backups = ''] = names.map(name => join(root, name))
  for (const folder of [data, backups]) mkdirSync(folder)
  chmodSync(root, 0o755)
  spawnSync('chown', ['-R', '10001:10001', root])
  const [command = '', ...under] = confined([data, backups])
  const tried = spawnSync(command, [
    ...under,
    'test',
    '-r',
    join(ROOT, 'dist/src/app/main.js'),
    '-a',
    '-w',
    data,
  ])
  if (tried.status !== 0)
    return context.skip('it needs the rights to mount, and a clone that other users may read')
  const server = await startServer({ dataDir: data, under: confined([data, backups]) })
  const backUp = (folder: string) => weir(['backup', folder, '--url', server.base, '--data-dir', data])
  expect(await backUp(join(backups, 'first'))).toMatchObject({ code: 0 })
  const elsewhere = await backUp(join(root, 'elsewhere'))
  expect([elsewhere.code, elsewhere.err]).toEqual([2, expect.stringContaining('EROFS')])
  expect((await server.stop()).code).toBe(0)
}, 240_000)

test('the image and Compose have the folder of the data, and one for backups', () => {
  expect(read('Dockerfile')).toContain(
    'RUN mkdir -m 0700 /data /backups && chown 10001:10001 /data /backups\n',
  )
  const mounted = [...read('compose.yaml').matchAll(/^ +- \w+:\/(\w+)$/gm)].map(([, folder = '']) => folder)
  expect(mounted.slice(0, 2)).toEqual(['data', 'backups'])
  // weir verify copies the catalog of a backup to /tmp.
  expect(read('compose.yaml')).toContain('    tmpfs: [/tmp]\n')
})

test('systemd (skipped without it) takes the unit, and finds little that it may do', context => {
  const analyze = (...args: string[]) => spawnSync('systemd-analyze', args, { encoding: 'utf8' })
  if (analyze('security', '--help').error !== undefined)
    context.skip('systemd-analyze is not installed: apt-get install systemd')
  const folder = temporaryFolder()
  const unit = join(folder, 'weir.service')
  writeFileSync(unit, read('systemd/weir.service').replace('/usr/local/bin/weir', process.execPath))
  const [backup, timer] = ['weir-backup.service', 'weir-backup.timer'].map(name => join(folder, name))
  for (const file of [backup, timer]) writeFileSync(file ?? '', read(`systemd/${basename(file ?? '')}`))
  mkdirSync(`${unit}.d`)
  writeFileSync(join(`${unit}.d`, 'bucket.conf'), read('systemd/bucket.conf'))
  const verified = analyze('verify', unit, backup ?? '', timer ?? '')
  expect([verified.status, verified.stdout + verified.stderr]).toEqual([0, ''])
  const { status, stdout } = analyze('security', '--offline=true', '--threshold=20', unit)
  expect([status, /exposure level.*/.exec(stdout)?.[0]]).toEqual([0, expect.stringContaining('OK')])
})
