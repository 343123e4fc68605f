/**
 * A payload as a tree that folds. Each value is text. A part that is to blame is marked, and is
 * open from the beginning.
 */
import { useState } from 'preact/hooks'
import { Copy } from './parts.tsx'

/** Deeper and longer parts begin folded. */
const OPEN_DEPTH = 2
const OPEN_ITEMS = 50
/** Items of one object or list that are shown. The copy has all. */
const ITEMS_MAX = 500

export function JsonTree({
  text,
  marked,
  onProperty,
}: {
  text: string
  /** The path of the part that is marked, such as `item.price`. */
  marked?: string | undefined
  /** Offers an action for each property with a value that is no object. */
  onProperty?: ((path: string, value: unknown) => void) | undefined
}) {
  const value = parsed(text)
  return (
    <div class="tree">
      <div class="actions">
        <Copy text={text} label="Copy payload" />
      </div>
      {value === undefined ? (
        <pre>{text}</pre>
      ) : (
        <Part name={undefined} value={value} path="" depth={0} marked={marked} onProperty={onProperty} />
      )}
    </div>
  )
}

/** A number that JavaScript would write in another way, such as one above 2^53. */
class AsWritten {
  readonly text: string

  constructor(text: string) {
    this.text = text
  }
}

/** Browsers without `source` show such numbers rounded. */
function asWritten(_: string, value: unknown, context?: { readonly source?: string }): unknown {
  const source = context?.source
  const isRead = typeof value !== 'number' || source === undefined || String(value) === source
  return isRead ? value : new AsWritten(source)
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text, asWritten)
  } catch {
    return undefined
  }
}

interface PartProps {
  readonly name: string | undefined
  readonly value: unknown
  readonly path: string
  readonly depth: number
  readonly marked: string | undefined
  readonly onProperty: ((path: string, value: unknown) => void) | undefined
}

function Part({ name, value, path, depth, marked, onProperty }: PartProps) {
  const isMarked = path !== '' && path === marked
  const label = name === undefined ? null : <span class="tree-name">{name}: </span>
  if (value instanceof AsWritten || typeof value !== 'object' || value === null)
    return (
      <div class={`tree-leaf ${isMarked ? 'marked' : ''}`}>
        {label}
        <Leaf value={value} />
        {isMarked && <span class="badge badge-bad">to blame</span>}
        {onProperty !== undefined && name !== undefined && !path.includes('[') && (
          <button
            type="button"
            class="small tree-action"
            onClick={() => onProperty(path, value instanceof AsWritten ? Number(value.text) : value)}
          >
            Add as column
          </button>
        )}
      </div>
    )
  return (
    <Container
      name={name}
      value={value}
      path={path}
      depth={depth}
      marked={marked}
      onProperty={onProperty}
      isMarked={isMarked}
    />
  )
}

function Leaf({ value }: { value: unknown }) {
  if (value instanceof AsWritten) return <span class="tree-number">{value.text}</span>
  return <span class={`tree-${value === null ? 'null' : typeof value}`}>{JSON.stringify(value)}</span>
}

/** An object or a list. What is folded is not drawn: a payload may be wide and deep. */
function Container({
  name,
  value,
  path,
  depth,
  marked,
  onProperty,
  isMarked,
}: Omit<PartProps, 'value'> & { value: object; isMarked: boolean }) {
  const isList = Array.isArray(value)
  const items: [string, unknown][] = isList
    ? value.map((item, at) => [String(at), item])
    : Object.entries(value)
  const isOnWay = marked !== undefined && (path === '' || marked.startsWith(`${path}.`) || isMarked)
  const [isOpen, setIsOpen] = useState(isOnWay || (depth < OPEN_DEPTH && items.length <= OPEN_ITEMS))
  const pathOf = (key: string) => (isList ? `${path}[${key}]` : path === '' ? key : `${path}.${key}`)
  return (
    <details open={isOpen} onToggle={event => setIsOpen(event.currentTarget.open)}>
      <summary class={isMarked ? 'marked' : ''}>
        {name !== undefined && <span class="tree-name">{name}: </span>}
        <span class="tree-size">{isList ? `[${items.length}]` : `{${items.length}}`}</span>
        {isMarked && <span class="badge badge-bad">to blame</span>}
      </summary>
      {isOpen && (
        <div class="tree-items">
          {items.slice(0, ITEMS_MAX).map(([key, item]) => (
            <Part
              key={key}
              name={key}
              value={item}
              path={pathOf(key)}
              depth={depth + 1}
              marked={marked}
              onProperty={onProperty}
            />
          ))}
          {items.length > ITEMS_MAX && (
            <div class="hint">… {items.length - ITEMS_MAX} more: copy the payload</div>
          )}
        </div>
      )}
    </details>
  )
}
