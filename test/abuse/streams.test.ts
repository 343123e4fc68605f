import { STREAM_ATTACKS } from './attacks-streams.ts'
import { abuse } from './suite.ts'

abuse(STREAM_ATTACKS)
