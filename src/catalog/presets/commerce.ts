/** Presets of senders around payments, orders, customers and forms. */
import { hmac, lenient, optional, preset, required, signedBy } from './preset.ts'

export const COMMERCE = {
  /**
   * "The Event object". `data.object.amount` has no column: it is a number in most objects and an
   * object in `billing.credit_grant`, whose events would be refused.
   */
  STRIPE: preset({
    title: 'Stripe',
    signature: signedBy('STRIPE'),
    secret: 'SHOWN',
    columns: [
      required('id', 'STRING'),
      required('created', 'TIMESTAMP'),
      required('type', 'STRING'),
      optional('livemode', 'BOOLEAN'),
      optional('api_version', 'STRING'),
      optional('account', 'STRING'),
      optional('request_id', 'STRING', 'request.id'),
      optional('object', 'STRING', 'data.object.object'),
      optional('object_id', 'STRING', 'data.object.id'),
      optional('customer', 'STRING', 'data.object.customer'),
      optional('status', 'STRING', 'data.object.status'),
      optional('currency', 'STRING', 'data.object.currency'),
      optional('amount_received', 'INT64', 'data.object.amount_received'),
      optional('amount_paid', 'INT64', 'data.object.amount_paid'),
      optional('amount_refunded', 'INT64', 'data.object.amount_refunded'),
      optional('amount_total', 'INT64', 'data.object.amount_total'),
    ],
    timestamp: 'created',
    uniqueId: 'id',
    delivery: 'Stripe tries again for up to three days. A retry brings the same id and time.',
    steps: [
      'Open Developers › Webhooks and choose "Add endpoint".',
      'Endpoint URL: {url}',
      'Copy the signing secret (whsec_…) and give it to Weir.',
    ],
  }),
  /**
   * "About webhooks" and "Ignore duplicate webhooks". The event id is one for all webhooks of an
   * event, of other topics too, so it is no key. The id of the object is a number in some topics
   * and text in others; admin_graphql_api_id is text in all.
   */
  SHOPIFY: preset({
    title: 'Shopify',
    signature: signedBy('SHOPIFY'),
    secret: 'SHOWN',
    columns: [
      required('webhook_id', 'STRING', '$header.x-shopify-webhook-id'),
      required('topic', 'STRING', '$header.x-shopify-topic'),
      required('shop', 'STRING', '$header.x-shopify-shop-domain'),
      optional('event_id', 'STRING', '$header.x-shopify-event-id'),
      optional('triggered_at', 'TIMESTAMP', '$header.x-shopify-triggered-at'),
      optional('object_id', 'STRING', 'admin_graphql_api_id'),
      optional('name', 'STRING'),
      optional('email', 'STRING'),
      optional('created_at', 'TIMESTAMP'),
      optional('updated_at', 'TIMESTAMP'),
      optional('currency', 'STRING'),
      optional('financial_status', 'STRING'),
      lenient(optional('total_price', 'DOUBLE')),
      lenient(optional('subtotal_price', 'DOUBLE')),
      lenient(optional('total_tax', 'DOUBLE')),
    ],
    uniqueId: 'webhook_id',
    orderBy: ['webhook_id'],
    delivery:
      'Shopify tries again up to eight times in four hours with the same X-Shopify-Webhook-Id. Prices are text and are stored as numbers.',
    steps: [
      'Open Settings › Notifications › Webhooks of the shop and choose "Create webhook", format JSON; or subscribe with an app.',
      'URL: {url}',
      'Give Weir the signing secret under the list of webhooks, or the client secret of the app.',
    ],
  }),
  /** "Respond to webhooks" and "Verify webhook signatures" of Paddle Billing. */
  PADDLE: preset({
    title: 'Paddle Billing',
    signature: signedBy('PADDLE'),
    secret: 'SHOWN',
    columns: [
      required('event_id', 'STRING'),
      required('occurred_at', 'TIMESTAMP'),
      required('event_type', 'STRING'),
      optional('notification_id', 'STRING'),
      optional('object_id', 'STRING', 'data.id'),
      optional('status', 'STRING', 'data.status'),
      optional('customer_id', 'STRING', 'data.customer_id'),
      optional('subscription_id', 'STRING', 'data.subscription_id'),
      optional('currency', 'STRING', 'data.currency_code'),
      lenient(optional('total', 'INT64', 'data.details.totals.total')),
    ],
    timestamp: 'occurred_at',
    uniqueId: 'event_id',
    delivery:
      'Paddle tries again for three days, and a replay is another notification of the same event: both bring the same event_id and time.',
    steps: [
      'Open Developer tools › Notifications and choose "New destination", type URL.',
      'URL: {url}',
      'Copy the secret key of the destination (pdl_ntfset_…) and give it to Weir.',
    ],
  }),
  /**
   * "Webhooks" of the PayPal REST APIs. PayPal signs with a certificate that its receiver fetches;
   * Weir calls nobody, so it does not verify that.
   */
  PAYPAL: preset({
    title: 'PayPal',
    columns: [
      required('id', 'STRING'),
      required('create_time', 'TIMESTAMP'),
      required('event_type', 'STRING'),
      optional('resource_type', 'STRING'),
      optional('summary', 'STRING'),
      optional('resource_id', 'STRING', 'resource.id'),
      optional('status', 'STRING', 'resource.status'),
      optional('currency', 'STRING', 'resource.amount.currency_code'),
      lenient(optional('amount', 'DOUBLE', 'resource.amount.value')),
    ],
    timestamp: 'create_time',
    uniqueId: 'id',
    delivery:
      'PayPal tries again up to 25 times in three days. A retry brings the same id and time. Its signatures are not verified: compare important events with the API of PayPal.',
    steps: ['Open the app in the developer dashboard and choose "Add Webhook".', 'Webhook URL: {url}'],
  }),
  /**
   * "Webhooks API" of HubSpot: one request holds up to 100 events. Its event ids are not unique, so
   * the key is the id together with the subscription and the time.
   */
  HUBSPOT: preset({
    title: 'HubSpot',
    signature: signedBy('HUBSPOT'),
    secret: 'SHOWN',
    columns: [
      required('event_id', 'INT64', 'eventId'),
      required('subscription_id', 'INT64', 'subscriptionId'),
      required('occurred_at', 'TIMESTAMP', 'occurredAt'),
      required('subscription_type', 'STRING', 'subscriptionType'),
      optional('portal_id', 'INT64', 'portalId'),
      optional('app_id', 'INT64', 'appId'),
      optional('object_id', 'INT64', 'objectId'),
      optional('property_name', 'STRING', 'propertyName'),
      optional('property_value', 'STRING', 'propertyValue'),
      optional('change_source', 'STRING', 'changeSource'),
      optional('attempt_number', 'INT64', 'attemptNumber'),
    ],
    timestamp: 'occurred_at',
    uniqueId: 'event_id',
    orderBy: ['occurred_at', 'event_id', 'subscription_id'],
    delivery:
      'HubSpot tries again up to ten times in 24 hours. A retry differs in attemptNumber alone, so it replaces the rows.',
    steps: [
      'Open the app in the developer account, choose Webhooks and enter this target URL: {url}',
      'Copy the client secret of the app and give it to Weir.',
      'The public URL that Weir knows (--public-url) must be the one that HubSpot calls, because it is signed.',
    ],
  }),
  /** "Webhooks" of the Typeform developer platform. */
  TYPEFORM: preset({
    title: 'Typeform',
    signature: hmac('typeform-signature', { encoding: 'BASE64', prefix: 'sha256=' }),
    secret: 'OWN',
    columns: [
      required('event_id', 'STRING'),
      required('event_type', 'STRING'),
      optional('form_id', 'STRING', 'form_response.form_id'),
      optional('token', 'STRING', 'form_response.token'),
      optional('submitted_at', 'TIMESTAMP', 'form_response.submitted_at'),
      optional('landed_at', 'TIMESTAMP', 'form_response.landed_at'),
      optional('score', 'DOUBLE', 'form_response.calculated.score'),
      optional('hidden', 'JSON', 'form_response.hidden'),
      optional('answers', 'JSON', 'form_response.answers'),
    ],
    uniqueId: 'event_id',
    orderBy: ['event_id'],
    delivery: 'Typeform tries again for some hours with the same event_id.',
    steps: [
      'Open Connect › Webhooks of the form and choose "Add a webhook".',
      'Endpoint: {url}',
      'Secret: {secret}',
    ],
  }),
  /**
   * "Webhook payload" and "Webhook signatures" of Calendly. Its events have no id: what happened to
   * an invitee is one event for each kind and time.
   */
  CALENDLY: preset({
    title: 'Calendly',
    signature: hmac('calendly-webhook-signature', {
      prefix: 'v1=',
      signed: '{timestamp}.{body}',
      timestampHeader: 'calendly-webhook-signature',
    }),
    secret: 'OWN',
    columns: [
      required('invitee', 'STRING', 'payload.uri'),
      required('created_at', 'TIMESTAMP'),
      required('event', 'STRING'),
      optional('created_by', 'STRING'),
      optional('name', 'STRING', 'payload.name'),
      optional('email', 'STRING', 'payload.email'),
      optional('status', 'STRING', 'payload.status'),
      optional('starts_at', 'TIMESTAMP', 'payload.scheduled_event.start_time'),
      optional('ends_at', 'TIMESTAMP', 'payload.scheduled_event.end_time'),
    ],
    timestamp: 'created_at',
    uniqueId: 'invitee',
    orderBy: ['created_at', 'invitee', 'event'],
    delivery: 'Calendly tries again for up to 24 hours. A retry brings the same kind, invitee and time.',
    steps: [
      'Subscribe with the API: POST https://api.calendly.com/webhook_subscriptions',
      'url: {url}',
      'signing_key: {secret}',
    ],
  }),
  /** "Setting up webhooks" and "Signed notifications" of Intercom. */
  INTERCOM: preset({
    title: 'Intercom',
    signature: hmac('x-hub-signature', { algorithm: 'SHA1', prefix: 'sha1=' }),
    secret: 'SHOWN',
    handshakes: ['HEAD'],
    columns: [
      required('id', 'STRING'),
      required('created_at', 'TIMESTAMP'),
      required('topic', 'STRING'),
      optional('app_id', 'STRING'),
      optional('item_type', 'STRING', 'data.item.type'),
      optional('item_id', 'STRING', 'data.item.id'),
      optional('delivery_attempts', 'INT64'),
    ],
    timestamp: 'created_at',
    uniqueId: 'id',
    delivery:
      'Intercom tries again once after a minute. A retry brings the same id and created_at; the other times of its body differ.',
    steps: [
      'Open the app in the Developer Hub, choose Webhooks and enter this endpoint URL: {url}',
      'Copy the client secret of the app and give it to Weir.',
    ],
  }),
  /** "Spec: Common Fields" and "Webhooks (Actions) Destination" of Segment. */
  SEGMENT: preset({
    title: 'Segment',
    signature: hmac('x-signature', { algorithm: 'SHA1' }),
    secret: 'OWN',
    columns: [
      required('message_id', 'STRING', 'messageId'),
      required('timestamp', 'TIMESTAMP'),
      required('type', 'STRING'),
      optional('event', 'STRING'),
      optional('name', 'STRING'),
      optional('user_id', 'STRING', 'userId'),
      optional('anonymous_id', 'STRING', 'anonymousId'),
      optional('channel', 'STRING'),
      optional('page_path', 'STRING', 'context.page.path'),
      optional('ip_address', 'STRING', 'context.ip'),
      optional('properties', 'JSON'),
      optional('traits', 'JSON'),
      optional('sent_at', 'TIMESTAMP', 'sentAt'),
    ],
    timestamp: 'timestamp',
    uniqueId: 'message_id',
    delivery: 'Segment tries again for some hours. A retry brings the same messageId and timestamp.',
    steps: [
      'Add the destination "Webhooks (Actions)" and map the whole event as its data.',
      'URL: {url}',
      'Shared secret: {secret}',
    ],
  }),
}
