/** Checks the built site: each link leads to a page and a place in it, and nothing is loaded from elsewhere. */
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { dirname, join, relative } from 'node:path'

const TAG = /<(a|link|script|img)\b[^>]*?\s(?:href|src)="([^"]*)"/g
const ID = /\sid="([^"]*)"/g

/**
 * @param {string} folder of the site
 * @returns {string[]} what is wrong, one line each
 */
export function problemsOf(folder) {
  const files = readdirSync(folder, { recursive: true }).map(String)
  const texts = new Map(
    files
      .filter(name => name.endsWith('.html'))
      .map(name => [join(folder, name), readFileSync(join(folder, name), 'utf8')]),
  )
  const ids = new Map(
    [...texts].map(([file, text]) => [file, new Set([...text.matchAll(ID)].map(([, id]) => id))]),
  )
  const problems = []
  for (const [file, text] of texts)
    for (const [, tag, link] of text.matchAll(TAG)) {
      const say = what => problems.push(`${relative(folder, file)}: ${link} ${what}`)
      if (/^[a-z]+:|^\/\//.test(link)) {
        if (tag !== 'a') say('is loaded from elsewhere')
        continue
      }
      if (link.startsWith('/')) say('does not work below a path')
      const [path = '', fragment] = link.split('#')
      const target = path === '' ? file : join(dirname(file), decodeURIComponent(path))
      if (!existsSync(target)) say('leads nowhere')
      else if (fragment !== undefined && !ids.get(target)?.has(decodeURIComponent(fragment)))
        say('leads to no place of that page')
    }
  return problems
}
