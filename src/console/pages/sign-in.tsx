/** Sign-in: by the id and secret of an application, or by the code of the first start's link. */
import { useEffect, useState } from 'preact/hooks'
import { messageOf } from '../client/api-error.ts'
import { signIn } from '../client/session.ts'
import { Form, TextField } from '../ui/fields.tsx'
import { useAction } from '../ui/load.ts'
import { Heading, Note } from '../ui/parts.tsx'

export function SignIn() {
  const [codeError, setCodeError] = useState<string>()
  useEffect(() => {
    const code = new URLSearchParams(location.hash.slice(1)).get('code')
    if (code === null) return
    // It works once, so neither the address nor the history keeps it.
    history.replaceState(null, '', '/sign-in')
    signIn({ code }).catch(reason => setCodeError(messageOf(reason)))
  }, [])
  return (
    <main class="sign-in">
      <Heading title="Sign in to Weir" />
      {codeError !== undefined && <Note kind="bad">{codeError}</Note>}
      <SignInForm />
    </main>
  )
}

/** @param id the application that was signed in before */
export function SignInForm({ id = '' }: { id?: string }) {
  const [clientId, setClientId] = useState(id)
  const [clientSecret, setClientSecret] = useState('')
  const { run, isRunning, error } = useAction(() => signIn({ clientId: clientId.trim(), clientSecret }))
  return (
    <Form class="form" onSubmit={run}>
      {error !== undefined && <Note kind="bad">{error}</Note>}
      <TextField
        label="Application id"
        value={clientId}
        onText={setClientId}
        autoComplete="username"
        spellcheck={false}
        required
      />
      <TextField
        label="Secret"
        type="password"
        value={clientSecret}
        onText={setClientSecret}
        autoComplete="current-password"
        autofocus={id !== ''}
        hint="Both stand in admin.json in the data folder, and in the first lines that the first start printed."
        required
      />
      <div class="actions">
        <button type="submit" class="primary" disabled={isRunning}>
          {isRunning ? 'Signing in…' : 'Sign in'}
        </button>
      </div>
    </Form>
  )
}
