/** A client of the live tail: it reads Server-Sent Events. */

/** The columns of an event, as a tail prints them. */
type Row = Record<string, string | null>

/** A reader that keeps what came. A test awaits a condition. */
export class TailReader {
  readonly rows: Row[] = []
  missed = 0
  /** Lines that say nothing but that the stream goes on. */
  comments = 0
  ended: { readonly code: string; readonly message: string } | undefined
  isClosed = false
  #wake = () => {}

  constructor({ body }: Response) {
    void this.#read(body as unknown as AsyncIterable<Uint8Array>)
  }

  async #read(body: AsyncIterable<Uint8Array>): Promise<void> {
    const decoder = new TextDecoder() // a character may be in two chunks
    let text = ''
    try {
      for await (const chunk of body) {
        text += decoder.decode(chunk, { stream: true })
        const end = text.lastIndexOf('\n\n')
        if (end < 0) continue
        for (const event of text.slice(0, end).split('\n\n')) this.#take(event)
        text = text.slice(end + 2)
        this.#wake()
      }
    } catch {} // the server was killed, or the test ends
    this.isClosed = true
    this.#wake()
  }

  #take(event: string): void {
    if (event.startsWith(':')) this.comments += 1
    const data = /^data: (.*)$/m.exec(event)?.[1]
    if (data === undefined) return
    if (event.startsWith('event: missed')) this.missed += (JSON.parse(data) as { count: number }).count
    else if (event.startsWith('event: end'))
      this.ended = JSON.parse(data) as { code: string; message: string }
    else this.rows.push(JSON.parse(data) as Row)
  }

  async until(condition: () => boolean): Promise<void> {
    while (!condition()) {
      if (this.isClosed) throw new Error(`closed before: ${JSON.stringify(this.ended)}`)
      await new Promise<void>(resolve => {
        this.#wake = resolve
      })
    }
  }

  async untilClosed(): Promise<void> {
    while (!this.isClosed)
      await new Promise<void>(resolve => {
        this.#wake = resolve
      })
  }
}
