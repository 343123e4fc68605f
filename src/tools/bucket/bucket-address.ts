/**
 * The address of backups in a bucket: `s3://bucket/prefix`, and from the environment the endpoint,
 * the region and the credentials, under the names that other tools of S3 read.
 *
 * No message shows a value of a credential.
 */
import { bucketEnvironment } from '../../database/config.ts'
import { withoutEndSlashes } from '../../util/addresses.ts'
import { CannotRun } from '../../util/errors.ts'

export interface BucketAddress {
  /** `s3://bucket/prefix`, without a slash at its end. Messages name it. */
  readonly url: string
  /** The URL of the bucket; keys follow a slash. */
  readonly base: string
  /** `prefix/`, or "" for the whole bucket. */
  readonly prefix: string
  readonly region: string
  readonly accessKeyId: string
  readonly secretAccessKey: string
  readonly sessionToken?: string
}

/** True for a text that names a bucket and not a folder. */
export function isBucketUrl(text: string): boolean {
  return text.startsWith('s3://')
}

type Environment = Readonly<Record<string, string | undefined>>

/**
 * Reads an address. Names are as S3 advises, so that no server and no proxy changes them.
 * @param endpoint in place of the environment's
 * @throws CannotRun naming what is missing or wrong
 */
export function readBucketAddress(
  url: string,
  endpoint?: string,
  environment: Environment = bucketEnvironment(),
): BucketAddress {
  const [, bucket = '', path = ''] =
    /^s3:\/\/([a-z\d][a-z\d.-]{1,61}[a-z\d])((?:\/[\w.-]{1,100}){0,20})\/?$/.exec(url) ?? []
  if (bucket === '' || path.split('/').some(part => /^\.+$/.test(part)))
    throw new CannotRun(
      `a bucket is named as s3://bucket/prefix, with letters, digits and . _ - in the prefix, not "${url}"`,
    )
  const accessKeyId = readSecret(environment, 'AWS_ACCESS_KEY_ID')
  const secretAccessKey = readSecret(environment, 'AWS_SECRET_ACCESS_KEY')
  for (const [name, value] of Object.entries({
    AWS_ACCESS_KEY_ID: accessKeyId,
    AWS_SECRET_ACCESS_KEY: secretAccessKey,
  }))
    if (value === undefined) throw new CannotRun(`${url} needs credentials: set ${name} in the environment`)
  const sessionToken = readSecret(environment, 'AWS_SESSION_TOKEN')
  const region = environment['AWS_REGION'] || environment['AWS_DEFAULT_REGION'] || 'us-east-1'
  if (!/^[\w-]{1,64}$/.test(region)) throw new CannotRun('AWS_REGION is not the name of a region')
  const given = endpoint || environment['AWS_ENDPOINT_URL_S3'] || environment['AWS_ENDPOINT_URL']
  return {
    url: `s3://${bucket}${path}`,
    base: given ? `${readEndpoint(given)}/${bucket}` : baseAtAmazon(bucket, region),
    prefix: path === '' ? '' : `${path.slice(1)}/`,
    region,
    accessKeyId: accessKeyId ?? '',
    secretAccessKey: secretAccessKey ?? '',
    ...(sessionToken === undefined ? {} : { sessionToken }),
  }
}

/** A certificate of Amazon covers no bucket with a dot in its name. */
function baseAtAmazon(bucket: string, region: string): string {
  const host = `s3.${region}.amazonaws.com`
  return bucket.includes('.') ? `https://${host}/${bucket}` : `https://${bucket}.${host}`
}

/** An endpoint may hold a password, so it is not shown. */
function readEndpoint(given: string): string {
  const url = URL.canParse(given) ? new URL(given) : undefined
  const isPlain = url !== undefined && url.username === '' && url.search === '' && url.hash === ''
  if (!isPlain || !/^https?:$/.test(url.protocol))
    throw new CannotRun(
      'the endpoint of the bucket (--endpoint, AWS_ENDPOINT_URL) must be as https://s3.example.com, without a password',
    )
  return withoutEndSlashes(url.href)
}

/** A line break in a header would make an error that shows the value. */
function readSecret(environment: Environment, name: string): string | undefined {
  const value = environment[name]
  if (value === undefined || value === '') return undefined
  if (!/^[\x21-\x7e]+$/.test(value))
    throw new CannotRun(`${name} has a character that no credential has, such as a space or a line break`)
  return value
}
