/**
 * Markdown as the site shows it: headings with the anchors of the repository's host, links to pages
 * of the site, coloured code, tables that scroll, and the texts for the search.
 */
import GithubSlugger from 'github-slugger'
import hljs from 'highlight.js/lib/common'
import graphql from 'highlight.js/lib/languages/graphql'
import { resolveLink } from './pages.mjs'

hljs.registerLanguage('graphql', graphql)
hljs.registerAliases(['mjs', 'jsx'], { languageName: 'javascript' })
hljs.registerAliases('tf', { languageName: 'ini' })

/**
 * @typedef {object} Part a heading and what stands below it
 * @property {string} id
 * @property {number} level 1 to 6
 * @property {string} heading
 * @property {string} text
 */

/**
 * Changes a markdown-it for the site.
 * @param {import('markdown-it')} md
 * @param {object} site
 * @param {(env: { page: { inputPath: string } }) => import('./pages.mjs').Page} site.pageOf
 * @param {readonly import('./pages.mjs').Page[]} site.pages
 * @param {Map<string, Part[]>} site.parts by source; filled here
 * @param {Set<string>} site.images filled with the images that pages show
 */
export function setMarkdown(md, { pageOf, pages, parts, images }) {
  md.set({ highlight })
  md.core.ruler.push('site', ({ tokens, env }) => {
    const page = pageOf(env)
    const found = addAnchors(tokens)
    parts.set(page.source, found)
    for (const { children } of tokens) {
      for (const image of mendLinks(children ?? [], href => resolveLink(page, href, pages))) images.add(image)
    }
    markAnswers(tokens)
  })
  md.renderer.rules.table_open = () => '<div class="table" tabindex="0"><table>\n'
  md.renderer.rules.table_close = () => '</table></div>\n'
  const fence = md.renderer.rules.fence
  md.renderer.rules.fence = (tokens, index, ...rest) => {
    const { info, meta } = tokens[index]
    const kind = meta?.isAnswer ? 'answer' : 'code'
    const html = fence(tokens, index, ...rest).replace('<pre>', '<pre tabindex="0">')
    return `<div class="block ${kind}" data-language="${md.utils.escapeHtml(info.trim())}">${html}</div>\n`
  }
}

function highlight(code, language) {
  return hljs.getLanguage(language) ? hljs.highlight(code, { language }).value : ''
}

/** Gives headings their ids. Returns the page's parts. @returns {Part[]} */
function addAnchors(tokens) {
  const slugger = new GithubSlugger()
  /** @type {Part[]} */
  const parts = []
  for (const [index, token] of tokens.entries()) {
    if (token.type === 'heading_open') {
      const heading = textOf(tokens[index + 1])
      const id = slugger.slug(heading)
      token.attrSet('id', id)
      parts.push({ id, level: Number(token.tag.slice(1)), heading, text: '' })
    } else if (tokens[index - 1]?.type !== 'heading_open') {
      const part = parts.at(-1)
      const text = token.type === 'inline' ? textOf(token) : token.type === 'fence' ? token.content : ''
      if (part !== undefined && text !== '') part.text += `${text} `
    }
  }
  return parts
}

/** The words of an inline token. */
function textOf({ children }) {
  return children
    .map(({ type, content }) =>
      type === 'softbreak' ? ' ' : type === 'text' || type === 'code_inline' ? content : '',
    )
    .join('')
}

/**
 * Leads links to the site. One to a file that the site does not have becomes plain text.
 * @returns {string[]} the images to copy
 */
function mendLinks(tokens, resolve) {
  const images = []
  const opened = []
  for (const token of tokens) {
    if (token.type === 'link_open') {
      const link = resolve(token.attrGet('href'))
      opened.push(link)
      if (link === undefined) Object.assign(token, { tag: 'span', attrs: null })
      else token.attrSet('href', link.href)
      if (link?.image !== undefined) images.push(link.image)
    } else if (token.type === 'link_close') {
      if (opened.pop() === undefined) token.tag = 'span'
    } else if (token.type === 'image') {
      const link = resolve(token.attrGet('src'))
      if (link !== undefined) token.attrSet('src', link.href)
      if (link?.image !== undefined) images.push(link.image)
    }
  }
  return images
}

/** A block that directly follows commands is what they print. */
function markAnswers(tokens) {
  for (const [index, token] of tokens.entries()) {
    const before = tokens[index - 1]
    if (token.type === 'fence' && before?.type === 'fence' && before.info === 'sh' && token.info !== 'sh')
      token.meta = { isAnswer: true }
  }
}
