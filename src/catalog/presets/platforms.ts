/** Presets of clouds, of senders around documents and tasks, and of public formats. */
import { hmac, lenient, optional, type PresetColumn, preset, required, signedBy } from './preset.ts'

export const PLATFORMS = {
  /** "Webhooks" of Standard Webhooks: the id is the same in every attempt of a message. */
  STANDARD_WEBHOOKS: preset({
    title: 'Standard Webhooks',
    signature: signedBy('STANDARD_WEBHOOKS'),
    secret: 'SHOWN',
    columns: [required('message_id', 'STRING', '$header.webhook-id'), ...messageColumns()],
    uniqueId: 'message_id',
    orderBy: ['message_id'],
    delivery: 'A retry has the webhook-id of the first try, so it replaces the row.',
    steps: [
      'Enter this URL at the sender: {url}',
      'Copy the secret (whsec_…) or the public key (whpk_…) and give it to Weir.',
    ],
  }),
  /** "Receiving webhooks" of Svix: the same under its own header names. */
  SVIX: preset({
    title: 'Svix',
    signature: signedBy('SVIX'),
    secret: 'SHOWN',
    columns: [required('message_id', 'STRING', '$header.svix-id'), ...messageColumns()],
    uniqueId: 'message_id',
    orderBy: ['message_id'],
    delivery: 'A retry has the svix-id of the first try, so it replaces the row.',
    steps: [
      'Add this endpoint at the sender: {url}',
      'Copy the signing secret (whsec_…) and give it to Weir.',
    ],
  }),
  /** "Webhooks" of the OpenAI platform, which signs as Standard Webhooks says. */
  OPENAI: preset({
    title: 'OpenAI',
    signature: signedBy('STANDARD_WEBHOOKS'),
    secret: 'SHOWN',
    columns: [
      required('id', 'STRING'),
      required('created_at', 'TIMESTAMP'),
      required('type', 'STRING'),
      optional('webhook_id', 'STRING', '$header.webhook-id'),
      optional('object_id', 'STRING', 'data.id'),
      optional('data', 'JSON'),
    ],
    timestamp: 'created_at',
    uniqueId: 'id',
    delivery: 'OpenAI tries again for up to 72 hours. A retry brings the same id and time.',
    steps: [
      'Open Settings › Project › Webhooks and choose "Create".',
      'URL: {url}',
      'Copy the signing secret that is shown once and give it to Weir.',
    ],
  }),
  /**
   * "CloudEvents", version 1.0, structured and batch mode: source and id together name an event,
   * and the time is optional.
   */
  CLOUDEVENTS: preset({
    title: 'CloudEvents in JSON',
    handshakes: ['CLOUDEVENTS'],
    columns: [
      required('source', 'STRING'),
      required('id', 'STRING'),
      required('type', 'STRING'),
      optional('time', 'TIMESTAMP'),
      optional('subject', 'STRING'),
      optional('content_type', 'STRING', 'datacontenttype'),
      optional('data_schema', 'STRING', 'dataschema'),
      optional('data', 'JSON'),
      optional('data_base64', 'STRING'),
    ],
    uniqueId: 'id',
    orderBy: ['source', 'id'],
    delivery: 'An event that is sent again has the same source and id, so it replaces the row.',
    steps: ['Enter this URL as sink of the sender, structured or batch mode: {url}'],
  }),
  /** "HTTP Protocol Binding for CloudEvents", binary mode: the attributes are headers. */
  CLOUDEVENTS_BINARY: preset({
    title: 'CloudEvents in headers',
    handshakes: ['CLOUDEVENTS'],
    columns: [
      required('source', 'STRING', '$header.ce-source'),
      required('id', 'STRING', '$header.ce-id'),
      required('type', 'STRING', '$header.ce-type'),
      optional('time', 'TIMESTAMP', '$header.ce-time'),
      optional('subject', 'STRING', '$header.ce-subject'),
      optional('data_schema', 'STRING', '$header.ce-dataschema'),
    ],
    uniqueId: 'id',
    orderBy: ['source', 'id'],
    delivery:
      'An event that is sent again has the same source and id, so it replaces the row. Its data must be JSON.',
    steps: ['Enter this URL as sink of the sender, binary mode: {url}'],
  }),
  /** "Receive events to an HTTP endpoint" of Azure Event Grid, in its own schema. */
  EVENT_GRID: preset({
    title: 'Azure Event Grid',
    handshakes: ['EVENT_GRID', 'CLOUDEVENTS'],
    columns: [
      required('id', 'STRING'),
      required('event_time', 'TIMESTAMP', 'eventTime'),
      required('event_type', 'STRING', 'eventType'),
      optional('topic', 'STRING'),
      optional('subject', 'STRING'),
      optional('data_version', 'STRING', 'dataVersion'),
      optional('data', 'JSON'),
    ],
    timestamp: 'event_time',
    uniqueId: 'id',
    delivery:
      'Event Grid tries again for up to 24 hours. A retry brings the same id and time. Its events in the CloudEvents schema need the preset CLOUDEVENTS.',
    steps: [
      'Create an event subscription with endpoint type "Web Hook", schema "Event Grid Schema".',
      'Endpoint: {url}',
      'Event Grid does not sign. Weir answers its validation.',
    ],
  }),
  /**
   * "Change notification resource type" of Microsoft Graph. A notification has no time, and not
   * always an id.
   */
  MICROSOFT_GRAPH: preset({
    title: 'Microsoft Graph change notifications',
    handshakes: ['MICROSOFT_GRAPH'],
    eventsPath: 'value',
    columns: [
      required('subscription_id', 'STRING', 'subscriptionId'),
      optional('change_type', 'STRING', 'changeType'),
      optional('lifecycle_event', 'STRING', 'lifecycleEvent'),
      optional('resource', 'STRING'),
      optional('resource_id', 'STRING', 'resourceData.id'),
      optional('tenant_id', 'STRING', 'tenantId'),
      optional('client_state', 'STRING', 'clientState'),
      optional('expires_at', 'TIMESTAMP', 'subscriptionExpirationDateTime'),
    ],
    delivery:
      'Graph tries again for up to four hours. Its notifications have no time and seldom an id, so a retry is stored again. Graph does not sign: compare client_state in queries with the one of the subscription.',
    steps: [
      'Create the subscription with the API: POST /v1.0/subscriptions',
      'notificationUrl: {url}',
      'Weir answers the validation.',
    ],
  }),
  /**
   * "HTTP/HTTPS notification JSON format" of Amazon SNS. Its signature needs a certificate that the
   * receiver fetches; Weir calls nobody, so it does not verify that.
   */
  SNS: preset({
    title: 'Amazon SNS',
    accept: ['TEXT'],
    columns: [
      required('message_id', 'STRING', 'MessageId'),
      required('timestamp', 'TIMESTAMP', 'Timestamp'),
      required('type', 'STRING', 'Type'),
      required('topic_arn', 'STRING', 'TopicArn'),
      optional('subject', 'STRING', 'Subject'),
      optional('message', 'STRING', 'Message'),
      optional('message_attributes', 'JSON', 'MessageAttributes'),
      optional('subscribe_url', 'STRING', 'SubscribeURL'),
    ],
    timestamp: 'timestamp',
    uniqueId: 'message_id',
    delivery:
      'SNS tries again as the delivery policy of the subscription says, by default three times. A retry brings the same MessageId and Timestamp. Signatures are not verified: protect the webhook with basicAuth.',
    steps: [
      'Create a subscription of the topic, protocol HTTPS, without raw message delivery.',
      'Endpoint: {url}; with basicAuth https://<user>:<password>@…',
      'SNS posts a SubscriptionConfirmation, which is stored. Open the link in its column subscribe_url.',
    ],
  }),
  /** "Event types & delivery" of Notion. The first request brings the secret of the others. */
  NOTION: preset({
    title: 'Notion',
    signature: hmac('x-notion-signature', { prefix: 'sha256=' }),
    secret: 'SHOWN',
    columns: [
      required('id', 'STRING'),
      required('timestamp', 'TIMESTAMP'),
      required('type', 'STRING'),
      optional('workspace_id', 'STRING'),
      optional('subscription_id', 'STRING'),
      optional('entity_type', 'STRING', 'entity.type'),
      optional('entity_id', 'STRING', 'entity.id'),
      optional('attempt_number', 'INT64'),
      optional('authors', 'JSON'),
      optional('data', 'JSON'),
    ],
    timestamp: 'timestamp',
    uniqueId: 'id',
    delivery: 'Notion tries again up to eight times in 24 hours. A retry brings the same id and timestamp.',
    steps: [
      'Open the Webhooks tab of the integration and choose "Create a subscription".',
      'Webhook URL: {url}',
      'Notion posts a verification_token, which Weir refuses: take it with a receiver of your own.',
      'Enter the token there to verify, give it to Weir as secret, and set the URL above.',
    ],
  }),
  /** "Webhooks" of Asana: one request holds several events, or none. Its events have no id. */
  ASANA: preset({
    title: 'Asana',
    signature: hmac('x-hook-signature'),
    secret: 'SHOWN',
    handshakes: ['ASANA'],
    eventsPath: 'events',
    columns: [
      required('created_at', 'TIMESTAMP'),
      required('action', 'STRING'),
      optional('resource_type', 'STRING', 'resource.resource_type'),
      optional('resource_id', 'STRING', 'resource.gid'),
      optional('parent_id', 'STRING', 'parent.gid'),
      optional('user_id', 'STRING', 'user.gid'),
      optional('changed_field', 'STRING', 'change.field'),
      optional('change', 'JSON'),
    ],
    timestamp: 'created_at',
    delivery:
      'Asana tries again for up to 24 hours. Its events have no id, so a retry is stored again: count distinct events by time, resource, action and field.',
    steps: [
      'Tell Weir to expect the handshake: weir sources handshake <name>',
      'Within minutes create the webhook with the API: POST /webhooks, target {url}',
      'Asana hands its secret over, and Weir keeps it.',
    ],
  }),
  /** "Webhooks" of the Trello REST API: the body and the callback URL are signed together. */
  TRELLO: preset({
    title: 'Trello',
    signature: hmac('x-trello-webhook', { algorithm: 'SHA1', encoding: 'BASE64', signed: '{body}{url}' }),
    secret: 'SHOWN',
    handshakes: ['HEAD'],
    columns: [
      required('id', 'STRING', 'action.id'),
      required('date', 'TIMESTAMP', 'action.date'),
      required('type', 'STRING', 'action.type'),
      optional('model_id', 'STRING', 'model.id'),
      optional('member_id', 'STRING', 'action.idMemberCreator'),
      optional('member', 'STRING', 'action.memberCreator.username'),
      optional('board_id', 'STRING', 'action.data.board.id'),
      optional('list_id', 'STRING', 'action.data.list.id'),
      optional('card_id', 'STRING', 'action.data.card.id'),
      optional('card', 'STRING', 'action.data.card.name'),
    ],
    timestamp: 'date',
    uniqueId: 'id',
    delivery: 'Trello tries again after 30, 60 and 120 seconds. A retry brings the same action.',
    steps: [
      'Create the webhook with the API: POST /1/webhooks, callbackURL {url}',
      'Copy the secret of the application (not of the token) and give it to Weir.',
      'The public URL that Weir knows (--public-url) must be the callbackURL, because it is signed.',
    ],
  }),
  /** "Webhooks" of Dropbox: a request says only whose files changed. */
  DROPBOX: preset({
    title: 'Dropbox',
    signature: hmac('x-dropbox-signature'),
    secret: 'SHOWN',
    handshakes: ['DROPBOX'],
    columns: [optional('accounts', 'JSON', 'list_folder.accounts'), optional('users', 'JSON', 'delta.users')],
    delivery:
      'Dropbox tries again for some minutes. Its requests have neither an id nor a time, so a retry is stored again.',
    steps: [
      'Open the app in the App Console and enter this webhook URI: {url}',
      'Copy the app secret and give it to Weir.',
    ],
  }),
}

/** The fields that Standard Webhooks recommends; senders may leave them out. */
function messageColumns(): PresetColumn[] {
  return [
    optional('type', 'STRING'),
    lenient(optional('timestamp', 'TIMESTAMP')),
    optional('object_id', 'JSON', 'data.id'),
    optional('data', 'JSON'),
  ]
}
