import { MAIN_THREAD_ATTACKS } from './attacks-main-thread.ts'
import { abuse } from './suite.ts'

abuse(MAIN_THREAD_ATTACKS)
