/** Writes lines as the server does. It does what each line of its standard input says. */
import { createInterface } from 'node:readline'
import { beginLines, linesLeftOut } from '../../src/util/lines.ts'
import { fail, say, setLog } from '../../src/util/say.ts'

setLog({ format: 'json', level: 'error' })
beginLines()
createInterface({ input: process.stdin }).on('line', line => {
  const [what, text = '', count = '1'] = line.split(' ')
  for (let index = 0; index < Number(count); index++)
    if (what === 'say') say(`${text}${index}`)
    else if (what === 'fail') fail(text)
    else if (what === 'throw') throw new Error(text)
  if (what === 'left-out') process.send?.(linesLeftOut())
})
