/** Shows that a page failed, in place of nothing. The browser's own console has the error. */
import { Component, type ComponentChildren } from 'preact'
import { Note } from './parts.tsx'

export class Boundary extends Component<{ children: ComponentChildren }, { error?: string }> {
  override componentDidCatch(error: unknown): void {
    reportError(error)
    this.setState({ error: error instanceof Error ? error.message : String(error) })
  }

  override render() {
    const { error } = this.state
    if (error === undefined) return this.props.children
    return (
      <Note kind="bad">
        This page failed: {error}{' '}
        <button type="button" class="link" onClick={() => location.reload()}>
          Load it again
        </button>
      </Note>
    )
  }
}
