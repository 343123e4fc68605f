/** Sign-in: by the id and secret of an application, or by the code of the first start's link. */
import { useEffect, useState } from 'preact/hooks'
import { messageOf } from '../client/api-error.ts'
import { signIn } from '../client/session.ts'
import { Form, TextField } from '../ui/fields.tsx'
import { useAction } from '../ui/load.ts'
import { Heading, Note } from '../ui/parts.tsx'

export function SignIn() {
  const [clientId, setClientId] = useState('')
  const [clientSecret, setClientSecret] = useState('')
  const [codeError, setCodeError] = useState<string>()
  const { run, isRunning, error } = useAction(() => signIn({ clientId: clientId.trim(), clientSecret }))
  useEffect(() => {
    const code = new URLSearchParams(location.hash.slice(1)).get('code')
    if (code === null) return
    // It works once, so neither the address nor the history keeps it.
    history.replaceState(null, '', '/sign-in')
    signIn({ code }).catch(reason => setCodeError(messageOf(reason)))
  }, [])
  const problem = error ?? codeError
  return (
    <main class="sign-in">
      <Heading title="Sign in to Weir" />
      <Form class="form" onSubmit={run}>
        {problem !== undefined && <Note kind="bad">{problem}</Note>}
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
          hint="Both stand in admin.json in the data folder, and in the first lines that the first start printed."
          required
        />
        <div class="actions">
          <button type="submit" class="primary" disabled={isRunning}>
            {isRunning ? 'Signing in…' : 'Sign in'}
          </button>
        </div>
      </Form>
    </main>
  )
}
