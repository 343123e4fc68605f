/**
 * The sections of the site and their pages, in the order in which they are shown. Pages are named
 * by their path in the repository. A page of docs/ that no section names stands at the end of
 * Reference, so a new page needs no entry here.
 */

/**
 * @typedef {object} Section
 * @property {string} title
 * @property {readonly string[]} pages
 */

/** @type {readonly Section[]} */
export const SECTIONS = [
  { title: 'Start', pages: ['docs/README.md', 'docs/how-to/README.md'] },
  {
    title: 'How to',
    pages: [
      'docs/how-to/receive-any-webhook.md',
      'docs/how-to/receive-stripe.md',
      'docs/how-to/protect-a-webhook.md',
      'docs/how-to/update-a-record.md',
      'docs/how-to/delete-a-record.md',
      'docs/how-to/watch-events-arrive.md',
      'docs/how-to/find-rejected-events.md',
      'docs/how-to/load-old-data.md',
      'docs/how-to/make-a-dashboard.md',
      'examples/dashboard/README.md',
      'docs/how-to/numbers-for-each-customer.md',
      'docs/how-to/ask-with-sql.md',
      'docs/how-to/get-data-out.md',
      'docs/how-to/delete-a-persons-data.md',
    ],
  },
  {
    title: 'Run it',
    pages: [
      'docs/how-to/run-in-production.md',
      'docs/deploy.md',
      'docs/cluster.md',
      'docs/how-to/back-up-to-a-bucket.md',
      'docs/how-to/move-to-a-cluster.md',
      'docs/how-to/repair-a-cluster.md',
      'docs/operating.md',
      'docs/http.md',
      'examples/deploy/README.md',
      'examples/cluster/README.md',
      'docs/upgrading.md',
      'CHANGELOG.md',
    ],
  },
  {
    title: 'Reference',
    pages: [
      'docs/contract.md',
      'docs/graphql-examples.md',
      'docs/graphql.md',
      'docs/query.md',
      'docs/expressions.md',
      'docs/sql.md',
      'docs/sql-functions.md',
      'docs/sql-forms.md',
      'docs/senders.md',
      'docs/jobs.md',
      'docs/import.md',
      'docs/tail.md',
      'docs/rejected-events.md',
      'docs/console.md',
    ],
  },
  {
    title: 'How it is made',
    pages: ['docs/glossary.md', 'docs/figures/README.md', 'docs/decisions/README.md'],
  },
]

/** The section that takes the pages of docs/ that no section names. */
export const SECTION_OF_OTHERS = 'Reference'

/** Folders whose pages are reached from their index page, and stand in no section themselves. */
export const FOLDERS_WITH_INDEX = ['docs/decisions/', 'docs/figures/']

/** Pages of sections that are no results of the search: they hold every word. */
export const NOT_SEARCHED = ['CHANGELOG.md', 'docs/figures/README.md', 'docs/decisions/README.md']
