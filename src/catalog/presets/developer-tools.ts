/** Presets of senders around code, issues, deployments, alerts and sign-ins. */
import { hmac, lenient, optional, preset, required, signedBy } from './preset.ts'

export const DEVELOPER_TOOLS = {
  /** "Webhook events and payloads": a redelivery has the X-GitHub-Delivery of the first one. */
  GITHUB: preset({
    title: 'GitHub',
    signature: signedBy('GITHUB'),
    secret: 'OWN',
    accept: ['FORM'],
    columns: [
      required('delivery_id', 'STRING', '$header.x-github-delivery'),
      required('event', 'STRING', '$header.x-github-event'),
      optional('hook_id', 'STRING', '$header.x-github-hook-id'),
      optional('action', 'STRING'),
      optional('repository', 'STRING', 'repository.full_name'),
      optional('organization', 'STRING', 'organization.login'),
      optional('sender', 'STRING', 'sender.login'),
      optional('installation_id', 'INT64', 'installation.id'),
      optional('ref', 'STRING'),
      optional('issue_number', 'INT64', 'issue.number'),
      optional('pull_request_number', 'INT64', 'pull_request.number'),
      optional('workflow_conclusion', 'STRING', 'workflow_run.conclusion'),
    ],
    uniqueId: 'delivery_id',
    orderBy: ['delivery_id'],
    delivery:
      'GitHub does not try again by itself. A redelivery that somebody asks for has the id of the first delivery, so it replaces the row. Its events have no common time.',
    steps: [
      'Open Settings › Webhooks of the repository, organisation or app and choose "Add webhook".',
      'Payload URL: {url}',
      'Content type: application/json (forms are taken too)',
      'Secret: {secret}',
    ],
  }),
  /** "Webhooks" of the GitLab documentation, "Delivery headers": since GitLab 17.4. */
  GITLAB: preset({
    title: 'GitLab',
    signature: signedBy('GITLAB'),
    secret: 'OWN',
    columns: [
      required('delivery_id', 'STRING', '$header.idempotency-key'),
      required('event', 'STRING', '$header.x-gitlab-event'),
      optional('instance', 'STRING', '$header.x-gitlab-instance'),
      optional('object_kind', 'STRING'),
      optional('event_name', 'STRING'),
      optional('project', 'STRING', 'project.path_with_namespace'),
      optional('ref', 'STRING'),
      optional('user', 'STRING', 'user.username'),
      optional('pushed_by', 'STRING', 'user_username'),
      optional('action', 'STRING', 'object_attributes.action'),
      optional('state', 'STRING', 'object_attributes.state'),
    ],
    uniqueId: 'delivery_id',
    orderBy: ['delivery_id'],
    delivery:
      'A retry has the Idempotency-Key of the first try, so it replaces the row. GitLab before 17.4 does not send that header: its events are refused. Its events have no common time.',
    steps: [
      'Open Settings › Webhooks of the project or group and choose "Add new webhook".',
      'URL: {url}',
      'Secret token: {secret}',
    ],
  }),
  /**
   * "Webhooks" of Linear's developer documentation. `createdAt` is missing in events of agents, so
   * it cannot be the timestamp.
   */
  LINEAR: preset({
    title: 'Linear',
    signature: signedBy('LINEAR'),
    secret: 'SHOWN',
    columns: [
      required('delivery_id', 'STRING', '$header.linear-delivery'),
      optional('event', 'STRING', '$header.linear-event'),
      optional('action', 'STRING'),
      optional('type', 'STRING'),
      optional('created_at', 'TIMESTAMP', 'createdAt'),
      optional('sent_at', 'TIMESTAMP', 'webhookTimestamp'),
      optional('organization_id', 'STRING', 'organizationId'),
      optional('object_id', 'STRING', 'data.id'),
      optional('actor', 'STRING', 'actor.name'),
      optional('url', 'STRING'),
    ],
    uniqueId: 'delivery_id',
    orderBy: ['delivery_id'],
    delivery: 'Linear tries again after a minute, an hour and six hours, with the same Linear-Delivery.',
    steps: [
      'Open Settings › API and choose "New webhook".',
      'URL: {url}',
      'Copy the signing secret of the webhook and give it to Weir.',
    ],
  }),
  /** "Webhooks" of the Sentry integration platform. */
  SENTRY: preset({
    title: 'Sentry',
    signature: hmac('sentry-hook-signature'),
    secret: 'SHOWN',
    columns: [
      required('request_id', 'STRING', '$header.request-id'),
      required('resource', 'STRING', '$header.sentry-hook-resource'),
      lenient(optional('sent_at', 'TIMESTAMP', '$header.sentry-hook-timestamp')),
      required('action', 'STRING'),
      optional('installation', 'STRING', 'installation.uuid'),
      optional('actor_type', 'STRING', 'actor.type'),
      optional('issue_id', 'STRING', 'data.issue.id'),
      optional('issue_title', 'STRING', 'data.issue.title'),
      optional('error_id', 'STRING', 'data.error.event_id'),
      optional('event_id', 'STRING', 'data.event.event_id'),
    ],
    uniqueId: 'request_id',
    orderBy: ['request_id'],
    delivery: 'Every request has an id of its own. Sentry documents no retries.',
    steps: [
      'Open Settings › Developer Settings, make an internal integration and enter this webhook URL: {url}',
      'Copy the client secret of the integration and give it to Weir.',
    ],
  }),
  /** "Webhooks" of the Jira Cloud platform: the identifier is the same in every retry. */
  JIRA: preset({
    title: 'Jira Cloud',
    signature: hmac('x-hub-signature', { prefix: 'sha256=' }),
    secret: 'OWN',
    columns: [
      required('delivery_id', 'STRING', '$header.x-atlassian-webhook-identifier'),
      required('event', 'STRING', 'webhookEvent'),
      optional('occurred_at', 'TIMESTAMP', 'timestamp'),
      optional('issue_event_type', 'STRING', 'issue_event_type_name'),
      optional('issue_key', 'STRING', 'issue.key'),
      optional('issue_id', 'STRING', 'issue.id'),
      optional('user', 'STRING', 'user.accountId'),
      optional('comment_id', 'STRING', 'comment.id'),
      optional('changes', 'JSON', 'changelog.items'),
    ],
    uniqueId: 'delivery_id',
    orderBy: ['delivery_id'],
    delivery:
      'Jira tries again up to five times with the same X-Atlassian-Webhook-Identifier. Jira Data Center does not send that header: its events are refused.',
    steps: ['Open System › WebHooks and choose "Create a WebHook".', 'URL: {url}', 'Secret: {secret}'],
  }),
  /** "Webhooks API Reference" of Vercel. */
  VERCEL: preset({
    title: 'Vercel',
    signature: hmac('x-vercel-signature', { algorithm: 'SHA1' }),
    secret: 'SHOWN',
    columns: [
      required('id', 'STRING'),
      required('created_at', 'TIMESTAMP', 'createdAt'),
      required('type', 'STRING'),
      optional('region', 'STRING'),
      optional('team_id', 'STRING', 'payload.team.id'),
      optional('user_id', 'STRING', 'payload.user.id'),
      optional('project_id', 'STRING', 'payload.project.id'),
      optional('deployment_id', 'STRING', 'payload.deployment.id'),
      optional('deployment_name', 'STRING', 'payload.deployment.name'),
      optional('target', 'STRING', 'payload.target'),
    ],
    timestamp: 'created_at',
    uniqueId: 'id',
    delivery: 'Vercel tries again for up to 24 hours. A retry brings the same id and time.',
    steps: [
      'Open the team settings › Webhooks, choose the events and enter this endpoint: {url}',
      'Copy the secret that is shown once and give it to Weir.',
    ],
  }),
  /** "Webhooks Overview" and "Verifying Signatures" of PagerDuty, version 3. */
  PAGERDUTY: preset({
    title: 'PagerDuty',
    signature: hmac('x-pagerduty-signature', { prefix: 'v1=' }),
    secret: 'SHOWN',
    columns: [
      required('id', 'STRING', 'event.id'),
      required('occurred_at', 'TIMESTAMP', 'event.occurred_at'),
      required('event_type', 'STRING', 'event.event_type'),
      optional('resource_type', 'STRING', 'event.resource_type'),
      optional('object_id', 'STRING', 'event.data.id'),
      optional('title', 'STRING', 'event.data.title'),
      optional('status', 'STRING', 'event.data.status'),
      optional('urgency', 'STRING', 'event.data.urgency'),
      optional('service_id', 'STRING', 'event.data.service.id'),
      optional('agent_id', 'STRING', 'event.agent.id'),
    ],
    timestamp: 'occurred_at',
    uniqueId: 'id',
    delivery: 'PagerDuty tries again with growing pauses. A retry brings the same id and time.',
    steps: [
      'Open Integrations › Generic Webhooks (v3) and choose "New Webhook".',
      'Webhook URL: {url}',
      'Copy the secret that is shown once and give it to Weir.',
    ],
  }),
  /**
   * "Webhooks" of the Datadog documentation, with its default payload. Every value of it is text.
   * Datadog does not sign.
   */
  DATADOG: preset({
    title: 'Datadog',
    columns: [
      required('id', 'STRING'),
      lenient(required('date', 'TIMESTAMP')),
      optional('event_type', 'STRING'),
      optional('title', 'STRING'),
      optional('body', 'STRING'),
      lenient(optional('last_updated', 'TIMESTAMP')),
      optional('org_id', 'STRING', 'org.id'),
      optional('org_name', 'STRING', 'org.name'),
    ],
    timestamp: 'date',
    uniqueId: 'id',
    delivery: 'Datadog tries again after an error. A retry brings the same id and date.',
    steps: [
      'Open Integrations › Webhooks and choose "New".',
      'URL: {url}',
      'Leave the payload as it is: {"id": "$ID", "date": "$DATE", …}. Further variables may be added.',
      'Datadog does not sign: protect the webhook with basicAuth, and write the user and the password into the URL.',
    ],
  }),
  /** "Sync Clerk data to your app with webhooks". Clerk sends by Svix. */
  CLERK: preset({
    title: 'Clerk',
    signature: signedBy('SVIX'),
    secret: 'SHOWN',
    columns: [
      required('message_id', 'STRING', '$header.svix-id'),
      required('type', 'STRING'),
      optional('occurred_at', 'TIMESTAMP', 'timestamp'),
      optional('instance_id', 'STRING'),
      optional('object_id', 'STRING', 'data.id'),
      optional('object', 'STRING', 'data.object'),
      optional('user_id', 'STRING', 'data.user_id'),
    ],
    uniqueId: 'message_id',
    orderBy: ['message_id'],
    delivery: 'A retry has the svix-id of the first try, so it replaces the row.',
    steps: [
      'Open Configure › Webhooks and choose "Add Endpoint".',
      'Endpoint URL: {url}',
      'Copy the signing secret (whsec_…) and give it to Weir.',
    ],
  }),
  /** "Event hooks" of Okta: one request holds several events. Okta does not sign. */
  OKTA: preset({
    title: 'Okta event hooks',
    handshakes: ['OKTA'],
    eventsPath: 'data.events',
    columns: [
      required('uuid', 'STRING'),
      required('published', 'TIMESTAMP'),
      required('event_type', 'STRING', 'eventType'),
      optional('display_message', 'STRING', 'displayMessage'),
      optional('severity', 'STRING'),
      optional('result', 'STRING', 'outcome.result'),
      optional('reason', 'STRING', 'outcome.reason'),
      optional('actor_id', 'STRING', 'actor.id'),
      optional('actor', 'STRING', 'actor.alternateId'),
      optional('ip_address', 'STRING', 'client.ipAddress'),
      optional('targets', 'JSON', 'target'),
    ],
    timestamp: 'published',
    uniqueId: 'uuid',
    delivery: 'Okta tries again once. A retry brings the same uuid and time of each event.',
    steps: [
      'Open Workflow › Event Hooks and choose "Create Event Hook".',
      'Endpoint URL: {url}',
      'Okta does not sign: protect the webhook with basicAuth, enter "Authorization" as authentication field and "Basic <base64 of user:password>" as secret.',
    ],
  }),
}
