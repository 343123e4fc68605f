/** The options of a cluster, as the settings name it. */
import { readFileSync } from 'node:fs'
import { CannotRun } from '../util/errors.ts'
import type { Config } from './config.ts'

/** Throws CannotRun where a file of certificates cannot be read. */
export function clusterOptionsOf(config: Config) {
  const { clickhouseUser: user, clickhousePassword: password, clickhouseDatabase: database } = config
  const ca = config.clickhouseCa === '' ? {} : { ca: pem(config.clickhouseCa, 'WEIR_CLICKHOUSE_CA') }
  const keeperCa = config.keeperCa === '' ? undefined : pem(config.keeperCa, 'WEIR_KEEPER_CA')
  return {
    addresses: config.clickhouseUrl.map(url => ({ url, user, password, database, ...ca })),
    cluster: config.clickhouseCluster,
    quorum: config.clickhouseQuorum,
    isDurable: config.durability === 'fsync',
    keeper: {
      servers: config.keeper,
      digest: config.keeperAuth === '' ? undefined : config.keeperAuth,
      tls: keeperCa === undefined ? undefined : { ca: keeperCa },
      sessionMs: config.keeperSessionMs,
    },
    root: config.keeperPath,
    secretKey: Buffer.from(config.secretKey, 'hex'),
  }
}

function pem(file: string, name: string): string {
  try {
    return readFileSync(file, 'utf8')
  } catch (error) {
    throw new CannotRun(`${name} cannot be read: ${(error as Error).message}`)
  }
}
