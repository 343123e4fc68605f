/** Tabs, by the pattern of WAI-ARIA: one stop of the tab key, arrows between them. */
import type { ComponentChildren } from 'preact'
import { useId, useRef } from 'preact/hooks'

export interface Tab {
  readonly key: string
  readonly title: string
}

export function Tabs({
  label,
  tabs,
  current,
  onChoose,
  children,
}: {
  label: string
  tabs: readonly Tab[]
  current: string
  onChoose: (key: string) => void
  children: ComponentChildren
}) {
  const id = useId()
  const list = useRef<HTMLDivElement>(null)
  const step = (by: number) => {
    const at = tabs.findIndex(tab => tab.key === current)
    const next = (at + by + tabs.length) % tabs.length
    onChoose(tabs[next]!.key)
    list.current?.querySelectorAll('button')[next]?.focus()
  }
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.key === 'ArrowRight') step(1)
    else if (event.key === 'ArrowLeft') step(-1)
    else return
    event.preventDefault()
  }
  return (
    <>
      <div ref={list} class="tabs" role="tablist" aria-label={label}>
        {tabs.map(({ key, title }) => (
          <button
            key={key}
            type="button"
            role="tab"
            id={`${id}-${key}`}
            aria-selected={key === current}
            aria-controls={`${id}-panel`}
            tabIndex={key === current ? 0 : -1}
            onClick={() => onChoose(key)}
            onKeyDown={onKeyDown}
          >
            {title}
          </button>
        ))}
      </div>
      <div id={`${id}-panel`} role="tabpanel" aria-labelledby={`${id}-${current}`}>
        {children}
      </div>
    </>
  )
}
