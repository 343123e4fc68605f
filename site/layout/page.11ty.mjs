/** The page around a text: the head, navigation, outline, and what stands below. */
import { posix } from 'node:path'
import { SECTIONS } from '../navigation.mjs'

/** An outline of fewer headings tells nothing. */
const OUTLINE_MIN = 3

/** @param {string} text */
function escapeHtml(text) {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('"', '&quot;')
}

/** @param {any} data what Eleventy knows of a page */
export default function render(data) {
  const { content, site } = data
  const page = site.pageOf(data)
  /** @param {string} path */
  const to = path => posix.relative(posix.dirname(page.path), path)
  const title = page.path === 'index.html' ? 'Weir documentation' : `${page.title} · Weir`
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>${escapeHtml(title)}</title>
<link rel="icon" type="image/svg+xml" href="${to('assets/icon.svg')}">
<link rel="stylesheet" href="${to('assets/site.css')}">
<script src="${to('assets/theme.js')}"></script>
<script src="${to('assets/site.js')}" defer></script>
</head>
<body data-root="${posix.relative(posix.dirname(page.path), '.') || '.'}">
<a class="skip" href="#content">Skip to the text</a>
<header class="top">
<button type="button" class="menu" aria-expanded="false" aria-controls="pages">Pages</button>
<a class="brand" href="${to('index.html')}">Weir <span>documentation</span></a>
<button type="button" class="find" aria-keyshortcuts="/">Search <kbd>/</kbd></button>
<button type="button" class="theme">Dark</button>
</header>
<div class="frame">
<nav id="pages" aria-label="Pages">
${navigation(page, site.pages, to)}
</nav>
<main id="content" tabindex="-1">
<article>
${content}
</article>
${around(page, site.pages, to)}
<footer>Weir ${escapeHtml(site.version)}. This page is made from <code>${escapeHtml(page.source)}</code>.</footer>
</main>
${outline(site.parts.get(page.source) ?? [])}
</div>
</body>
</html>
`
}

function navigation(page, pages, to) {
  return SECTIONS.map(({ title }) => {
    const items = pages
      .filter(({ section }) => section === title)
      .map(one => {
        const current = one === page ? ' aria-current="page"' : ''
        return `<li><a href="${to(one.path)}"${current}>${escapeHtml(shortTitle(one))}</a></li>`
      })
    return `<h2>${title}</h2>\n<ul>\n${items.join('\n')}\n</ul>`
  }).join('\n')
}

/** A title may have an explanation behind a colon. */
function shortTitle({ title }) {
  return title.split(': ')[0]
}

/** The pages before and after, in the order of the navigation. */
function around(page, pages, to) {
  const listed = pages.filter(({ section }) => section !== '')
  const index = listed.indexOf(page)
  if (index < 0) return ''
  const [before, after] = [listed[index - 1], listed[index + 1]]
  const link = (one, rel, word) =>
    one === undefined
      ? ''
      : `<a rel="${rel}" href="${to(one.path)}"><small>${word}</small> ${escapeHtml(shortTitle(one))}</a>`
  return `<nav class="around" aria-label="Pages around">${link(before, 'prev', 'Before')}${link(after, 'next', 'Next')}</nav>`
}

/** @param {readonly import('../markdown.mjs').Part[]} parts */
function outline(parts) {
  const shown = parts.filter(({ level }) => level === 2)
  if (shown.length < OUTLINE_MIN) return ''
  const items = shown.map(({ id, heading }) => `<li><a href="#${id}">${escapeHtml(heading)}</a></li>`)
  return `<aside aria-label="On this page"><h2>On this page</h2>\n<ul>\n${items.join('\n')}\n</ul></aside>`
}
