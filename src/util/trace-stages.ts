/** Stages of work one after another, each of which is a span inside all of the given ones. */
import { monotonicMs } from './clock.ts'
import type { TraceSpan } from './tracing.ts'

export class TraceStages {
  readonly #spans: readonly TraceSpan[]
  #fromMs = monotonicMs()

  constructor(spans: readonly (TraceSpan | undefined)[]) {
    this.#spans = spans.filter(span => span?.isRecording === true) as TraceSpan[]
  }

  /** Ends the present stage; the next one begins. */
  end(name: string, attributes?: Readonly<Record<string, string | number>>): void {
    if (this.#spans.length === 0) return
    const toMs = monotonicMs()
    for (const span of this.#spans) span.stage(name, this.#fromMs, toMs, attributes)
    this.#fromMs = toMs
  }
}
