import { BODY_ATTACKS } from './attacks-bodies.ts'
import { abuse } from './suite.ts'

abuse(BODY_ATTACKS)
