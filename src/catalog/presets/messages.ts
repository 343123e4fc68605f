/** Presets of senders around chats, calls, mails and live streams. */
import { lenient, optional, preset, required, signedBy } from './preset.ts'

export const MESSAGES = {
  /**
   * "The Events API". `event.user` and `event.channel` are an id in some types of events and an
   * object in others, so they are JSON.
   */
  SLACK: preset({
    title: 'Slack Events API',
    signature: signedBy('SLACK'),
    secret: 'SHOWN',
    handshakes: ['SLACK'],
    columns: [
      required('event_id', 'STRING'),
      required('event_time', 'TIMESTAMP'),
      optional('team_id', 'STRING'),
      optional('app_id', 'STRING', 'api_app_id'),
      optional('type', 'STRING', 'event.type'),
      optional('subtype', 'STRING', 'event.subtype'),
      optional('text', 'STRING', 'event.text'),
      optional('user', 'JSON', 'event.user'),
      optional('channel', 'JSON', 'event.channel'),
      optional('event_ts', 'STRING', 'event.event_ts'),
    ],
    timestamp: 'event_time',
    uniqueId: 'event_id',
    delivery:
      'Slack tries again three times within an hour. A retry brings the same event_id and event_time. Slash commands and app_rate_limited have no event_id: they need a source of their own.',
    steps: [
      'Copy the signing secret under Basic Information of the app and give it to Weir.',
      'Open Event Subscriptions, switch it on and enter this request URL: {url}',
      'Choose the events. Slack asks for a challenge, which Weir answers.',
    ],
  }),
  /** "Using webhooks" of Zoom. Its events have no id, and two may have the same time. */
  ZOOM: preset({
    title: 'Zoom',
    signature: signedBy('ZOOM'),
    secret: 'SHOWN',
    handshakes: ['ZOOM'],
    columns: [
      required('event', 'STRING'),
      required('event_ts', 'TIMESTAMP'),
      optional('account_id', 'STRING', 'payload.account_id'),
      optional('object_id', 'JSON', 'payload.object.id'),
      optional('object_uuid', 'STRING', 'payload.object.uuid'),
      optional('topic', 'STRING', 'payload.object.topic'),
      optional('host_id', 'STRING', 'payload.object.host_id'),
      optional('object', 'JSON', 'payload.object'),
    ],
    timestamp: 'event_ts',
    delivery:
      'Zoom tries again after 5, 30 and 90 minutes. Its events have no id, so a retry is stored again: count the distinct pairs of event_ts and object.',
    steps: [
      'Copy the secret token of the app and give it to Weir.',
      'Add an event subscription with this endpoint URL: {url}',
      'Choose "Validate". Weir answers the check.',
    ],
  }),
  /**
   * "Webhooks" of the Messenger platform and of the WhatsApp Business platform. A request holds up
   * to 1,000 changes in its entries.
   */
  META: preset({
    title: 'Meta: Facebook, Instagram, Messenger, WhatsApp',
    signature: signedBy('META'),
    secret: 'SHOWN',
    handshakes: ['META'],
    eventsPath: 'entry',
    columns: [
      optional('object', 'STRING', '$.object'),
      optional('account_id', 'STRING', 'id'),
      lenient(optional('time', 'TIMESTAMP')),
      optional('field', 'STRING', 'changes[0].field'),
      optional('sender_id', 'STRING', 'messaging[0].sender.id'),
      optional('message_id', 'STRING', 'messaging[0].message.mid'),
      optional('whatsapp_message_id', 'STRING', 'changes[0].value.messages[0].id'),
      optional('whatsapp_from', 'STRING', 'changes[0].value.messages[0].from'),
      optional('messaging', 'JSON'),
      optional('changes', 'JSON'),
    ],
    delivery:
      'Meta tries again for up to 36 hours. Its entries have no id, so a retry is stored again: count distinct message ids. Each entry is an event; one with several changes shows the first in its columns.',
    steps: [
      'Copy the app secret and give it to Weir.',
      'Open Webhooks of the app and enter this callback URL: {url}',
      'Verify token: {verifyToken}',
    ],
  }),
  /**
   * "Webhooks (HTTP callbacks): Connection Overrides" and "Webhooks security". Twilio sends forms,
   * in which every value is text.
   */
  TWILIO: preset({
    title: 'Twilio',
    signature: signedBy('TWILIO'),
    secret: 'SHOWN',
    accept: ['FORM'],
    columns: [
      required('request_id', 'STRING', '$header.i-twilio-idempotency-token'),
      optional('account_sid', 'STRING', 'AccountSid'),
      optional('message_sid', 'STRING', 'MessageSid'),
      optional('message_status', 'STRING', 'MessageStatus'),
      optional('call_sid', 'STRING', 'CallSid'),
      optional('call_status', 'STRING', 'CallStatus'),
      optional('from', 'STRING', 'From'),
      optional('to', 'STRING', 'To'),
      optional('body', 'STRING', 'Body'),
      optional('error_code', 'STRING', 'ErrorCode'),
      lenient(optional('segments', 'INT64', 'NumSegments')),
      lenient(optional('media', 'INT64', 'NumMedia')),
      lenient(optional('call_seconds', 'INT64', 'CallDuration')),
    ],
    uniqueId: 'request_id',
    orderBy: ['request_id'],
    delivery:
      'A retry has the I-Twilio-Idempotency-Token of the first try, so it replaces the row. Twilio takes the answer of Weir for status callbacks. For an incoming message or call it expects TwiML, which Weir does not send.',
    steps: [
      'Enter {url} as status callback URL, method HTTP POST.',
      'Copy the auth token of the account and give it to Weir.',
      'The public URL that Weir knows (--public-url) must be the one that Twilio calls, because it is signed.',
    ],
  }),
  /** "Event Webhook Reference" of SendGrid: one request holds an array of events. */
  SENDGRID: preset({
    title: 'Twilio SendGrid Event Webhook',
    signature: signedBy('SENDGRID'),
    secret: 'SHOWN',
    columns: [
      required('sg_event_id', 'STRING'),
      required('timestamp', 'TIMESTAMP'),
      required('event', 'STRING'),
      optional('email', 'STRING'),
      optional('sg_message_id', 'STRING'),
      optional('smtp_id', 'STRING', 'smtp-id'),
      optional('category', 'JSON'),
      optional('reason', 'STRING'),
      optional('status', 'STRING'),
      optional('response', 'STRING'),
      optional('url', 'STRING'),
      optional('ip', 'STRING'),
      optional('useragent', 'STRING'),
      lenient(optional('attempt', 'INT64')),
    ],
    timestamp: 'timestamp',
    uniqueId: 'sg_event_id',
    delivery:
      'SendGrid tries again for up to 24 hours. A retry brings the same sg_event_id and timestamp of each event.',
    steps: [
      'Open Settings › Mail Settings › Event Webhooks and create one.',
      'Post URL: {url}',
      'Switch on "Signed Event Webhook", copy the verification key and give it to Weir.',
    ],
  }),
  /** "Webhooks" and "Event structure" of Mailgun. Its signature stands in the body. */
  MAILGUN: preset({
    title: 'Mailgun',
    columns: [
      required('id', 'STRING', 'event-data.id'),
      required('timestamp', 'TIMESTAMP', 'event-data.timestamp'),
      required('event', 'STRING', 'event-data.event'),
      optional('recipient', 'STRING', 'event-data.recipient'),
      optional('recipient_domain', 'STRING', 'event-data.recipient-domain'),
      optional('severity', 'STRING', 'event-data.severity'),
      optional('reason', 'STRING', 'event-data.reason'),
      optional('ip', 'STRING', 'event-data.ip'),
      optional('url', 'STRING', 'event-data.url'),
      optional('tags', 'JSON', 'event-data.tags'),
      optional('user_variables', 'JSON', 'event-data.user-variables'),
    ],
    timestamp: 'timestamp',
    uniqueId: 'id',
    delivery:
      'Mailgun tries again for eight hours. A retry brings the same id and time. Its signature stands in the body and is not verified.',
    steps: [
      'Open Sending › Webhooks and choose "Add webhook".',
      'URL: {url}',
      'Protect the webhook with basicAuth, and write the user and the password into the URL.',
    ],
  }),
  /** "Webhook Events" of Discord. Its events have no id. */
  DISCORD: preset({
    title: 'Discord webhook events',
    signature: signedBy('DISCORD'),
    secret: 'SHOWN',
    handshakes: ['DISCORD'],
    columns: [
      required('application_id', 'STRING'),
      required('timestamp', 'TIMESTAMP', 'event.timestamp'),
      required('type', 'STRING', 'event.type'),
      optional('user_id', 'STRING', 'event.data.user.id'),
      optional('guild_id', 'STRING', 'event.data.guild.id'),
      optional('object_id', 'STRING', 'event.data.id'),
      optional('data', 'JSON', 'event.data'),
    ],
    timestamp: 'timestamp',
    delivery:
      'Discord tries again for up to 10 minutes. Its events have no id, so a retry is stored again: count the distinct pairs of timestamp and data.',
    steps: [
      'Copy the public key under General Information of the app and give it to Weir.',
      'Open Webhooks of the app and enter this endpoint: {url}',
      'Switch the events on. Discord checks the URL with pings, and Weir answers those with a valid signature.',
    ],
  }),
  /** "Handling webhook events" of EventSub: a message that comes again has the same id. */
  TWITCH: preset({
    title: 'Twitch EventSub',
    signature: signedBy('TWITCH'),
    secret: 'OWN',
    handshakes: ['TWITCH'],
    columns: [
      required('message_id', 'STRING', '$header.twitch-eventsub-message-id'),
      optional('message_type', 'STRING', '$header.twitch-eventsub-message-type'),
      optional('sent_at', 'TIMESTAMP', '$header.twitch-eventsub-message-timestamp'),
      required('subscription_type', 'STRING', 'subscription.type'),
      optional('subscription_id', 'STRING', 'subscription.id'),
      optional('subscription_status', 'STRING', 'subscription.status'),
      optional('broadcaster_id', 'STRING', 'event.broadcaster_user_id'),
      optional('broadcaster', 'STRING', 'event.broadcaster_user_login'),
      optional('user_id', 'STRING', 'event.user_id'),
      optional('user', 'STRING', 'event.user_login'),
      optional('event', 'JSON'),
    ],
    uniqueId: 'message_id',
    orderBy: ['message_id'],
    delivery:
      'A message that Twitch sends again has the same Twitch-Eventsub-Message-Id, so it replaces the row.',
    steps: [
      'Create the subscription with the API, transport method "webhook".',
      'callback: {url}',
      'secret: {secret}',
    ],
  }),
}
