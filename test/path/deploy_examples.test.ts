/**
 * examples/deploy: each metric, label and label value that the alert rules and the dashboard name
 * is on the page of a server that has done some work, and the files are complete. promtool checks
 * them too where it is installed.
 */
import { spawnSync } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { must } from '../../src/util/errors.ts'
import { runJob } from '../jobs/rewrite-jobs.ts'
import { send, startServer, type TestServer, temporaryFolder } from '../util/server.ts'
import { column, where } from './client.ts'
import { until } from './compaction.ts'

const FOLDER = fileURLToPath(new URL('../../../examples/deploy/', import.meta.url))
const fileText = (name: string) => readFileSync(join(FOLDER, name), 'utf8')

// ── the page ─────────────────────────────────────────────────────────────────────────────────────

type Labels = Readonly<Record<string, string>>
/** The labels of each sample by its name. */
type Page = ReadonlyMap<string, readonly Labels[]>

let server: TestServer
let page: Page
beforeAll(async () => {
  server = await startServer()
  page = await pageAfterWork(server)
})
afterAll(async () => {
  expect((await server.stop()).code).toBe(0)
})

function readPage(text: string): Page {
  const samples = new Map<string, Labels[]>()
  for (const [, name = '', labels = ''] of text.matchAll(/^([a-z_]+)(?:\{(.*)\})? \S+$/gm)) {
    const known = samples.get(name) ?? []
    known.push(
      Object.fromEntries([...labels.matchAll(/(\w+)="(.*?)"/g)].map(([, key, value]) => [key, value])),
    )
    samples.set(name, known)
  }
  return samples
}

/** Does work of every kind that has a counter with labels: the page lacks the counter before. */
async function pageAfterWork(of: TestServer): Promise<Page> {
  const { base, createPool, count } = of
  const read = async () => await (await fetch(`${base}/metrics`)).text()
  const columns = [column('id', 'STRING'), column('n', 'INT64', true)]
  const pool = await createPool({ columns, uniqueId: 'id' })
  const signed = await createPool({
    columns,
    uniqueId: 'id',
    signature: { scheme: 'GITHUB', secrets: ['a secret of the sender'] },
  })
  expect((await send(pool.url, [{ id: 'a' }, { id: 'b', n: 'x' }])).status).toBe(200)
  expect((await send(pool.url, '{')).status).toBe(400)
  expect((await send(signed.url, { id: 'a' })).status).toBe(401)
  // More queries at a time than run at a time: some wait for their turn.
  await until('a query has waited', async () => {
    const counts = Array.from({ length: 20 }, (_, i) =>
      count(pool.poolId, where('id', 'NOT_EQUALS', `other ${i}`)),
    )
    expect(new Set(await Promise.all(counts))).toEqual(new Set(['1']))
    return (await read()).includes('weir_application_query_wait_seconds_total{')
  })
  expect(await runJob(of, 'deletion', { dataPool: pool.poolId, filterSql: "id = 'a'" })).toBeNull()
  const late = ['weir_rejected_rows_total{', 'weir_job_rows_total{', 'process="query"']
  await until('the page has what comes later', async () => {
    const text = await read()
    return late.every(part => text.includes(part))
  })
  return readPage(await read())
}

// ── expressions ──────────────────────────────────────────────────────────────────────────────────

const DURATION = /^(\d+(ms|[smhdwy]))+$/
/** Prometheus adds them to each sample of a target. */
const TARGET_LABELS = ['job', 'instance']
/** Made by Prometheus about a target. */
const OWN_METRICS = ['up']
const WORDS = /^(by|on|and|or|unless|offset|ignoring|without|bool)$/

interface Expression {
  readonly metrics: string[]
  readonly labels: string[]
  readonly matchers: (readonly [metric: string, label: string, operator: string, value: string])[]
  readonly durations: string[]
}

function parseExpression(text: string): Expression {
  const found: Expression = { metrics: [], labels: [], matchers: [], durations: [] }
  const rest = text
    .replace(/([a-z_]+)\{(.*?)\}/g, (_, metric: string, matchers: string) => {
      for (const [, label = '', operator = '', value = ''] of matchers.matchAll(/(\w+)(=~|!=|!~|=)"(.*?)"/g))
        found.matchers.push([metric, label, operator, value])
      return metric
    })
    .replace(/\[(.*?)\]/g, (_, duration: string) => {
      if (duration !== '$__rate_interval') found.durations.push(duration)
      return ' '
    })
    .replace(/\boffset (\w+)/g, (_, duration: string) => {
      found.durations.push(duration)
      return ' '
    })
    .replace(/\b(?:by|on|ignoring|without) \(([\w, ]*)\)/g, (_, labels: string) => {
      found.labels.push(...labels.split(', '))
      return ' '
    })
  for (const [, name = '', call] of rest.matchAll(/\b([a-z_]+)\b(\s*\()?/g))
    if (call === undefined && !WORDS.test(name)) found.metrics.push(name)
  return found
}

/** Says what of an expression the page lacks. `shown`: labels that a legend or a text shows. */
function missing(text: string, shown: readonly string[]): string[] {
  const { metrics, labels, matchers, durations } = parseExpression(text)
  const of = (metric: string) => page.get(metric) ?? []
  const isLabel = (label: string, names: readonly string[]) =>
    TARGET_LABELS.includes(label) || names.some(name => of(name).some(sample => label in sample))
  return [
    ...(metrics.length === 0 ? ['no metric'] : []),
    ...metrics.filter(name => !OWN_METRICS.includes(name) && of(name).length === 0),
    ...matchers.flatMap(([metric, label, operator, value]) => {
      if (TARGET_LABELS.includes(label)) return []
      if (!isLabel(label, [metric])) return [`${metric}{${label}}`]
      // Statuses such as 503 come later; the others are lists of ours.
      const values = label === 'status' && metric === 'weir_requests_total' ? [] : value.split('|')
      return values
        .filter(one => !of(metric).some(sample => sample[label] === one))
        .map(one => `${metric}{${label}${operator}"${one}"}`)
    }),
    ...[...labels, ...shown].filter(label => !isLabel(label, metrics)).map(label => `label ${label}`),
    ...durations.filter(duration => !DURATION.test(duration)),
  ]
}

test('the reader of expressions finds metrics, labels, values and durations', () => {
  expect(
    parseExpression('sum by (le) (rate(a_b{x=~"1|2", y!="z"}[5m])) / on (job) c > 2 * 1024 and d offset 1h'),
  ).toEqual({
    metrics: ['a_b', 'c', 'd'],
    labels: ['le', 'job'],
    matchers: [
      ['a_b', 'x', '=~', '1|2'],
      ['a_b', 'y', '!=', 'z'],
    ],
    durations: ['5m', '1h'],
  })
  expect(missing('weir_nothing', [])).toEqual(['weir_nothing'])
  expect(missing('weir_queue_depth{queue="nothing"} > 1', ['pool'])).toEqual([
    'weir_queue_depth{queue="nothing"}',
    'label pool',
  ])
})

// ── the alert rules ──────────────────────────────────────────────────────────────────────────────

interface Rule {
  readonly name: string
  readonly reason: string
  /** The lines of the rule, such as `for` and `summary`, by their key. */
  readonly fields: ReadonlyMap<string, string>
}

/** Reads the form that alerts.yml has: a key a line, and indented texts below a key. */
function readRules(text: string): Rule[] {
  const rules = must(text.split('\n    rules:\n')[1], 'rules')
  return rules.split('\n\n').map(part => {
    const lines = part.trimEnd().split('\n')
    const isComment = (line: string) => line.startsWith('      # ')
    const fields = new Map<string, string>()
    let last = ''
    for (const line of lines.filter(one => !isComment(one))) {
      const [, key, value = ''] = /^ {6,10}(?:- )?(\w+): ?(.*)$/.exec(line) ?? []
      last = key ?? last
      const isText = key === undefined || /^[|>]-$/.test(value)
      fields.set(
        last,
        isText ? `${fields.get(last) ?? ''} ${key === undefined ? line.trim() : ''}`.trim() : value,
      )
    }
    return { name: fields.get('alert') ?? '', reason: lines.filter(isComment).join(' '), fields }
  })
}

test('each alert has its reason, a severity, a summary and what to do, and asks for what there is', () => {
  const text = fileText('prometheus/alerts.yml')
  const rules = readRules(text)
  expect(rules.map(rule => rule.name)).toEqual([...text.matchAll(/- alert: (\w+)/g)].map(([, name]) => name))
  expect(new Set(rules.map(rule => rule.name)).size).toBe(rules.length)
  for (const { name, reason, fields } of rules) {
    const field = (key: string) => fields.get(key) ?? ''
    expect([name, reason]).toEqual([name, expect.stringMatching(/^ {6}# Reason: .{40}/)])
    expect([name, field('severity')]).toEqual([name, expect.stringMatching(/^(critical|warning)$/)])
    expect([name, field('summary')]).toEqual([name, expect.stringContaining('$labels.instance')])
    expect([name, field('description')]).toEqual([name, expect.stringMatching(/^.{60,}\.$/)])
    if (fields.has('for')) expect([name, field('for')]).toEqual([name, expect.stringMatching(DURATION)])
    const shown = [...`${field('summary')} ${field('description')}`.matchAll(/\$labels\.(\w+)/g)]
    const labels = shown.map(([, label]) => must(label, 'a label'))
    expect([name, missing(field('expr'), labels)]).toEqual([name, []])
  }
})

interface RuleTest {
  readonly name: string
  readonly series: readonly (readonly [metric: string, instance: string])[]
  /** The alerts that fire at the moments of the test, with their instance. */
  readonly checks: readonly (readonly string[])[]
}

/** Reads the form that alerts_test.yml has. */
function readRuleTests(text: string): RuleTest[] {
  const [, ...parts] = text.split(/^ {2}- name: /m)
  return parts.map(part => {
    const [inputs = '', ...checks] = part.split(/^ {6}- expr: /m)
    return {
      name: must(/^"(.*)"$/m.exec(inputs)?.[1], 'the name of a test'),
      series: [...inputs.matchAll(/'(\w+)\{job="\w+", instance="(\w+)"/g)].map(
        ([, metric = '', instance = '']) => [metric, instance] as const,
      ),
      checks: checks.map(check =>
        [...check.matchAll(/'\{alertname="(\w+)"(?:, instance="(\w+)")?/g)].map(([, ...words]) =>
          words.join(' ').trim(),
        ),
      ),
    }
  })
}

test('each alert has a test in which it fires for an instance, not before its time, and spares others', () => {
  const tests = readRuleTests(fileText('prometheus/alerts_test.yml'))
  const metricsOf = ({ series }: RuleTest) => new Set(series.map(([metric]) => metric))
  const healthy = must(tests[0], 'the test of a healthy server')
  expect([healthy.name, healthy.checks]).toEqual([expect.stringMatching(/^a healthy server: /), [[]]])
  const rules = readRules(fileText('prometheus/alerts.yml'))
  for (const { name, fields } of rules) {
    const own = must(
      tests.find(one => one.name.startsWith(`${name}: `)),
      `a test of ${name}`,
    )
    expect([name, own.checks[0]]).toEqual([name, []])
    expect([name, own.checks.length > 1]).toEqual([name, true])
    for (const fired of own.checks.slice(1)) expect(fired).toContain(`${name} a`)
    expect(own.checks.flat()).not.toContain(`${name} b`)
    const { metrics } = parseExpression(fields.get('expr') ?? '')
    const ofB = own.series.filter(([metric, instance]) => instance === 'b' && metrics.includes(metric))
    expect([name, ofB.length > 0]).toEqual([name, true])
    expect([name, metrics.filter(metric => !metricsOf(healthy).has(metric))]).toEqual([name, []])
  }
  const names = rules.map(rule => rule.name)
  const strangers = tests.slice(1).filter(({ name }) => !names.includes(name.split(':')[0] ?? ''))
  expect(strangers).toEqual([])
  const used = new Set(tests.flatMap(one => [...metricsOf(one)]))
  expect([...used].filter(metric => !OWN_METRICS.includes(metric) && !page.has(metric))).toEqual([])
})

test('the rules are read by prometheus.yml, from the job that they ask for', () => {
  const config = fileText('prometheus/prometheus.yml')
  expect(config).toContain('rule_files:\n  - alerts.yml\n')
  expect(config).toContain('job_name: weir\n')
  for (const [, duration] of config.matchAll(/_interval: (.*)/g)) expect(duration).toMatch(DURATION)
})

// ── the dashboard ────────────────────────────────────────────────────────────────────────────────

interface Panel {
  readonly id: number
  readonly type: string
  readonly title: string
  readonly description?: string
  readonly datasource?: { readonly uid: string }
  readonly gridPos: { readonly h: number; readonly w: number; readonly x: number; readonly y: number }
  readonly fieldConfig?: { readonly defaults: { readonly unit?: string } }
  readonly targets?: readonly {
    readonly expr: string
    readonly legendFormat?: string
    readonly instant?: boolean
  }[]
}

interface Dashboard {
  readonly panels: readonly Panel[]
  readonly templating: { readonly list: readonly { readonly name: string; readonly query: unknown }[] }
}

const dashboard = JSON.parse(fileText('grafana/weir.json')) as Dashboard

test('each panel of the dashboard says what it shows, in which unit, and asks for what there is', () => {
  const panels = dashboard.panels.filter(({ type }) => type !== 'row')
  expect(panels.length).toBeGreaterThan(20)
  expect(new Set(dashboard.panels.map(({ id }) => id)).size).toBe(dashboard.panels.length)
  for (const { title, description, datasource, fieldConfig, targets } of panels) {
    expect([title, description]).toEqual([title, expect.stringMatching(/^.{15,}\.$/)])
    expect(title).not.toBe('')
    expect([title, fieldConfig?.defaults.unit]).toEqual([title, expect.stringMatching(/./)])
    expect([title, datasource?.uid]).toEqual([title, '$' + '{datasource}'])
    expect([title, targets?.length]).not.toEqual([title, 0])
    for (const { expr, legendFormat = '' } of targets ?? []) {
      const shown = [...legendFormat.matchAll(/\{\{(\w+)\}\}/g)].map(([, label]) => must(label, 'a label'))
      expect([title, missing(expr, shown)]).toEqual([title, []])
      // Without it the choice of an instance does nothing.
      for (const metric of parseExpression(expr).metrics)
        expect([title, expr]).toEqual([title, expect.stringContaining(`${metric}{instance=~"$instance"`)])
    }
  }
})

test('a tile shows the present: its last value of hours ago would outlive the server', () => {
  const tiles = dashboard.panels.filter(({ type }) => type === 'stat')
  expect(tiles.length).toBe(6)
  for (const { title, targets = [] } of tiles)
    expect([title, targets.map(({ instant }) => instant)]).toEqual([title, [true]])
})

test('the panels of the dashboard fill their rows and do not overlap', () => {
  const taken = new Set<string>()
  for (const { title, gridPos } of dashboard.panels) {
    expect([title, gridPos.x + gridPos.w <= 24]).toEqual([title, true])
    for (let x = gridPos.x; x < gridPos.x + gridPos.w; x += 1)
      for (let y = gridPos.y; y < gridPos.y + gridPos.h; y += 1) {
        expect([title, taken.has(`${x} ${y}`)]).toEqual([title, false])
        taken.add(`${x} ${y}`)
      }
  }
  const height = Math.max(...dashboard.panels.map(({ gridPos }) => gridPos.y + gridPos.h))
  expect(taken.size).toBe(24 * height)
})

test('the variables of the dashboard are a data source, and the instances of a metric', () => {
  expect(dashboard.templating.list.map(({ name }) => name)).toEqual(['datasource', 'instance'])
  const { query } = dashboard.templating.list[1]!.query as { query: string }
  expect(page.has(must(/^label_values\((\w+), instance\)$/.exec(query)?.[1], 'a metric'))).toBe(true)
})

// ── promtool ─────────────────────────────────────────────────────────────────────────────────────

/** An expression of the dashboard as Grafana sends it. */
const asSent = (expr: string) => expr.replaceAll('$__rate_interval', '5m').replaceAll('$instance', '.*')

/** A test of promtool: the tile "Ready" while a server answers, and after it died. JSON is YAML. */
function testOfReady(): string {
  const { targets } = must(
    dashboard.panels.find(({ title }) => title === 'Ready'),
    'the tile',
  )
  const expr = asSent(must(targets?.[0], 'its expression').expr)
  const series = (name: string, values: string) => ({ series: `${name}{job="weir", instance="a"}`, values })
  const test = {
    interval: '1m',
    input_series: [series('up', '1x9 0x9'), series('weir_ready', '1x9 stale')],
    promql_expr_test: [
      { expr, eval_time: '9m', exp_samples: [{ labels: '{}', value: 1 }] },
      { expr, eval_time: '10m', exp_samples: [{ labels: '{}', value: 0 }] },
    ],
  }
  return JSON.stringify({ evaluation_interval: '1m', tests: [test] })
}

test('promtool (skipped without it) takes the configuration, the rules with their tests, and the expressions of the dashboard', context => {
  if (spawnSync('promtool', ['--version']).error !== undefined)
    context.skip('promtool is not installed: apt-get install prometheus, or put its file on the PATH')
  const expressions = dashboard.panels.flatMap(({ targets = [] }) => targets.map(({ expr }) => expr))
  const rules = expressions.map((expr, index) => ({
    record: `panel:${index}`,
    expr: asSent(expr),
  }))
  const ofDashboard = join(temporaryFolder(), 'dashboard.yml')
  writeFileSync(ofDashboard, JSON.stringify({ groups: [{ name: 'dashboard', rules }] })) // YAML too
  const ofReady = join(temporaryFolder(), 'ready.yml')
  writeFileSync(ofReady, testOfReady())
  for (const command of [
    ['check', 'rules', 'alerts.yml', ofDashboard],
    ['check', 'config', 'prometheus.yml'],
    ['test', 'rules', 'alerts_test.yml', ofReady],
  ]) {
    const done = spawnSync('promtool', command, { cwd: join(FOLDER, 'prometheus'), encoding: 'utf8' })
    expect([command, done.status, done.stdout + done.stderr]).toEqual([command, 0, expect.any(String)])
  }
})
