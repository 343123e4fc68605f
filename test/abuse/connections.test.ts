import { CONNECTION_ATTACKS } from './attacks-connections.ts'
import { abuse } from './suite.ts'

abuse(CONNECTION_ATTACKS)
