/* Theme, list of pages on narrow screens, copying of code, and the search. */

const root = document.documentElement
const base = document.body.dataset.root
const $ = selector => document.querySelector(selector)

// Theme

const themeButton = $('.theme')
const isDark = () =>
  root.dataset.theme ? root.dataset.theme === 'dark' : matchMedia('(prefers-color-scheme: dark)').matches
const nameTheme = () => {
  themeButton.textContent = isDark() ? 'Light' : 'Dark'
}
nameTheme()
matchMedia('(prefers-color-scheme: dark)').addEventListener('change', nameTheme)
themeButton.addEventListener('click', () => {
  root.dataset.theme = isDark() ? 'light' : 'dark'
  nameTheme()
  try {
    localStorage.setItem('weir-theme', root.dataset.theme)
  } catch {
    // It is kept for this page alone.
  }
})

// The list of pages

const menu = $('.menu')
menu.addEventListener('click', () => {
  const isOpen = root.classList.toggle('menu-open')
  menu.setAttribute('aria-expanded', String(isOpen))
})
$('#pages [aria-current]')?.scrollIntoView({ block: 'nearest' })

// Copying

for (const block of document.querySelectorAll('.block.code')) {
  const button = document.createElement('button')
  button.type = 'button'
  button.className = 'copy'
  button.textContent = 'Copy'
  button.addEventListener('click', async () => {
    const text = block.querySelector('code').textContent
    try {
      await navigator.clipboard.writeText(text)
      button.textContent = 'Copied'
    } catch {
      getSelection().selectAllChildren(block.querySelector('code')) // no https: Ctrl-C does it
      button.textContent = 'Press Ctrl-C'
    }
    setTimeout(() => {
      button.textContent = 'Copy'
    }, 2_000)
  })
  block.append(button)
}

// Search

const RESULTS_MAX = 12
const SNIPPET_CHARACTERS = 160
const CAMEL = /(?<=[a-z])(?=[A-Z])/
const SPLIT = /[\n\r\p{Z}\p{P}\p{S}]+/u

/** createDeletionJob is found by its whole and by its words. */
function tokenize(text) {
  return text.split(SPLIT).flatMap(word => {
    const words = word.split(CAMEL)
    return words.length > 1 ? [word, ...words] : words
  })
}

function load(name) {
  return new Promise((resolve, reject) => {
    const script = document.createElement('script')
    script.src = `${base}/assets/${name}`
    script.onload = resolve
    script.onerror = () => reject(new Error(`${name} could not be loaded`))
    document.head.append(script)
  })
}

let index
async function indexOnce() {
  if (index) return index
  await Promise.all([load('minisearch.js'), load('search-texts.js')])
  index = new window.MiniSearch({
    idField: 'url',
    fields: ['heading', 'page', 'text'],
    storeFields: ['url', 'heading', 'page', 'section', 'text'],
    tokenize,
    searchOptions: {
      prefix: term => term.length > 1,
      fuzzy: term => (term.length > 4 ? 0.2 : false),
      boost: { heading: 4, page: 2 },
      boostDocument: (_url, _term, { section }) => (section === 'How to' ? 2 : 1),
    },
  })
  index.addAll(window.weirSearchTexts)
  return index
}

/** Results with all words first, then those with some. */
function find(searched, query) {
  const all = searched.search(query, { combineWith: 'AND' })
  if (all.length >= RESULTS_MAX) return all.slice(0, RESULTS_MAX)
  const known = new Set(all.map(({ url }) => url))
  const some = searched.search(query).filter(({ url }) => !known.has(url))
  return [...all, ...some].slice(0, RESULTS_MAX)
}

function element(name, className, text) {
  const made = document.createElement(name)
  made.className = className
  made.textContent = text
  return made
}

/** The text around the first word that was found. */
function snippetOf(text, terms) {
  const small = text.toLowerCase()
  const places = terms.map(term => small.indexOf(term)).filter(place => place >= 0)
  const near = places.length === 0 ? 0 : Math.max(0, Math.min(...places) - SNIPPET_CHARACTERS / 4)
  const start = near === 0 ? 0 : text.indexOf(' ', near) + 1
  return `${start > 0 ? '… ' : ''}${text.slice(start, start + SNIPPET_CHARACTERS)} …`
}

const dialog = document.createElement('dialog')
dialog.className = 'search'
dialog.setAttribute('aria-label', 'Search')
dialog.innerHTML = `<form method="dialog">
<input type="search" role="combobox" aria-label="Search the documentation" aria-controls="found"
  aria-expanded="false" aria-autocomplete="list" autocomplete="off" spellcheck="false"
  placeholder="Search: update, Stripe, 429, createDeletionJob …">
<button type="submit">Close</button></form>
<p class="said" role="status"></p><ul id="found" role="listbox" aria-label="Results"></ul>`
document.body.append(dialog)
const input = dialog.querySelector('input')
const list = dialog.querySelector('ul')
const said = dialog.querySelector('.said')
let chosen = -1

function choose(next) {
  const items = [...list.children]
  if (items.length === 0) return
  chosen = (next + items.length) % items.length
  for (const [place, item] of items.entries()) item.setAttribute('aria-selected', String(place === chosen))
  input.setAttribute('aria-activedescendant', items[chosen].id)
  items[chosen].scrollIntoView({ block: 'nearest' })
}

function show(results, query) {
  chosen = -1
  input.removeAttribute('aria-activedescendant')
  input.setAttribute('aria-expanded', String(results.length > 0))
  said.textContent =
    query === '' ? '' : results.length === 0 ? `Nothing has "${query}".` : `${results.length} results`
  list.replaceChildren(
    ...results.map(({ url, heading, page, section, text, terms }, place) => {
      const item = element('li', '', '')
      item.id = `found-${place}`
      item.setAttribute('role', 'option')
      item.setAttribute('aria-selected', 'false')
      const link = element('a', '', '')
      link.href = `${base}/${url}`
      link.tabIndex = -1
      const path = heading === page ? section : `${section} › ${page}`
      link.append(
        element('small', '', path),
        element('strong', '', heading),
        element('span', '', snippetOf(text, terms)),
      )
      link.addEventListener('click', () => dialog.close())
      item.append(link)
      return item
    }),
  )
  if (results.length > 0) choose(0)
}

input.addEventListener('input', async () => {
  const query = input.value.trim()
  try {
    const searched = await indexOnce()
    if (query === input.value.trim()) show(query === '' ? [] : find(searched, query), query)
  } catch (error) {
    said.textContent = `The search does not work: ${error.message}.`
  }
})
input.addEventListener('keydown', event => {
  if (event.key === 'ArrowDown') choose(chosen + 1)
  else if (event.key === 'ArrowUp') choose(chosen - 1)
  else if (event.key === 'Enter') list.children[chosen]?.querySelector('a').click()
  else return
  event.preventDefault()
})

function openSearch() {
  dialog.showModal()
  input.select()
  indexOnce().catch(() => undefined) // the first input says what is wrong
}
$('.find').addEventListener('click', openSearch)
addEventListener('keydown', event => {
  const isTyping = /^(INPUT|TEXTAREA|SELECT)$/.test(event.target.tagName)
  const isAsked = event.key === '/' || (event.key === 'k' && (event.ctrlKey || event.metaKey))
  if (!isAsked || isTyping || dialog.open) return
  event.preventDefault()
  openSearch()
})
dialog.addEventListener('click', event => {
  if (event.target === dialog) dialog.close()
})
