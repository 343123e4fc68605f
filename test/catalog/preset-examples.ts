/**
 * Requests of the senders that have a preset, as their documentation publishes them; the comment
 * names its page. Long bodies are shortened to what the columns read and a few more fields.
 * presets.test.ts takes GitHub's other examples from @octokit/webhooks-examples.
 */
import type { PresetName } from '../../src/catalog/presets.ts'

export interface Example {
  /** By lower-case name, without those of signatures. */
  readonly headers?: Readonly<Record<string, string>>
  /** The JSON body, or the fields of a form. */
  readonly body: unknown
  /** What a second try of the same delivery has differently, where the sender documents it. */
  readonly retry?: { readonly headers?: Readonly<Record<string, string>>; readonly body?: object }
}

export const EXAMPLES: Readonly<Record<PresetName, readonly Example[]>> = {
  // Webhook events and payloads › Example webhook delivery
  GITHUB: [
    {
      headers: {
        'x-github-delivery': '72d3162e-cc78-11e3-81ab-4c9367dc0958',
        'x-github-event': 'issues',
        'x-github-hook-id': '292430182',
        'x-github-hook-installation-target-id': '79929171',
        'x-github-hook-installation-target-type': 'repository',
      },
      body: {
        action: 'opened',
        issue: { url: 'https://api.github.com/repos/octocat/Hello-World/issues/1347', number: 1347 },
        repository: {
          id: 1296269,
          full_name: 'octocat/Hello-World',
          owner: { login: 'octocat', id: 1 },
        },
        sender: { login: 'octocat', id: 1 },
      },
    },
  ],
  // Webhooks › Delivery headers; Webhook events › Push events
  GITLAB: [
    {
      headers: {
        'x-gitlab-event': 'Push Hook',
        'x-gitlab-instance': 'https://gitlab.com',
        'x-gitlab-webhook-uuid': '02affd2d-2cba-4033-917d-ec22d5dc4b38',
        'x-gitlab-event-uuid': '13792a34-cac6-4fda-95a8-c58e00a3954e',
        'idempotency-key': 'f5e57d02-2b2f-4b0c-8f0c-9f0f4c5f6a11',
      },
      body: {
        object_kind: 'push',
        event_name: 'push',
        before: '95790bf891e76fee5e1747ab589903a6a1f80f22',
        after: 'da1560886d4f094c3e6c9ef40349f7d38b5d27d7',
        ref: 'refs/heads/master',
        checkout_sha: 'da1560886d4f094c3e6c9ef40349f7d38b5d27d7',
        user_id: 4,
        user_name: 'John Smith',
        user_username: 'jsmith',
        project_id: 15,
        project: { id: 15, name: 'Diaspora', path_with_namespace: 'mike/diaspora', ci_config_path: null },
        commits: [{ id: 'b6568db1bc1dcd7f8b4d5a946b0b91f9dacd7327', timestamp: '2011-12-12T14:27:31+02:00' }],
        total_commits_count: 4,
      },
    },
  ],
  // Webhooks › The webhook payload
  LINEAR: [
    {
      headers: {
        'linear-delivery': '234d1a4e-b617-4388-90fe-adc3633d6b72',
        'linear-event': 'Comment',
      },
      body: {
        action: 'create',
        type: 'Comment',
        createdAt: '2020-01-23T12:53:18.084Z',
        data: {
          id: '2174add1-f7c8-44e3-bbf3-2d60b5ea8bc9',
          createdAt: '2020-01-23T12:53:18.084Z',
          updatedAt: '2020-01-23T12:53:18.084Z',
          archivedAt: null,
          body: 'Indeed, I think this is definitely an improvement over the previous version.',
          edited: false,
          issueId: '539068e2-ae88-4d09-bd75-22eb4a59612f',
          userId: 'aacdca22-6266-4c0a-ab3c-8fa70a26765c',
        },
        url: 'https://linear.app/issue/LIN-1778/foo-bar#comment-77217de3-fb52-4dad-bb9a-b356beb93de8',
        webhookTimestamp: 1676056940508,
        webhookId: '000042e3-d123-4980-b49f-8e140eef9329',
      },
      retry: { body: { webhookTimestamp: 1676057000508 } },
    },
  ],
  // Integration platform › Webhooks › Headers and Payload; Installation
  SENTRY: [
    {
      headers: {
        'request-id': '6d1cbb4b-5a0c-4f14-8f5c-2a6a36e5a1d0',
        'sentry-hook-resource': 'installation',
        'sentry-hook-timestamp': '1532454180',
      },
      body: {
        action: 'created',
        actor: { id: 1, name: 'Meredith Heller', type: 'user' },
        data: {
          installation: {
            status: 'pending',
            organization: { slug: 'test-org' },
            app: { uuid: '2ebf071f-28df-4989-aca9-c37c763b9151', slug: 'webhooks-galore' },
            code: 'f3c71b491e3949b6b033ed45312d4fa3',
            uuid: 'a8e5d37a-696c-4c54-adb5-b3f28d64c7de',
          },
        },
        installation: { uuid: 'a8e5d37a-696c-4c54-adb5-b3f28d64c7de' },
      },
    },
  ],
  // Webhooks › Example callback for an issue-related event; Webhook headers
  JIRA: [
    {
      headers: { 'x-atlassian-webhook-identifier': '8a3e1d8e-7d57-4bb3-9f3f-4d3c1f5b9a10' },
      body: {
        id: 2,
        timestamp: 1525698237764,
        issue: {
          id: '99291',
          self: 'https://your-domain.atlassian.net/rest/api/2/issue/99291',
          key: 'JRA-20002',
          fields: {
            summary: 'I feel the need for speed',
            created: '2009-12-16T23:46:10.612-0600',
            labels: ['UI', 'dialogue', 'move'],
          },
        },
        user: {
          accountId: '99:27935d01-92a7-4687-8272-a9b8d3b2ae2e',
          displayName: 'Bryan Rollins [Atlassian]',
        },
        changelog: {
          items: [
            {
              toString: 'A new summary.',
              to: null,
              fromString: 'What is going on here?????',
              from: null,
              fieldtype: 'jira',
              field: 'summary',
            },
          ],
          id: 10124,
        },
        comment: { id: '252789', body: 'Just in time for AtlasCamp!' },
        webhookEvent: 'jira:issue_updated',
      },
      retry: { headers: { 'x-atlassian-webhook-retry': '1' } },
    },
  ],
  // Webhooks API Reference › Payload; deployment.created
  VERCEL: [
    {
      body: {
        id: 'uev_7xHhPkkmxPVQJ1dmkCNCJ1JE',
        type: 'deployment.created',
        createdAt: 1645461845123,
        region: null,
        payload: {
          team: { id: 'team_nLlpyC6REAqxydlFKbrMDlud' },
          user: { id: 'Zs8L3WHsmQhTPwMVgRJxVXpW' },
          target: null,
          links: { deployment: 'https://vercel.com/a', project: 'https://vercel.com/b' },
          project: { id: 'QmTrK3' },
          deployment: {
            id: 'dpl_FjvFJncQHQcZMznrUm9EoB8sFuPa',
            meta: {},
            name: 'my-app',
            url: 'my-app.vercel.app',
          },
          plan: 'pro',
          regions: ['sfo1'],
        },
      },
    },
  ],
  // Webhooks Overview › Webhook Payload (v3)
  PAGERDUTY: [
    {
      headers: { 'x-webhook-subscription': 'PZ8T0AM' },
      body: {
        event: {
          id: '5ac64822-4adc-4fda-ade0-410becf0de4f',
          event_type: 'incident.priority_updated',
          resource_type: 'incident',
          occurred_at: '2020-10-02T18:45:22.169Z',
          agent: {
            html_url: 'https://acme.pagerduty.com/users/PLH1HKV',
            id: 'PLH1HKV',
            type: 'user_reference',
          },
          client: { name: 'PagerDuty' },
          data: {
            id: 'PGR0VU2',
            type: 'incident',
            number: 2,
            status: 'triggered',
            title: 'A little bump in the road',
            service: { id: 'PF9KMXH', summary: 'API Service' },
            urgency: 'high',
            created_at: '2020-04-09T15:16:27Z',
          },
        },
      },
    },
  ],
  // Webhooks › Payload: the default one, with values for its variables
  DATADOG: [
    {
      body: {
        body: 'The monitor was triggered',
        last_updated: '1406662672000',
        event_type: 'metric_alert_monitor',
        title: '[Triggered] [Memory Alert]',
        date: '1406662672000',
        org: { id: '11023', name: 'Datadog' },
        id: '1234567',
      },
    },
  ],
  // Webhooks overview › Payload structure; Svix headers
  CLERK: [
    {
      headers: { 'svix-id': 'msg_p5jXN8AQM9LWM0D4loKWxJek', 'svix-timestamp': '1614265330' },
      body: {
        data: {
          birthday: '',
          created_at: 1654012591514,
          email_addresses: [{ email_address: 'example@example.org', id: 'idn_29w83yL7CwVlJXylYLxcslromF1' }],
          first_name: 'Example',
          id: 'user_29w83sxmDNGwOuEthce5gg56FcC',
          object: 'user',
          updated_at: 1654012591835,
          username: null,
        },
        event_attributes: { http_request: { client_ip: '0.0.0.0' } },
        instance_id: 'ins_123',
        object: 'event',
        timestamp: 1654012591835,
        type: 'user.created',
      },
      retry: { headers: { 'svix-timestamp': '1614265390' } },
    },
  ],
  // Event hooks › Sample event delivery payload
  OKTA: [
    {
      body: {
        eventId: 'b5a188b9-5ece-4636-b041-482ffda96311',
        eventTime: '2020-01-17T21:23:56.609Z',
        eventType: 'com.okta.event_hook',
        eventTypeVersion: '1.0',
        cloudEventVersion: '0.1',
        contentType: 'application/json',
        source: 'https://{yourOktaDomain}/api/v1/eventHooks/who7wkyRVc0O5GiIB0h7',
        data: {
          events: [
            {
              version: '0',
              severity: 'INFO',
              client: { zone: 'OFF_NETWORK', device: 'Unknown', ipAddress: '192.0.2.1' },
              actor: { id: '00uttidj01jqL21aM1d6', type: 'User', alternateId: 'john.doe@example.com' },
              outcome: { result: 'SUCCESS' },
              uuid: '0c1c7d9a-5b0d-11ea-8f5e-8b1d2f1e1b1a',
              published: '2020-01-17T21:23:56.609Z',
              eventType: 'user.session.start',
              displayMessage: 'User login to Okta',
              target: [{ id: '00uttidj01jqL21aM1d6', type: 'User' }],
            },
          ],
        },
      },
    },
  ],
  // API reference › The Event object
  STRIPE: [
    {
      body: {
        id: 'evt_1NG8Du2eZvKYlo2CUI79vXWy',
        object: 'event',
        api_version: '2019-02-19',
        created: 1686089970,
        data: {
          object: {
            id: 'seti_1NG8Du2eZvKYlo2C9XMqbR0x',
            object: 'setup_intent',
            created: 1686089970,
            customer: null,
            livemode: false,
            payment_method_types: ['acss_debit'],
            status: 'requires_confirmation',
          },
        },
        livemode: false,
        pending_webhooks: 0,
        request: { id: null, idempotency_key: null },
        type: 'setup_intent.created',
      },
      retry: { body: { pending_webhooks: 1 } },
    },
  ],
  // About webhooks › Headers; orders/create sample payload
  SHOPIFY: [
    {
      headers: {
        'x-shopify-topic': 'orders/create',
        'x-shopify-shop-domain': 'test-shop.myshopify.com',
        'x-shopify-api-version': '2023-01',
        'x-shopify-webhook-id': 'b54557e4-bdd9-4b37-8a5f-bf7d70bcd043',
        'x-shopify-triggered-at': '2023-03-29T18:00:27.877041743Z',
        'x-shopify-event-id': '98880550-7158-44d4-b7cd-2c97c8a091b5',
      },
      body: {
        admin_graphql_api_id: 'gid://shopify/Order/820982911946154508',
        app_id: null,
        cancelled_at: '2021-12-31T19:00:00-05:00',
        created_at: '2021-12-31T19:00:00-05:00',
        currency: 'USD',
        email: 'jon@example.com',
        financial_status: 'voided',
        name: '#9999',
        order_number: 1234,
        subtotal_price: '388.00',
        total_price: '398.00',
        total_tax: '0.00',
        updated_at: '2021-12-31T19:00:00-05:00',
        line_items: [{ price: '199.00', quantity: 1, sku: 'IPOD2008PINK' }],
      },
    },
  ],
  // Webhooks › Respond to webhooks › Example payload
  PADDLE: [
    {
      body: {
        event_id: 'evt_01hv8x29kz0t586xy6zn1a62ny',
        event_type: 'transaction.created',
        occurred_at: '2024-04-12T10:18:49.621022Z',
        notification_id: 'ntf_01hv8x29rpq1qvwvbbk6gzb8jt',
        data: {
          id: 'txn_01hv8wptq8987qeep44cyrewp9',
          status: 'draft',
          customer_id: null,
          subscription_id: null,
          currency_code: 'USD',
          details: { totals: { subtotal: '60000', tax: '5325', total: '65325' } },
          created_at: '2024-04-12T10:18:48.831323Z',
        },
      },
      retry: { body: { notification_id: 'ntf_01hv8x2acma2gz7he8kg2s0hna' } },
    },
  ],
  // Webhooks › Event headers and payload
  PAYPAL: [
    {
      headers: { 'paypal-transmission-id': 'b2384410-f8d2-11e4-8bf3-77339302725b' },
      body: {
        id: '8PT597110X687430LKGECATA',
        create_time: '2013-06-25T21:41:28Z',
        resource_type: 'authorization',
        event_type: 'PAYMENT.AUTHORIZATION.CREATED',
        summary: 'A payment authorization was created',
        resource: {
          id: '2DC87612EK520411B',
          create_time: '2013-06-25T21:39:15Z',
          state: 'authorized',
          amount: { total: '7.47', currency: 'USD', details: { subtotal: '7.47' } },
          parent_payment: 'PAY-36246664YD343335CKHFA4AY',
        },
      },
    },
  ],
  // Webhooks API › Webhook payloads
  HUBSPOT: [
    {
      body: [
        {
          objectId: 1246965,
          propertyName: 'lifecyclestage',
          propertyValue: 'subscriber',
          changeSource: 'ACADEMY',
          eventId: 3816279340,
          subscriptionId: 25,
          portalId: 33,
          appId: 1160452,
          occurredAt: 1462216307945,
          subscriptionType: 'contact.propertyChange',
          attemptNumber: 0,
        },
        {
          objectId: 1246978,
          changeSource: 'IMPORT',
          eventId: 3816279480,
          subscriptionId: 22,
          portalId: 33,
          appId: 1160452,
          occurredAt: 1462216307945,
          subscriptionType: 'contact.creation',
          attemptNumber: 0,
        },
      ],
      retry: { body: { attemptNumber: 1 } },
    },
  ],
  // Webhooks › Example payload
  TYPEFORM: [
    {
      body: {
        event_id: 'LtWXD3crgy',
        event_type: 'form_response',
        form_response: {
          form_id: 'lT4Z3j',
          token: 'a3a12ec67a1365927098a606107fac15',
          submitted_at: '2018-01-18T18:17:02Z',
          landed_at: '2018-01-18T18:07:02Z',
          calculated: { score: 9 },
          variables: [{ key: 'score', type: 'number', number: 4 }],
          hidden: { user_id: 'abc123456' },
          definition: { id: 'lT4Z3j', title: 'Webhooks example' },
          answers: [
            { type: 'text', text: "It's cold right now!", field: { id: 'DlXFaesGBpoF', type: 'long_text' } },
          ],
        },
      },
    },
  ],
  // Webhook payload › Invitee created
  CALENDLY: [
    {
      body: {
        created_at: '2020-11-23T17:51:19.000000Z',
        created_by: 'https://api.calendly.com/users/AAAAAAAAAAAAAAAA',
        event: 'invitee.created',
        payload: {
          cancel_url: 'https://calendly.com/cancellations/AAAAAAAAAAAAAAAA',
          created_at: '2020-11-23T17:51:18.327602Z',
          email: 'test@example.com',
          event: 'https://api.calendly.com/scheduled_events/AAAAAAAAAAAAAAAA',
          name: 'John Doe',
          questions_and_answers: [],
          rescheduled: false,
          status: 'active',
          timezone: 'America/New_York',
          uri: 'https://api.calendly.com/scheduled_events/AAAAAAAAAAAAAAAA/invitees/AAAAAAAAAAAAAAAA',
        },
      },
    },
  ],
  // Webhook models › Notification object
  INTERCOM: [
    {
      body: {
        type: 'notification_event',
        app_id: 'a86dr8yl',
        data: {
          type: 'notification_event_data',
          item: { type: 'company', company_id: '6', id: '531ee472cce572a6ec000006', name: 'Blue Sun' },
        },
        links: {},
        id: 'notif_ccd8a4d0-f965-11e3-a367-c779cae3e1b3',
        topic: 'company.created',
        delivery_status: 'pending',
        delivery_attempts: 1,
        delivered_at: 0,
        first_sent_at: 1392731331,
        created_at: 1392731331,
        self: null,
      },
      retry: { body: { delivery_status: 'retry', delivery_attempts: 2, delivered_at: 1392731391 } },
    },
  ],
  // Spec › Common Fields
  SEGMENT: [
    {
      body: {
        anonymousId: '507f191e810c19729de860ea',
        context: { active: true, app: { name: 'InitechGlobal' }, ip: '8.8.8.8', page: { path: '/academy/' } },
        integrations: { All: true, Mixpanel: false },
        messageId: '022bb90c-bbac-11e4-8dfc-aa07a5b093db',
        receivedAt: '2015-12-10T04:08:31.909Z',
        sentAt: '2015-12-10T04:08:31.581Z',
        timestamp: '2015-12-10T04:08:31.905Z',
        type: 'track',
        userId: '97980cfea0067',
        version: 2,
      },
    },
  ],
  // The Events API › Callback field
  SLACK: [
    {
      body: {
        token: 'XXYYZZ',
        team_id: 'T123ABC456',
        api_app_id: 'A123ABC456',
        event: {
          type: 'message',
          channel: 'C123ABC456',
          user: 'U123ABC456',
          text: 'Live long and prospect.',
          ts: '1355517523.000005',
          event_ts: '1355517523.000005',
        },
        type: 'event_callback',
        authed_users: ['U123ABC456'],
        event_id: 'Ev123ABC456',
        event_time: 1355517523,
      },
      retry: { headers: { 'x-slack-retry-num': '1', 'x-slack-retry-reason': 'http_timeout' } },
    },
    // events/channel_rename: the channel is an object
    {
      body: {
        team_id: 'T123ABC456',
        api_app_id: 'A123ABC456',
        event: {
          type: 'channel_rename',
          channel: { id: 'C02ELGNBH', name: 'new_name', created: 1360782804 },
        },
        type: 'event_callback',
        event_id: 'Ev123ABC457',
        event_time: 1360782804,
      },
    },
  ],
  // Meetings › meeting.started
  ZOOM: [
    {
      headers: { 'x-zm-request-timestamp': '1626230691' },
      body: {
        event: 'meeting.started',
        event_ts: 1626230691572,
        payload: {
          account_id: 'AAAAAABBBB',
          object: {
            id: '1234567890',
            uuid: '4444AAAiAAAAAiAiAiiAii==',
            host_id: 'x1yCzABCDEfg23HiJKl4mN',
            topic: 'My Meeting',
            type: 8,
            start_time: '2021-07-13T21:44:51Z',
            timezone: 'America/Los_Angeles',
            duration: 60,
          },
        },
      },
    },
  ],
  // Messenger platform › Webhook events; WhatsApp Business platform › Webhooks › Components
  META: [
    {
      body: {
        object: 'page',
        entry: [
          {
            id: '1234567890',
            time: 1458692752478,
            messaging: [
              {
                sender: { id: '9876543210' },
                recipient: { id: '1234567890' },
                timestamp: 1458692752478,
                message: { mid: 'mid.1457764197618:41d102a3e1ae206a38', text: 'hello, world!' },
              },
            ],
          },
        ],
      },
    },
    {
      body: {
        object: 'whatsapp_business_account',
        entry: [
          {
            id: '8856996819413533',
            changes: [
              {
                value: {
                  messaging_product: 'whatsapp',
                  metadata: { display_phone_number: '16505553333', phone_number_id: '27681414235104944' },
                  contacts: [{ profile: { name: 'Kerry Fisher' }, wa_id: '16315551234' }],
                  messages: [
                    {
                      from: '16315551234',
                      id: 'wamid.ABGGFlCGg0cvAgo-sJQh43L5Pe4W',
                      timestamp: '1603059201',
                      text: { body: 'Hello this is an answer' },
                      type: 'text',
                    },
                  ],
                },
                field: 'messages',
              },
            ],
          },
        ],
      },
    },
  ],
  // Messaging webhooks › Track the message status; TwiML › Request parameters
  TWILIO: [
    {
      headers: { 'i-twilio-idempotency-token': '4ee0a1c5-0d0b-4f34-9f2e-3f0b4a5a4b0f' },
      body: {
        SmsSid: 'SM2xxxxxx',
        SmsStatus: 'sent',
        Body: 'McAvoy or Stewart? These timelines can get so confusing.',
        MessageStatus: 'sent',
        To: '+1512zzzyyyy',
        MessageSid: 'SM2xxxxxx',
        AccountSid: 'ACxxxxxxx',
        From: '+1512xxxyyyy',
        ApiVersion: '2010-04-01',
      },
    },
    {
      headers: { 'i-twilio-idempotency-token': 'ae6e5a0a-8c9b-4b8c-9f3f-5c2a0a8d0b1e' },
      body: {
        MessageSid: 'SM1',
        NumMedia: '0',
        NumSegments: '1',
        From: '+14017122661',
        To: '+15558675310',
        Body: 'Ahoy!',
      },
    },
  ],
  // Event Webhook Reference › Events
  SENDGRID: [
    {
      body: [
        {
          email: 'example@test.com',
          timestamp: 1513299569,
          'smtp-id': '<14c5d75ce93.dfd.64b469@ismtpd-555>',
          event: 'processed',
          category: 'cat facts',
          sg_event_id: 'sg_event_id',
          sg_message_id: 'sg_message_id',
        },
        {
          email: 'example@test.com',
          timestamp: 1513299569,
          'smtp-id': '<14c5d75ce93.dfd.64b469@ismtpd-555>',
          event: 'deferred',
          category: ['cat facts'],
          sg_event_id: 'sg_event_id_2',
          sg_message_id: 'sg_message_id',
          response: '400 try again later',
          attempt: '5',
        },
      ],
    },
  ],
  // Webhooks › Event structure: opened
  MAILGUN: [
    {
      body: {
        signature: {
          token: 'bf8b1c4e7d0a4e3f8b9c0d1e2f3a4b5c6d7e8f9a0b1c2d3e4f',
          timestamp: '1529006854',
          signature: 'd2271d12299f6592d9d44cd9d250f0704e4674c30d79d07c47a66f95ce71cf55',
        },
        'event-data': {
          id: 'Ase7i2zsRYeDXztHGENqRA',
          timestamp: 1521243339.873676,
          'log-level': 'info',
          event: 'opened',
          recipient: 'alice@example.com',
          'recipient-domain': 'example.com',
          ip: '50.56.129.169',
          tags: ['my_tag_1', 'my_tag_2'],
          'user-variables': { my_var_1: 'Mailgun Variable #1' },
          geolocation: { country: 'US', region: 'CA', city: 'San Francisco' },
        },
      },
    },
  ],
  // Webhook Events › Webhook event payloads › Application authorized
  DISCORD: [
    {
      body: {
        version: 1,
        application_id: '1234560123453231555',
        type: 1,
        event: {
          type: 'APPLICATION_AUTHORIZED',
          timestamp: '2024-10-18T14:42:53.064834',
          data: {
            integration_type: 1,
            scopes: ['applications.commands'],
            user: { id: '191546974210842624', username: 'beef_supreme', global_name: 'Beef' },
          },
        },
      },
    },
  ],
  // EventSub › Handling webhook events › Processing an event
  TWITCH: [
    {
      headers: {
        'twitch-eventsub-message-id': 'befa7b53-d79d-478f-86b9-120f112b044e',
        'twitch-eventsub-message-retry': '0',
        'twitch-eventsub-message-type': 'notification',
        'twitch-eventsub-message-timestamp': '2022-11-16T10:11:12.464757833Z',
        'twitch-eventsub-subscription-type': 'channel.follow',
        'twitch-eventsub-subscription-version': '1',
      },
      body: {
        subscription: {
          id: 'f1c2a387-161a-49f9-a165-0f21d7a4e1c4',
          status: 'enabled',
          type: 'channel.follow',
          version: '1',
          cost: 1,
          condition: { broadcaster_user_id: '12826' },
          transport: { method: 'webhook', callback: 'https://example.com/webhooks/callback' },
          created_at: '2022-11-16T10:11:12.634234626Z',
        },
        event: {
          user_id: '1337',
          user_login: 'awesome_user',
          user_name: 'Awesome_User',
          broadcaster_user_id: '12826',
          broadcaster_user_login: 'twitch',
          broadcaster_user_name: 'Twitch',
          followed_at: '2022-11-16T10:11:12.634234626Z',
        },
      },
      retry: {
        headers: {
          'twitch-eventsub-message-retry': '1',
          'twitch-eventsub-message-timestamp': '2022-11-16T10:12:12.464757833Z',
        },
      },
    },
  ],
  // Standard Webhooks › Webhook metadata; Payload structure
  STANDARD_WEBHOOKS: [
    {
      headers: { 'webhook-id': 'msg_2KWPBgLlAfxdpx2AI54pPJ85f4W', 'webhook-timestamp': '1674087231' },
      body: {
        type: 'contact.created',
        timestamp: '2022-11-03T20:26:10.344522Z',
        data: {
          id: '1f81eb52-5198-4599-803e-771906343485',
          type: 'contact',
          first_name: 'John',
          last_name: 'Smith',
        },
      },
      retry: { headers: { 'webhook-timestamp': '1674087291' } },
    },
  ],
  // Verifying webhooks manually
  SVIX: [
    {
      headers: { 'svix-id': 'msg_p5jXN8AQM9LWM0D4loKWxJek', 'svix-timestamp': '1614265330' },
      body: { test: 2432232314 },
      retry: { headers: { 'svix-timestamp': '1614265390' } },
    },
  ],
  // Webhooks › Handling webhook requests
  OPENAI: [
    {
      headers: {
        'webhook-id': 'wh_685342e6c53c8190a1be43f081506c52',
        'webhook-timestamp': '1750287078',
      },
      body: {
        object: 'event',
        id: 'evt_685343a1381c819085d44c354e1b330e',
        type: 'response.completed',
        created_at: 1750287018,
        data: { id: 'resp_abc123' },
      },
      retry: { headers: { 'webhook-timestamp': '1750287138' } },
    },
  ],
  // CloudEvents, JSON event format › Examples
  CLOUDEVENTS: [
    {
      body: {
        specversion: '1.0',
        type: 'com.example.someevent',
        source: '/mycontext',
        subject: null,
        id: 'C234-1234-1234',
        time: '2018-04-05T17:31:00Z',
        comexampleextension1: 'value',
        comexampleothervalue: 5,
        datacontenttype: 'application/json',
        data: { appinfoA: 'abc', appinfoB: 123, appinfoC: true },
      },
    },
    {
      body: {
        specversion: '1.0',
        type: 'com.example.someevent',
        source: '/mycontext',
        id: 'A234-1234-1234',
        datacontenttype: 'text/xml',
        data: '<much wow="xml"/>',
      },
    },
  ],
  // CloudEvents, HTTP protocol binding › Examples, binary content mode
  CLOUDEVENTS_BINARY: [
    {
      headers: {
        'ce-specversion': '1.0',
        'ce-type': 'com.example.someevent',
        'ce-time': '2018-04-05T03:56:24Z',
        'ce-id': '1234-1234-1234',
        'ce-source': '/mycontext/subcontext',
      },
      body: { appinfoA: 'abc' },
    },
  ],
  // Azure Event Grid event schema › Sample event
  EVENT_GRID: [
    {
      headers: { 'aeg-event-type': 'Notification' },
      body: [
        {
          topic:
            '/subscriptions/{subscription-id}/resourceGroups/Storage/providers/Microsoft.Storage/storageAccounts/xstoretestaccount',
          subject:
            '/blobServices/default/containers/oc2d2817345i200097container/blobs/oc2d2817345i20002296blob',
          eventType: 'Microsoft.Storage.BlobCreated',
          eventTime: '2017-06-26T18:41:00.9584103Z',
          id: '831e1650-001e-001b-66ab-eeb76e069631',
          data: { api: 'PutBlockList', contentLength: 524288 },
          dataVersion: '',
          metadataVersion: '1',
        },
      ],
    },
  ],
  // Receive change notifications through webhooks › Change notification example
  MICROSOFT_GRAPH: [
    {
      body: {
        value: [
          {
            id: 'lsgTZMr9KwAAA',
            subscriptionId: '{subscription_guid}',
            subscriptionExpirationDateTime: '2016-03-19T22:11:09.952Z',
            clientState: 'secretClientValue',
            changeType: 'created',
            resource: 'users/{user_guid}@{tenant_guid}/messages/{long_id_string}',
            tenantId: '84bd8158-6d4d-4958-8b9f-9d6445542f95',
            resourceData: {
              '@odata.type': '#Microsoft.Graph.Message',
              '@odata.id': 'Users/{user_guid}@{tenant_guid}/Messages/{long_id_string}',
              id: '{long_id_string}',
            },
          },
        ],
      },
    },
  ],
  // HTTP/HTTPS notification JSON format; subscription confirmation JSON format
  SNS: [
    {
      headers: { 'x-amz-sns-message-type': 'Notification' },
      body: {
        Type: 'Notification',
        MessageId: '22b80b92-fdea-4c2c-8f9d-bdfb0c7bf324',
        TopicArn: 'arn:aws:sns:us-west-2:123456789012:MyTopic',
        Subject: 'My First Message',
        Message: 'Hello world!',
        Timestamp: '2012-05-02T00:54:06.655Z',
        SignatureVersion: '1',
        Signature: 'EXAMPLEw6JRN',
        SigningCertURL:
          'https://sns.us-west-2.amazonaws.com/SimpleNotificationService-f3ecfb7224c7233fe7bb5f59f96de52f.pem',
        UnsubscribeURL: 'https://sns.us-west-2.amazonaws.com/?Action=Unsubscribe',
      },
    },
    {
      headers: { 'x-amz-sns-message-type': 'SubscriptionConfirmation' },
      body: {
        Type: 'SubscriptionConfirmation',
        MessageId: '165545c9-2a5c-472c-8df2-7ff2be2b3b1b',
        Token: '2336412f37',
        TopicArn: 'arn:aws:sns:us-west-2:123456789012:MyTopic',
        Message: 'You have chosen to subscribe to the topic.',
        SubscribeURL: 'https://sns.us-west-2.amazonaws.com/?Action=ConfirmSubscription',
        Timestamp: '2012-04-26T20:45:04.751Z',
        SignatureVersion: '1',
      },
    },
  ],
  // Event types & delivery › page.created
  NOTION: [
    {
      body: {
        id: '367cba44-b6f3-4c92-81e7-6a2e9659efd4',
        timestamp: '2024-12-05T23:55:34.285Z',
        workspace_id: '13950b26-c203-4f3b-b97d-93ec06319565',
        workspace_name: 'Quantify Labs',
        subscription_id: '29d75c0d-5546-4414-8459-7b7a92f1fc4b',
        integration_id: '0ef2e755-4912-8096-91c1-00376a88a5ca',
        type: 'page.created',
        authors: [{ id: 'c7c11cca-1d73-471d-9b6e-bdef51470190', type: 'person' }],
        accessible_by: [{ id: '556a1abf-4f08-40c6-878a-75890d2a88ba', type: 'person' }],
        attempt_number: 1,
        entity: { id: '153104cd-477e-809d-8dc4-ff2d96ae3090', type: 'page' },
        data: { parent: { id: '13950b26-c203-4f3b-b97d-93ec06319565', type: 'space' } },
      },
      retry: { body: { attempt_number: 2 } },
    },
  ],
  // Webhooks guide › Receiving events
  ASANA: [
    {
      body: {
        events: [
          {
            action: 'changed',
            created_at: '2013-08-21T18:20:37.972Z',
            parent: null,
            change: {
              field: 'assignee',
              action: 'changed',
              new_value: { gid: '12345', resource_type: 'user' },
            },
            resource: { gid: '1337', resource_type: 'task', resource_subtype: 'default_task' },
            user: { gid: '1123', resource_type: 'user' },
          },
        ],
      },
    },
    { body: { events: [] } },
  ],
  // Webhooks › Example webhook response
  TRELLO: [
    {
      body: {
        action: {
          id: '51f9424bcd6e040f3c002412',
          idMemberCreator: '4fc78a59a885233f4b349bd9',
          data: {
            board: { name: 'Trello Development', id: '4d5ea62fd76aa1136000000c' },
            card: { idShort: 1458, name: 'Webhooks', id: '51a79e72dbb7e23c7c003778' },
            voted: true,
          },
          type: 'voteOnCard',
          date: '2013-07-31T16:58:51.949Z',
          memberCreator: { id: '4fc78a59a885233f4b349bd9', username: 'doug' },
        },
        model: { id: '4d5ea62fd76aa1136000000c', name: 'Trello Development' },
      },
    },
  ],
  // Webhooks › Notifications
  DROPBOX: [
    {
      body: {
        list_folder: { accounts: ['dbid:AAH4f99T0taONIb-OurWxbNQ6ywGRopQngc'] },
        delta: { users: [12345678] },
      },
    },
  ],
}
