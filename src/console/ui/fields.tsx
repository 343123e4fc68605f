/** Fields of forms. Each has a label, and says what is wrong with it beside it. */
import type { ComponentChildren } from 'preact'
import { useId } from 'preact/hooks'

/** A form that stays on its page. */
export function Form({
  class: name,
  onSubmit,
  children,
}: {
  class: string
  onSubmit: () => void
  children: ComponentChildren
}) {
  return (
    <form
      class={name}
      onSubmit={event => {
        event.preventDefault()
        onSubmit()
      }}
    >
      {children}
    </form>
  )
}

interface FieldProps {
  readonly label: string
  readonly hint?: string | undefined
  /** Read out, not seen: in a table the column's head says it. */
  readonly isLabelHidden?: boolean
}

function Labelled({
  label,
  hint,
  isLabelHidden = false,
  children,
}: FieldProps & { children: (id: string, hintId: string | undefined) => ComponentChildren }) {
  const id = useId()
  const hintId = hint === undefined ? undefined : `${id}-hint`
  return (
    <div class="field">
      <label for={id} class={isLabelHidden ? 'unseen' : ''}>
        {label}
      </label>
      {children(id, hintId)}
      {hint !== undefined && (
        <small id={hintId} class="hint">
          {hint}
        </small>
      )}
    </div>
  )
}

interface Texts extends FieldProps {
  readonly value: string
  readonly onText: (text: string) => void
  readonly type?: 'text' | 'password' | 'search' | 'number' | 'datetime-local'
  readonly required?: boolean
  readonly disabled?: boolean
  readonly autoComplete?: string
  readonly placeholder?: string
  readonly spellcheck?: boolean
  readonly min?: string
  readonly step?: string
  readonly autofocus?: boolean
  /** The text is done: the field was left, or Enter pressed. */
  readonly onDone?: () => void
}

export function TextField({
  label,
  hint,
  isLabelHidden,
  value,
  onText,
  onDone,
  type = 'text',
  ...input
}: Texts) {
  const onKeyDown = (event: KeyboardEvent) => {
    if (onDone === undefined || event.key !== 'Enter') return
    event.preventDefault() // the form stays
    onDone()
  }
  return (
    <Labelled label={label} hint={hint} isLabelHidden={isLabelHidden ?? false}>
      {(id, hintId) => (
        <input
          {...(input as object)}
          type={type as 'text'}
          id={id}
          aria-describedby={hintId}
          value={value}
          onInput={event => onText(event.currentTarget.value)}
          onBlur={onDone}
          onKeyDown={onKeyDown}
        />
      )}
    </Labelled>
  )
}

export function TextArea({
  label,
  hint,
  value,
  onText,
  rows = 8,
  placeholder,
}: FieldProps & { value: string; onText: (text: string) => void; rows?: number; placeholder?: string }) {
  return (
    <Labelled label={label} hint={hint}>
      {(id, hintId) => (
        <textarea
          id={id}
          aria-describedby={hintId}
          rows={rows}
          spellcheck={false}
          placeholder={placeholder}
          value={value}
          onInput={event => onText(event.currentTarget.value)}
        />
      )}
    </Labelled>
  )
}

export interface Option<T extends string = string> {
  readonly value: T
  readonly text: string
}

export function Select<T extends string>({
  label,
  hint,
  isLabelHidden,
  value,
  options,
  onChoose,
  disabled = false,
}: FieldProps & {
  value: T
  options: readonly Option<T>[]
  onChoose: (value: T) => void
  disabled?: boolean
}) {
  return (
    <Labelled label={label} hint={hint} isLabelHidden={isLabelHidden ?? false}>
      {(id, hintId) => (
        <select
          id={id}
          aria-describedby={hintId}
          value={value}
          disabled={disabled}
          onChange={event => onChoose(event.currentTarget.value as T)}
        >
          {options.map(option => (
            <option key={option.value} value={option.value}>
              {option.text}
            </option>
          ))}
        </select>
      )}
    </Labelled>
  )
}

export function Checkbox({
  label,
  isChecked,
  onCheck,
  isLabelHidden = false,
  disabled = false,
}: {
  label: string
  isChecked: boolean
  onCheck: (isChecked: boolean) => void
  isLabelHidden?: boolean
  disabled?: boolean
}) {
  return (
    <label class="checkbox">
      <input
        type="checkbox"
        checked={isChecked}
        disabled={disabled}
        onChange={event => onCheck(event.currentTarget.checked)}
      />
      <span class={isLabelHidden ? 'unseen' : ''}>{label}</span>
    </label>
  )
}
