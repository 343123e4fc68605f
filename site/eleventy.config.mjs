/** Eleventy's part of the site: docs/ by Markdown and one layout, and the pages from elsewhere. */
import { cpSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join, posix } from 'node:path'
import { setMarkdown } from './markdown.mjs'
import { findPages, root } from './pages.mjs'

const OUTPUT = 'docs/site'
/** Where a virtual page says what it stands for: Eleventy reads files below docs/ alone. */
const VIRTUAL = 'elsewhere'

/** @param {any} eleventy */
export default function configure(eleventy) {
  const pages = findPages()
  const bySource = new Map(pages.map(page => [page.source, page]))
  /** @type {Map<string, import('./markdown.mjs').Part[]>} */
  const parts = new Map()
  /** @type {Set<string>} */
  const images = new Set()
  const pageOf = ({ page, source }) => {
    const found = bySource.get(source ?? posix.normalize(page.inputPath))
    if (found === undefined) throw new Error(`${page.inputPath} is no page of the site`)
    return found
  }

  eleventy.setQuietMode(true)
  eleventy.addGlobalData('layout', 'page.11ty.mjs')
  eleventy.addGlobalData('permalink', () => data => `/${pageOf(data).path}`)
  eleventy.addGlobalData('site', () => ({
    pages,
    pageOf,
    parts,
    version: JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')).version,
  }))
  for (const { source, text } of pages)
    if (!source.startsWith('docs/'))
      eleventy.addTemplate(`${VIRTUAL}/${source.replaceAll(/[./]/g, '-')}.md`, text, { source })
  eleventy.amendLibrary('md', md => setMarkdown(md, { pageOf, pages, parts, images }))
  eleventy.addPassthroughCopy({
    'site/client': 'assets',
    'site/node_modules/minisearch/dist/umd/index.js': 'assets/minisearch.js',
    'src/console/style/icon.svg': 'assets/icon.svg',
  })
  eleventy.on('eleventy.after', () => {
    writeSearchTexts(pages, parts)
    for (const image of images) {
      const to = join(root, OUTPUT, image.replace(/^docs\//, ''))
      mkdirSync(dirname(to), { recursive: true })
      cpSync(join(root, image), to)
    }
  })
  return {
    dir: { input: 'docs', includes: '../site/layout', output: OUTPUT },
    templateFormats: ['md'],
    // `{{ … }}` on a page is text: access policies have such placeholders.
    markdownTemplateEngine: false,
  }
}

/**
 * Writes what the search finds: one entry a heading. It is a script, because a page that was opened
 * as a file may not fetch.
 */
function writeSearchTexts(pages, parts) {
  const entries = pages
    .filter(({ isSearched }) => isSearched)
    .flatMap(({ source, path, title, section }) =>
      (parts.get(source) ?? []).map(({ id, level, heading, text }) => ({
        url: level === 1 ? path : `${path}#${id}`,
        page: title,
        section,
        heading,
        text: text.trim(),
      })),
    )
  const script = `window.weirSearchTexts = ${JSON.stringify(entries)}\n`
  writeFileSync(join(root, OUTPUT, 'assets/search-texts.js'), script)
}
