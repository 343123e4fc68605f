/** Dialogs: the browser's own, which keeps the keyboard inside and gives it back at the end. */
import type { ComponentChildren } from 'preact'
import { useId, useLayoutEffect, useRef, useState } from 'preact/hooks'
import { Form, TextField } from './fields.tsx'
import { useAction } from './load.ts'
import { Note } from './parts.tsx'

export function Dialog({
  title,
  onClose,
  leave,
  children,
}: {
  title: string
  onClose: () => void
  /** What the button says that closes it, where that loses something: then Escape does not. */
  leave?: string
  children: ComponentChildren
}) {
  const dialog = useRef<HTMLDialogElement>(null)
  const id = useId()
  const isGone = useRef(false)
  useLayoutEffect(() => {
    const element = dialog.current!
    element.showModal()
    return () => {
      isGone.current = true
      // Closed, and not only removed, it gives the keyboard back to where it was.
      element.close()
    }
  }, [])
  return (
    <dialog
      ref={dialog}
      aria-labelledby={id}
      onClose={() => isGone.current || onClose()}
      // Chromium lets a second Escape through onCancel.
      onCancel={event => leave !== undefined && event.preventDefault()}
      onKeyDown={event => leave !== undefined && event.key === 'Escape' && event.preventDefault()}
    >
      <header class="heading">
        <h2 id={id}>{title}</h2>
        <button type="button" class="small" onClick={() => dialog.current?.close()}>
          {leave ?? 'Close'}
        </button>
      </header>
      {children}
    </dialog>
  )
}

/** Asks for the name of what is deleted, because it cannot be undone. */
export function DeleteDialog({
  what,
  name,
  children,
  onDelete,
  onClose,
}: {
  what: string
  name: string
  children: ComponentChildren
  onDelete: () => Promise<void>
  onClose: () => void
}) {
  const [typed, setTyped] = useState('')
  const { run, isRunning, error } = useAction(onDelete)
  return (
    <Dialog title={`Delete ${what}`} onClose={onClose}>
      <Form
        class="form"
        onSubmit={() => {
          if (typed === name) run()
        }}
      >
        {children}
        <TextField label={`Type ${name} to confirm`} value={typed} onText={setTyped} autoComplete="off" />
        {error !== undefined && <Note kind="bad">{error}</Note>}
        <div class="actions">
          <button type="submit" class="bad" disabled={typed !== name || isRunning}>
            {isRunning ? 'Deleting…' : 'Delete'}
          </button>
        </div>
      </Form>
    </Dialog>
  )
}

/** Asks once more before something is lost. */
export function ConfirmDialog({
  title,
  children,
  action,
  onConfirm,
  onClose,
}: {
  title: string
  children: ComponentChildren
  /** What the button says, such as "Remove". */
  action: string
  onConfirm: () => void
  onClose: () => void
}) {
  return (
    <Dialog title={title} onClose={onClose}>
      {children}
      <div class="actions">
        <button
          type="button"
          class="bad"
          onClick={() => {
            onConfirm()
            onClose()
          }}
        >
          {action}
        </button>
      </div>
    </Dialog>
  )
}
