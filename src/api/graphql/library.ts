/** The graphql package, loaded as util/load-package.ts explains. */
import type * as Graphql from 'graphql'
import { loadPackage } from '../../util/load-package.ts'

export const graphql = loadPackage('graphql') as typeof Graphql
export const { Kind, TokenKind } = graphql

export type GraphQLError = Graphql.GraphQLError
