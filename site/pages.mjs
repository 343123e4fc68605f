/**
 * Which pages the site has, where each is written, and where a link of a page leads.
 *
 * The Markdown files stay as they are, because they are read in the repository too. So the site has
 * the folders of the repository, without `docs/`:
 *
 *   docs/README.md             index.html
 *   docs/figures/index.md      figures/index.html
 *   examples/deploy/README.md  examples/deploy/README.html
 *   src/util/limits.ts         src/util/limits.ts.html   a file that a page links to, as text
 *
 * All links are relative. The site works below any path, and from a folder without a server.
 */
import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs'
import { dirname, join, posix } from 'node:path'
import { fileURLToPath } from 'node:url'
import { FOLDERS_WITH_INDEX, NOT_SEARCHED, SECTION_OF_OTHERS, SECTIONS } from './navigation.mjs'

export const root = dirname(dirname(fileURLToPath(import.meta.url)))

/**
 * @typedef {object} Page
 * @property {string} source path in the repository
 * @property {string} path path in the site
 * @property {string} title
 * @property {string} text Markdown
 * @property {string} section title of its section; '' for pages that are reached by links alone
 * @property {boolean} isSearched
 */

/** Endings of linked files that are copied as they are. */
const IMAGE = /\.(png|jpg|svg)$/
const LINK = /\]\(([^)\s#]+)/g

/** @param {string} source */
export function pathOf(source) {
  if (source === 'docs/README.md') return 'index.html'
  const path = source.replace(/^docs\//, '')
  return path.endsWith('.md') ? path.replace(/\.md$/, '.html') : `${path}.html`
}

/** The first heading, without signs of Markdown. @param {string} text */
function titleOf(text) {
  return (/^# (.+)$/m.exec(text)?.[1] ?? '').replaceAll('`', '')
}

/** @param {string} source */
const read = source => readFileSync(join(root, source), 'utf8')
/** @param {string} source */
const isFile = source => existsSync(join(root, source)) && statSync(join(root, source)).isFile()

/**
 * Every page, the sections' first and in their order. @returns {readonly Page[]}
 */
export function findPages() {
  const own = readdirSync(join(root, 'docs'), { recursive: true })
    .map(name => posix.join('docs', String(name)))
    .filter(name => name.endsWith('.md') && !name.startsWith('docs/site/'))
    .sort()
  const inSections = new Set(SECTIONS.flatMap(({ pages }) => pages))
  const left = own.filter(source => !inSections.has(source))
  const isIndexed = source => FOLDERS_WITH_INDEX.some(folder => source.startsWith(folder))
  const named = SECTIONS.flatMap(({ title, pages }) => {
    const others = title === SECTION_OF_OTHERS ? left.filter(source => !isIndexed(source)) : []
    return [...pages, ...others].map(source => ({
      source,
      section: title,
      isSearched: !NOT_SEARCHED.includes(source),
    }))
  })
  const indexed = left.filter(isIndexed).map(source => ({ source, section: '', isSearched: false }))
  const written = [...named, ...indexed].map(page => {
    const text = read(page.source)
    return { ...page, text, title: titleOf(text), path: pathOf(page.source) }
  })
  return [...written, ...linkedFiles(written)]
}

/** Text files of the repository that pages link to. @param {readonly Page[]} pages */
function linkedFiles(pages) {
  const known = new Set(pages.map(({ source }) => source))
  const linked = pages.flatMap(({ source, text }) =>
    [...text.matchAll(LINK)].map(([, href = '']) => posix.join(posix.dirname(source), href)),
  )
  return [...new Set(linked)]
    .filter(source => !known.has(source) && !source.endsWith('.md') && !IMAGE.test(source) && isFile(source))
    .map(source => ({
      source,
      section: '',
      isSearched: false,
      title: source,
      path: pathOf(source),
      text: `# ${source}\n\n~~~~~${posix.extname(source).slice(1)}\n${read(source)}~~~~~\n`,
    }))
}

/**
 * Where a link of a page leads in the site.
 * @param {Page} from
 * @param {string} href as the page has it
 * @param {readonly Page[]} pages
 * @returns {{ href: string, image?: string } | undefined} undefined where the site has no such
 *   page; `image` is the file to copy
 */
export function resolveLink(from, href, pages) {
  if (/^[a-z]+:|^#/.test(href)) return { href }
  const [path = '', fragment] = href.split('#')
  const target = posix.join(posix.dirname(from.source), path).replace(/\/$/, '')
  const names = [target, `${target}/README.md`]
  const page = pages.find(({ source }) => names.includes(source))
  const isImage = page === undefined && IMAGE.test(target) && isFile(target)
  if (page === undefined && !isImage) return undefined
  const to = page?.path ?? target.replace(/^docs\//, '')
  const relative = posix.relative(posix.dirname(from.path), to)
  return {
    href: fragment === undefined ? relative : `${relative}#${fragment}`,
    ...(isImage ? { image: target } : {}),
  }
}
