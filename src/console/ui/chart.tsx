/** A chart over time, by uPlot, with the same numbers in words for those who do not see it. */
import { useEffect, useLayoutEffect, useRef } from 'preact/hooks'
import uPlot from 'uplot'
import 'uplot/dist/uPlot.min.css'
import { localTick, shortCount } from '../model/format.ts'

export interface Line {
  readonly title: string
  /** A name of the style sheet, such as `--good`. */
  readonly color: string
  readonly values: readonly number[]
}

const HEIGHT_PX = 180

export function Chart({
  label,
  times,
  lines,
}: {
  /** What a screen reader says. */
  label: string
  /** Seconds since 1970. */
  times: readonly number[]
  lines: readonly Line[]
}) {
  const box = useRef<HTMLDivElement>(null)
  const plot = useRef<uPlot | undefined>(undefined)
  const shape = lines.map(({ title, color }) => `${title} ${color}`).join('|')
  // biome-ignore lint/correctness/useExhaustiveDependencies: new values go to the same plot below
  useLayoutEffect(() => {
    const element = box.current!
    const made = new uPlot(
      optionsOf(lines, element),
      [[...times], ...lines.map(line => [...line.values])],
      element,
    )
    plot.current = made
    const observer = new ResizeObserver(() => made.setSize({ width: element.clientWidth, height: HEIGHT_PX }))
    observer.observe(element)
    return () => {
      observer.disconnect()
      made.destroy()
    }
  }, [shape])
  useEffect(() => {
    plot.current?.setData([[...times], ...lines.map(line => [...line.values])])
  }, [times, lines])
  return <div ref={box} class="chart" role="img" aria-label={label} />
}

function optionsOf(lines: readonly Line[], element: HTMLElement): uPlot.Options {
  const color = (name: string) => getComputedStyle(element).getPropertyValue(name).trim()
  // Asked at each drawing: the theme may change meanwhile.
  const axis: uPlot.Axis = {
    stroke: () => color('--quiet'),
    grid: { stroke: () => color('--line'), width: 1 },
    ticks: { show: false },
    font: '12px system-ui, sans-serif',
  }
  return {
    width: element.clientWidth,
    height: HEIGHT_PX,
    legend: { show: false },
    cursor: { show: false },
    padding: [8, 8, 0, 0],
    scales: { y: { range: (_, __, max) => [0, Math.max(1, max * 1.1)] } },
    axes: [
      {
        ...axis,
        space: 110,
        values: (plot, splits) => splits.map(second => localTick(second * 1000, spanOf(plot))),
      },
      {
        ...axis,
        size: 52,
        values: (_, splits) => splits.map(value => (Number.isInteger(value) ? shortCount(value) : '')),
      },
    ],
    series: [
      {},
      ...lines.map(line => ({
        label: line.title,
        stroke: () => color(line.color),
        width: 2,
        points: { show: false },
      })),
    ],
  }
}

function spanOf({ scales }: uPlot): number {
  return (scales['x']?.max ?? 0) - (scales['x']?.min ?? 0)
}

export function Legend({ lines }: { lines: readonly Line[] }) {
  return (
    <ul class="legend">
      {lines.map(({ title, color }) => (
        <li key={title}>
          <span class="swatch" style={{ background: `var(${color})` }} />
          {title}
        </li>
      ))}
    </ul>
  )
}
