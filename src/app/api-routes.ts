/**
 * Every route that the program adds to those of the front end itself (api/control.ts). They stand
 * in one function without other effects, so that the test of the OpenAPI document compares them
 * with the document and starts no server.
 */
import type { GraphQLSchema } from 'graphql'
import type { ApiDeps } from '../api/api-types.ts'
import { consoleRoutes } from '../api/console-files.ts'
import { descriptionRoutes } from '../api/description-routes.ts'
import { exportRoutes } from '../api/export-routes.ts'
import { queryRoute } from '../api/query-route.ts'
import type { Sessions } from '../api/sessions.ts'
import { tailRoute } from '../api/tail-route.ts'
import { type AdminDeps, adminRoutes } from './admin-routes.ts'

interface RouteDeps {
  readonly admin: AdminDeps
  readonly query: Parameters<typeof queryRoute>[0]
  readonly exported: Parameters<typeof exportRoutes>[0]
  readonly tail: Parameters<typeof tailRoute>[0]
  readonly schema: GraphQLSchema
  /** Absent with `--console off`. `folder`: where set-up has built the pages. */
  readonly console: { readonly sessions: Sessions; readonly folder: string } | undefined
}

export function apiRoutes(deps: RouteDeps): Pick<ApiDeps, 'routes' | 'pages'> {
  const { admin, query, exported, tail, schema, console } = deps
  return {
    routes: [
      ...adminRoutes(admin),
      queryRoute(query),
      ...exportRoutes(exported),
      tailRoute(tail),
      ...descriptionRoutes({ schema, verify: admin.verify }),
      ...(console === undefined ? [] : console.sessions.routes()),
    ],
    pages: console === undefined ? [] : consoleRoutes(console.folder),
  }
}
