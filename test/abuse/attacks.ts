/** All attacks, for the benchmark. A test file runs each list. */
import type { Attack } from './attack.ts'
import { BODY_ATTACKS } from './attacks-bodies.ts'
import { CONNECTION_ATTACKS } from './attacks-connections.ts'
import { MAIN_THREAD_ATTACKS } from './attacks-main-thread.ts'
import { STREAM_ATTACKS } from './attacks-streams.ts'

export const ATTACKS: readonly Attack[] = [
  ...BODY_ATTACKS,
  ...CONNECTION_ATTACKS,
  ...STREAM_ATTACKS,
  ...MAIN_THREAD_ATTACKS,
]
