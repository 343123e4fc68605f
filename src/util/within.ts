/** Waiting with an end. */

/** True when `work` resolved within `msMax`; false when it failed or took longer. Nobody hears of its end after that. */
export async function within(msMax: number, work: Promise<unknown>): Promise<boolean> {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<boolean>(resolve => {
    timer = setTimeout(() => resolve(false), msMax)
  })
  const done = work.then(
    () => true,
    () => false,
  )
  const inTime = await Promise.race([done, late])
  clearTimeout(timer)
  return inTime
}
