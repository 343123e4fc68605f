/**
 * The table of presets: by name, the settings with which a source takes the requests of one sender.
 * A new sender is one entry in one of the files in presets/, and one example of the sender in
 * test/catalog/preset-examples.ts.
 *
 * How a key is chosen. A retry must bring the key of the first try, and no two events may share
 * one.
 *
 *   timestamp, uniqueId        where every event has an id and a time, both the same in every try;
 *                              the index is smallest where keys rise with time
 *   orderBy of uniqueId alone  where the id is that of the delivery, or where some events lack the
 *                              time or a retry changes it; the pool's time is that of arrival
 *   orderBy of more columns    where only they together name an event
 *   none                       where the sender gives no such id: a retry is stored again
 *
 * An object's id is never a key by itself, because the next event of the object would replace this
 * one. A header is a key only where a request holds one event. A property whose type differs
 * between events is JSON or has no column, because a typed column would refuse some of the events.
 */
import { COMMERCE } from './presets/commerce.ts'
import { DEVELOPER_TOOLS } from './presets/developer-tools.ts'
import { MESSAGES } from './presets/messages.ts'
import { PLATFORMS } from './presets/platforms.ts'
import type { Preset } from './presets/preset.ts'

const TABLE = { ...DEVELOPER_TOOLS, ...COMMERCE, ...MESSAGES, ...PLATFORMS } satisfies Record<string, Preset>

export type PresetName = keyof typeof TABLE

/** By name; the names are those of the API. */
export const PRESETS: Readonly<Record<PresetName, Preset>> = TABLE

export const PRESET_NAMES = Object.keys(TABLE) as readonly PresetName[]

/** The preset of this name; undefined where there is none, or no name. */
export function presetNamed(name: string | null | undefined): Preset | undefined {
  return typeof name === 'string' && Object.hasOwn(TABLE, name) ? PRESETS[name as PresetName] : undefined
}

/**
 * The text to show after a source was created: what to enter at the sender.
 * @param secret the source's own secret, where the operator enters it at the sender
 * @param verifyToken that of the source, where the sender asks with one
 */
export function presetSteps(
  { steps }: Preset,
  url: string,
  secret: string,
  verifyToken = '',
): readonly string[] {
  const values = new Map([
    ['{url}', url],
    ['{secret}', secret],
    ['{verifyToken}', verifyToken],
  ])
  return steps.map(step => step.replace(/\{[a-zA-Z]{1,20}\}/g, place => values.get(place) ?? place))
}
