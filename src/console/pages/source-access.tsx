/** Who may post to a source, and in which forms: credentials, signature, request forms. */
import { useState } from 'preact/hooks'
import type { Schema } from '../client/schema.ts'
import { loadSignatureSchemes, modifySource, type Source as SourceData } from '../client/sources.ts'
import { ConfirmDialog } from '../ui/dialog.tsx'
import { Checkbox, Form, Select, TextArea, TextField } from '../ui/fields.tsx'
import { useAction, useLoad } from '../ui/load.ts'
import { Badge, Note } from '../ui/parts.tsx'

export function Credentials({ source, onChange }: { source: SourceData; onChange: () => void }) {
  const { basicAuth } = source.connectionSettings
  const [username, setUsername] = useState(basicAuth?.username ?? '')
  const [password, setPassword] = useState('')
  const [isRemoving, setIsRemoving] = useState(false)
  const save = useAction(async (given: object) => {
    await modifySource(source.id, { connectionSettings: given })
    setPassword('')
    onChange()
  })
  return (
    <Form
      class="form"
      onSubmit={() => {
        save.run({ basicAuth: { username, password } })
      }}
    >
      <h2>Credentials of the sender</h2>
      <p>
        {basicAuth ? (
          <>
            <Badge kind="good">On</Badge> HTTP Basic, user <code>{basicAuth.username}</code>
          </>
        ) : (
          <>
            <Badge kind="plain">Off</Badge> Whoever knows the URL may post.
          </>
        )}
      </p>
      <TextField label="User name" value={username} onText={setUsername} autoComplete="off" required />
      <TextField
        label="New password"
        type="password"
        value={password}
        onText={setPassword}
        autoComplete="new-password"
        required
      />
      {save.error !== undefined && <Note kind="bad">{save.error}</Note>}
      <div class="actions">
        <button type="submit" disabled={save.isRunning}>
          Save credentials
        </button>
        {basicAuth && (
          <button type="button" disabled={save.isRunning} onClick={() => setIsRemoving(true)}>
            Ask for none
          </button>
        )}
      </div>
      {isRemoving && (
        <ConfirmDialog
          title="Ask for no credentials"
          action="Remove the credentials"
          onConfirm={() => save.run({ basicAuthEnabled: false })}
          onClose={() => setIsRemoving(false)}
        >
          <p>The password is forgotten. Whoever knows the URL may post from then on.</p>
        </ConfirmDialog>
      )}
    </Form>
  )
}

function SignatureState({
  signature,
}: {
  signature: NonNullable<SourceData['connectionSettings']['signature']> | null
}) {
  return (
    <p>
      {signature === null ? (
        <>
          <Badge kind="plain">Off</Badge> Requests need no signature.
        </>
      ) : (
        <>
          <Badge kind="good">On</Badge> {signature.scheme}, {signature.secrets.length} secret
          {signature.secrets.length === 1 ? '' : 's'}
        </>
      )}
    </p>
  )
}

export function SignatureForm({ source, onChange }: { source: SourceData; onChange: () => void }) {
  const { signature = null } = source.connectionSettings
  const schemes = useLoad('schemes', loadSignatureSchemes)
  const [scheme, setScheme] = useState(signature?.scheme ?? 'STANDARD_WEBHOOKS')
  const [secrets, setSecrets] = useState('')
  const [isRemoving, setIsRemoving] = useState(false)
  const save = useAction(async (given: object) => {
    await modifySource(source.id, { connectionSettings: given })
    setSecrets('')
    onChange()
  })
  const lines = secrets
    .split('\n')
    .map(line => line.trim())
    .filter(line => line !== '')
  // Its fields are set through the API alone.
  const names = (schemes.data ?? [scheme]).filter(name => name !== 'GENERIC_HMAC' || name === scheme)
  return (
    <Form
      class="form"
      onSubmit={() => {
        save.run({ signature: { scheme, secrets: lines } })
      }}
    >
      <h2>Signature of the sender</h2>
      <SignatureState signature={signature} />
      <Select
        label="Scheme"
        value={scheme}
        options={names.map(name => ({ value: name, text: name }))}
        onChoose={setScheme}
      />
      <TextArea
        label="Secrets, one on each line"
        hint="They replace all earlier ones. To rotate, give the old and the new one, later the new one alone."
        rows={3}
        value={secrets}
        onText={setSecrets}
      />
      {save.error !== undefined && <Note kind="bad">{save.error}</Note>}
      <div class="actions">
        <button type="submit" disabled={save.isRunning || lines.length === 0}>
          Save signature
        </button>
        {signature !== null && (
          <button type="button" disabled={save.isRunning} onClick={() => setIsRemoving(true)}>
            Take unsigned requests
          </button>
        )}
      </div>
      {isRemoving && (
        <ConfirmDialog
          title="Take unsigned requests"
          action="Remove the signature"
          onConfirm={() => save.run({ signatureEnabled: false })}
          onClose={() => setIsRemoving(false)}
        >
          <p>The secrets are forgotten, and requests need no signature from then on.</p>
        </ConfirmDialog>
      )}
    </Form>
  )
}

type FormTaken = Schema['WebhookAccept']
const FORMS: Readonly<Record<FormTaken, string>> = {
  FORM: 'Forms (application/x-www-form-urlencoded)',
  TEXT: 'JSON as text/plain',
  PUT: 'PUT and PATCH, with the meaning of POST',
  PATH: 'A path behind the URL',
  BROWSER: 'Pages in a browser (CORS)',
}

/** Forms of requests that are taken besides a POST of JSON. */
export function Forms({ source, onChange }: { source: SourceData; onChange: () => void }) {
  const [accept, setAccept] = useState<readonly FormTaken[]>(source.connectionSettings.accept ?? [])
  const { run, isRunning, error } = useAction(async (form: FormTaken, isTaken: boolean) => {
    const next = isTaken ? [...accept, form] : accept.filter(one => one !== form)
    setAccept(next)
    try {
      await modifySource(source.id, { connectionSettings: { accept: next } })
    } catch (error) {
      setAccept(accept)
      throw error
    }
    onChange()
  })
  return (
    <fieldset class="form plain">
      <legend>
        <h2>Takes, besides JSON</h2>
      </legend>
      {(Object.keys(FORMS) as FormTaken[]).map(form => (
        <Checkbox
          key={form}
          label={FORMS[form]}
          isChecked={accept.includes(form)}
          disabled={isRunning}
          onCheck={isTaken => run(form, isTaken)}
        />
      ))}
      {error !== undefined && <Note kind="bad">{error}</Note>}
    </fieldset>
  )
}
